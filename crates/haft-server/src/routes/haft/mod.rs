//! What the Managed Agents API has no word for.

mod stream;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(crate) fn router() -> Router<App> {
    Router::new().route("/sessions/{session}/stream", get(stream::stream))
}
