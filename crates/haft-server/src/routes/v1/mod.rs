//! The Managed Agents API, as the official Anthropic SDKs speak it.

pub(crate) mod agents;
mod environments;
pub(crate) mod events;
mod files;
mod kept;
mod memories;
mod memory_stores;
mod memory_versions;
pub(crate) mod resources;
pub(crate) mod sessions;
mod threads;
pub(crate) mod vault_credentials;
mod vaults;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, any, get, post};
use serde_json::{Map, Value};

use crate::app::App;
use crate::error::Error;
use crate::input::Params;

pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/agents", get(agents::list).post(agents::create))
        .route("/agents/{agent}", get(agents::retrieve).post(agents::update))
        .route("/agents/{agent}/archive", post(agents::archive))
        .route("/agents/{agent}/versions", get(agents::versions))
        .merge(kept::routes::<environments::Declared>(
            "/environments",
            "/environments/{environment}",
        ))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/sessions/{session}",
            get(sessions::retrieve).post(sessions::update).delete(sessions::delete),
        )
        .route("/sessions/{session}/archive", post(sessions::archive))
        .route("/sessions/{session}/events", get(events::list).post(events::send))
        .route("/sessions/{session}/events/stream", get(events::stream))
        .merge(parts_of_sessions())
        .merge(kept_for_sessions())
        .merge(not_done())
}

fn parts_of_sessions() -> Router<App> {
    Router::new()
        .route("/sessions/{session}/resources", get(resources::list).post(resources::add))
        .route(
            "/sessions/{session}/resources/{resource}",
            get(resources::retrieve).post(resources::update).delete(resources::delete),
        )
        .route("/sessions/{session}/threads", get(threads::list))
        .route("/sessions/{session}/threads/{thread}", get(threads::retrieve))
        .route("/sessions/{session}/threads/{thread}/archive", absent("archiving a thread"))
        .route("/sessions/{session}/threads/{thread}/events", get(threads::events))
        .route("/sessions/{session}/threads/{thread}/stream", get(threads::stream))
}

fn kept_for_sessions() -> Router<App> {
    let files = get(files::list).post(files::upload).layer(DefaultBodyLimit::max(files::BODY_MAX));
    Router::new()
        .route("/files", files)
        .route("/files/{file}", get(files::retrieve).delete(files::delete))
        .route("/files/{file}/content", get(files::content))
        .merge(kept::routes::<memory_stores::Declared>("/memory_stores", "/memory_stores/{store}"))
        .route("/memory_stores/{store}/memories", get(memories::list).post(memories::create))
        .route(
            "/memory_stores/{store}/memories/{memory}",
            get(memories::retrieve).post(memories::update).delete(memories::delete),
        )
        .route("/memory_stores/{store}/memory_versions", get(memory_versions::list))
        .route("/memory_stores/{store}/memory_versions/{version}", get(memory_versions::retrieve))
        .route(
            "/memory_stores/{store}/memory_versions/{version}/redact",
            absent("redacting a memory version"),
        )
        .merge(kept::routes::<vaults::Declared>("/vaults", "/vaults/{vault}"))
        .route(
            "/vaults/{vault}/credentials",
            get(vault_credentials::list).post(vault_credentials::create),
        )
        .route(
            "/vaults/{vault}/credentials/{credential}",
            get(vault_credentials::retrieve)
                .post(vault_credentials::update)
                .delete(vault_credentials::delete),
        )
        .route("/vaults/{vault}/credentials/{credential}/archive", post(vault_credentials::archive))
        .route(
            "/vaults/{vault}/credentials/{credential}/mcp_oauth_validate",
            absent("validating a credential"),
        )
}

/// What the SDKs offer beside this API, so that whoever calls it reads why nothing comes of it.
fn not_done() -> Router<App> {
    let what = [
        ("/deployment_runs", "a deployment"),
        ("/deployments", "a deployment"),
        ("/dreams", "a dream"),
        ("/messages", "the Messages API"),
        ("/skills", "a skill"),
        ("/user_profiles", "a user profile"),
    ];
    what.into_iter().fold(Router::new(), |router, (path, what)| {
        router.route(path, absent(what)).route(&format!("{path}/{{*rest}}"), absent(what))
    })
}

/// A page of things, and where the next one starts.
fn page(data: Vec<Value>, next: Option<String>) -> Value {
    let next = next.map_or(Value::Null, Value::String);
    Value::Object(Map::from_iter([
        ("data".to_owned(), Value::Array(data)),
        ("next_page".to_owned(), next),
    ]))
}

/// Reads whether archived things are wanted too.
fn with_archived(params: &mut Params) -> Result<bool, Error> {
    Ok(params.one::<bool>("include_archived")?.unwrap_or(false))
}

/// A path of the API that this server does not do.
fn absent(what: &'static str) -> MethodRouter<App> {
    any(move || async move { Error::unsupported(what) })
}
