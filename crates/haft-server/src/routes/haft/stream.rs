//! A session's events as a stream that can be resumed.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use haft_wire::managed::Place;

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::feed::Since;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::routes::v1::events::sse;
use crate::session::Session;

/// From the beginning, or after the event that `Last-Event-ID` names.
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    headers: HeaderMap,
    params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let session = Session::seen(&app, &caller, &session).await?;
    let since = match headers.get("last-event-id") {
        None => Place::default(),
        Some(id) => {
            let id = id.to_str().unwrap_or_default();
            id.parse().map_err(|error| Error::invalid(format!("Last-Event-ID: {error}")))?
        }
    };
    sse(&app, &session, Since::After(since)).await
}
