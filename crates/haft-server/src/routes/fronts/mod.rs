//! Front ends that people already have, over the same sessions: AG-UI, the AI SDK's chat, and
//! whoever reads document 000's stream.
//!
//! A client's thread is a session of ours that follows from who calls, the agent and the client's
//! name for the thread. What a client posts as history is not read.

mod ag_ui;
mod chat;
mod run;
mod steerable;
mod thread;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(crate) fn router() -> Router<App> {
    Router::new()
        .route("/ag-ui/{agent}", post(ag_ui::run))
        .route("/chat/{agent}", post(chat::run))
        .route("/chat/{agent}/{chat}/stream", get(chat::resume))
        .route("/steerable/{session}/stream", get(steerable::stream))
}
