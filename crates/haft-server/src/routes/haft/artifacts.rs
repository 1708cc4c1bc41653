//! Outputs that are kept outside the log.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::IntoResponse;
use haft_core::ArtifactId;

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;

/// Gives an artifact's bytes to whoever may see its session, as a download: whatever a tool made is
/// not shown as a page of ours.
pub(super) async fn read(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let missing = || Error::not_found("artifact", &id);
    let artifact: ArtifactId = id.parse().map_err(|_| missing())?;
    let found = app.store().artifact(&caller.tenant, artifact).await?.ok_or_else(missing)?;
    let may_read = match found.session {
        Some(session) => Found::seen(&app, &caller, session).await?.is_some(),
        // An uploaded file, whose owner reads it as a file.
        None => caller.owns_only().is_none(),
    };
    if !may_read {
        return Err(missing());
    }
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, found.body))
}
