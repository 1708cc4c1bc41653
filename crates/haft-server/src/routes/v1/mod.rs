//! The Managed Agents API, as the official Anthropic SDKs speak it.

pub(crate) mod agents;
mod environments;
pub(crate) mod events;
pub(crate) mod sessions;

use axum::Router;
use axum::routing::{get, post};
use serde_json::{Map, Value};

use crate::app::App;

pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/agents", get(agents::list).post(agents::create))
        .route("/agents/{agent}", get(agents::retrieve).post(agents::update))
        .route("/agents/{agent}/archive", post(agents::archive))
        .route("/agents/{agent}/versions", get(agents::versions))
        .route("/environments", get(environments::list).post(environments::create))
        .route(
            "/environments/{environment}",
            get(environments::retrieve).post(environments::update).delete(environments::delete),
        )
        .route("/environments/{environment}/archive", post(environments::archive))
        .route("/sessions", get(sessions::list).post(sessions::create))
        .route(
            "/sessions/{session}",
            get(sessions::retrieve).post(sessions::update).delete(sessions::delete),
        )
        .route("/sessions/{session}/archive", post(sessions::archive))
        .route("/sessions/{session}/events", get(events::list).post(events::send))
        .route("/sessions/{session}/events/stream", get(events::stream))
}

/// A page of things, and where the next one starts.
fn page(data: Vec<Value>, next: Option<String>) -> Value {
    let next = next.map_or(Value::Null, Value::String);
    let members = [("data".to_owned(), Value::Array(data)), ("next_page".to_owned(), next)];
    Value::Object(Map::from_iter(members))
}
