//! A session's events as a stream that can be resumed.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::feed::Since;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::routes::v1::events::{last_event, sse};
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
    let since = last_event(&headers)?.unwrap_or_default();
    sse(&app, &session, Since::After(since)).await
}
