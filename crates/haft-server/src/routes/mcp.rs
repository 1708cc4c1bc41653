//! `/mcp`: the node's tools for MCP clients, with the keys of the rest of the server.

use axum::Router;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use haft_mcp::{HttpDoor, McpServer, Principal};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::keys::Scope;

pub(super) fn router(app: &App, served: &McpServer) -> Router<App> {
    // Names and origins are the guard's, for every path alike.
    let door = HttpDoor { hosts: None, origins: None, anonymous: None, resource_metadata: None };
    Router::new()
        .route_service("/mcp", served.http(door))
        .layer(middleware::from_fn_with_state(app.clone(), known))
}

/// Says who calls, by their key.
async fn known(State(app): State<App>, request: Request, next: Next) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, &app).await?;
    caller.require(Scope::Write)?;
    parts.extensions.insert(Principal { actor: caller.actor, tenant: caller.tenant });
    Ok(next.run(Request::from_parts(parts, body)).await)
}
