//! What the Managed Agents API has no word for: the inbox and its verbs, the log as it is stored,
//! what may run and why.

mod artifacts;
mod audit;
mod calls;
mod events;
mod found;
mod grants;
mod mcp;
mod me;
mod pending;
mod rules;
mod sessions;
mod spans;
mod standing;
mod stream;
mod tools;
mod versions;
mod wakes;
mod webhooks;

use axum::Router;
use axum::routing::{delete, get, post};

pub(super) use found::Found;

use crate::app::App;

pub(crate) fn router() -> Router<App> {
    let session = Router::new()
        .route("/", get(sessions::show))
        .route("/stream", get(stream::stream))
        .route("/events", get(events::list))
        .route("/events/stream", get(events::stream))
        .route("/spans", get(spans::list))
        .route("/messages", post(sessions::say))
        .route("/interrupt", post(sessions::interrupt))
        .route("/grants", get(grants::list).post(grants::give))
        .route("/grants/preview", post(grants::preview))
        .route("/grants/{grant}", delete(grants::revoke))
        .route("/calls/{call}", get(calls::show))
        .route("/calls/{call}/resolve", post(calls::resolve))
        .route("/calls/{call}/undo", get(calls::undone).post(calls::undo));
    Router::new()
        .route("/me", get(me::me))
        .route("/login", post(me::login))
        .route("/agents", get(sessions::agents))
        .route("/pending", get(pending::list))
        .route("/pending/stream", get(pending::watch))
        .route("/sessions", get(sessions::list).post(sessions::open))
        .nest("/sessions/{session}", session)
        .route("/grants", get(standing::list).post(standing::give))
        .route("/grants/preview", post(standing::preview))
        .route("/grants/{grant}", delete(standing::revoke))
        .route("/mcp/servers", get(mcp::list).post(mcp::add))
        .route("/mcp/servers/{server}", get(mcp::show).delete(mcp::remove))
        .route("/mcp/servers/{server}/accept", post(mcp::accept))
        .route("/mcp/servers/{server}/refresh", post(mcp::refresh))
        .route("/tools", get(tools::list))
        .route("/tools/{tool}/call", post(tools::call))
        .route("/tools/{tool}/preview", post(tools::preview))
        .route("/rules", get(rules::list))
        .route("/wakes", get(wakes::list))
        .route("/wakes/{session}", post(wakes::queue))
        .route("/wakes/{session}/{wake}", delete(wakes::cancel))
        .route("/versions/{kind}/{id}", get(versions::list))
        .route("/audit", get(audit::read))
        .route("/artifacts/{artifact}", get(artifacts::read))
        .route("/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/webhooks/{webhook}", delete(webhooks::delete))
        .route("/webhooks/{webhook}/deliveries", get(webhooks::deliveries))
}
