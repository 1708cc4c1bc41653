//! What the Managed Agents API has no word for: the inbox and its verbs, the log as it is stored,
//! what may run and why.

mod artifacts;
mod audit;
mod backup;
mod calls;
mod events;
mod found;
mod grants;
mod kept_logs;
mod keys;
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
mod workers;

pub(super) use found::{Found, row as listed_row};

use crate::openapi::Query::{Limit, Number, Page, Text};
use crate::openapi::{Paths, delete, get, post};

/// The largest part of a result that a worker may leave at once.
const KEPT_MAX: usize = 256 << 20;

pub(crate) fn paths() -> Paths {
    let events = get(events::list).query(&[Limit(1000), Number("after")]).page();
    let session = Paths::new()
        .route("/", get(sessions::show).delete(kept_logs::delete))
        .route("/export", get(kept_logs::export).json_lines())
        .route("/stream", get(stream::stream).events())
        .route("/events", events)
        .route("/events/stream", get(events::stream).query(&[Text("client_tools")]).events())
        .route("/spans", get(spans::list).page())
        .route("/messages", post(sessions::say))
        .route("/interrupt", post(sessions::interrupt))
        .route("/grants", get(grants::list).page().post(grants::give).body::<grants::Proposed>())
        .route("/grants/preview", post(grants::preview).body::<grants::Proposed>())
        .route("/grants/{grant}", delete(grants::revoke))
        .route("/calls/{call}", get(calls::show))
        .route("/calls/{call}/cancel", post(calls::cancel))
        .route("/calls/{call}/resolve", post(calls::resolve).body::<calls::Said>())
        .route("/calls/{call}/undo", get(calls::undone).post(calls::undo));
    let pending = get(pending::list).query(&[Limit(500), Page, Text("session")]).page();
    let sessions = get(sessions::list).query(&[Limit(200), Text("after")]).page();
    Paths::new()
        .route("/me", get(me::me))
        .route("/login", post(me::login).body_max(me::LOGIN_BYTES_MAX))
        .route("/keys", get(keys::list).page().post(keys::create))
        .route("/keys/{key}", delete(keys::revoke))
        .route("/agents", get(sessions::agents).query(&[Limit(500), Page]).page())
        .route("/pending", pending)
        .route("/calls", get(calls::find).query(&[Text("begins")]).page())
        .route("/pending/stream", get(pending::watch).events())
        .route("/sessions", sessions.post(sessions::open))
        .nest("/sessions/{session}", session)
        .route(
            "/grants",
            get(standing::list).page().post(standing::give).body::<standing::Proposed>(),
        )
        .route("/grants/preview", post(standing::preview).body::<standing::Proposed>())
        .route("/grants/{grant}", delete(standing::revoke))
        .route("/mcp/servers", get(mcp::list).page().post(mcp::add))
        .route("/mcp/servers/{server}", get(mcp::show).delete(mcp::remove))
        .route("/mcp/servers/{server}/accept", post(mcp::accept))
        .route("/mcp/servers/{server}/authorize", post(mcp::authorize))
        .route("/mcp/servers/{server}/refresh", post(mcp::refresh))
        .route("/tools", get(tools::list).page())
        .route("/tools/{tool}/call", post(tools::call))
        .route("/tools/{tool}/preview", post(tools::preview))
        .route("/rules", get(rules::list).query(&[Text("agent")]))
        .route("/rules/check", post(rules::check))
        .merge(kept())
        .merge(workers())
        .route("/artifacts/{artifact}", get(artifacts::read).bytes())
}

/// What is kept beside sessions, and what is told of it.
fn kept() -> Paths {
    let wakes = get(wakes::list).query(&[Limit(500), Text("after"), Text("session")]).page();
    let versions = get(versions::list).query(&[Limit(100), Number("before")]).page();
    let audit = get(audit::read).query(&[Limit(1000), Text("session"), Number("after")]).page();
    let erasures = get(kept_logs::erasures).query(&[Limit(1000), Number("after")]).page();
    let deliveries = get(webhooks::deliveries).query(&[Limit(1000), Page]).page();
    Paths::new()
        .route("/wakes", wakes)
        .route("/wakes/{session}", post(wakes::queue))
        .route("/wakes/{session}/{wake}", delete(wakes::cancel))
        .route("/versions/{kind}/{id}", versions)
        .route("/audit", audit)
        .route("/backup", get(backup::read).tar())
        .route("/erasures", erasures)
        .route("/webhooks", get(webhooks::list).page().post(webhooks::create))
        .route("/webhooks/{webhook}", delete(webhooks::delete))
        .route("/webhooks/{webhook}/deliveries", deliveries)
}

/// What workers ask and say.
fn workers() -> Paths {
    let keep = post(workers::keep).query(&[Text("lease"), Text("title")]).body_max(KEPT_MAX);
    Paths::new()
        .route("/workers/register", post(workers::register))
        .route("/workers/poll", post(workers::poll))
        .route("/workers/beat", post(workers::beat))
        .route("/workers/done", post(workers::done))
        .route("/workers/keep", keep)
}
