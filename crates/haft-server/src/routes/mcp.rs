//! `/mcp`: the node's tools for MCP clients, with the keys of the rest of the server.

use axum::Router;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header::{CACHE_CONTROL, REFERRER_POLICY};
use axum::http::{StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use haft_mcp::{CredentialId, HttpDoor, McpServer, MountError, Principal};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::keys::Scope;

/// Where a person comes back to who has authorized this server at another one.
pub(super) const AUTHORIZED_AT: &str = "/mcp/authorized";

pub(super) fn router(app: &App, served: &McpServer) -> Router<App> {
    // Names and origins are the guard's, for every path alike.
    let door = HttpDoor { hosts: None, origins: None, anonymous: None, resource_metadata: None };
    Router::new()
        .route_service(super::MCP_AT, served.http(door))
        .layer(middleware::from_fn_with_state(app.clone(), known))
}

/// Says who calls, by their key.
async fn known(State(app): State<App>, request: Request, next: Next) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    caller.require(Scope::Write)?;
    parts.extensions.insert(CredentialId(caller.key().to_owned()));
    parts.extensions.insert(Principal { actor: caller.actor, tenant: caller.tenant });
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Takes the word of whoever gives tokens for another server, which a person brings along. They
/// have no key here; what they bring was given to them alone.
pub(super) async fn authorized(State(app): State<App>, uri: Uri) -> Response {
    let returned_to = format!("http://localhost{uri}");
    let done = match app.mounts() {
        Some(mounts) => mounts.authorized(&returned_to).await,
        None => Err(MountError::NotBegun),
    };
    let (status, text) = match done {
        Ok(mounted) => (
            StatusCode::OK,
            format!("`{}` is authorized. You can close this page.\n", mounted.config.name),
        ),
        Err(error) => (StatusCode::BAD_REQUEST, format!("It is not authorized: {error}\n")),
    };
    // The address holds a code, which is nobody else's.
    let headers = [(CACHE_CONTROL, "no-store"), (REFERRER_POLICY, "no-referrer")];
    (status, headers, text).into_response()
}
