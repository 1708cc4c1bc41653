//! Whether the server lives, and whether it can work. Open to everyone, and tells nothing else.

use axum::extract::State;

use crate::app::App;
use crate::error::{Error, Kind};
use crate::readiness::STOPPED;

/// Answers 503 when only a restart helps.
pub(crate) async fn healthy(State(app): State<App>) -> Result<&'static str, Error> {
    match app.store().stopped() {
        None => Ok("ok"),
        Some(_) => Err(Error::new(Kind::Overloaded, STOPPED)),
    }
}

/// Answers 200 when a write can be made durable now.
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Error> {
    if app.shutdown().is_cancelled() {
        return Err(Error::new(Kind::Overloaded, "this node is shutting down"));
    }
    let checked = app.readiness().check(app.store()).await;
    checked.map(|()| "ready").map_err(|obstacle| Error::new(Kind::Overloaded, obstacle))
}
