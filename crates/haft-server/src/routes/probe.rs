//! Whether the server lives, and whether it can work. Open to everyone, and tells nothing else.

use axum::extract::State;
use haft_store::Page;
use haft_store::SessionFilter;

use crate::app::App;
use crate::error::{Error, Kind};

pub(crate) async fn healthy() -> &'static str {
    "ok"
}

pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, Error> {
    let away = |message: &str| Error::new(Kind::Overloaded, message);
    if app.shutdown().is_cancelled() {
        return Err(away("this node is shutting down"));
    }
    let read = app.store().sessions(&SessionFilter::default(), &Page::first(1)).await;
    read.map(|_| "ready").map_err(|_| away("the store cannot be read"))
}
