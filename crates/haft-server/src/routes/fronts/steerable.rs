//! `GET /steerable/{session}/stream`: a session as document 000's stream.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt as _};
use haft_wire::front::steerable::Encoder;
use serde_json::json;

use super::run::Run;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::routes::haft::Found;

/// From the beginning of the session until it rests.
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Response, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let live = app.haft().live().subscribe_without_steps();
    let found = Found::session(&app, &caller, &session).await?;
    let (session, input) = (found.id, found.loaded.head.seq);
    let encoder = Encoder::default();
    let run = Run { app, session, live, encoder, seen: 0, input };
    let frames = run.frames(Vec::new()).map(|frame| frame.to_string());
    let frames = frames.chain(stream::iter(["[DONE]".to_owned()]));
    let frames = frames.map(|data| Ok::<_, Infallible>(Frame::default().data(data)));
    let idle = Frame::default().data(json!({"type": "keepalive"}).to_string());
    Ok(Sse::new(frames).keep_alive(KeepAlive::new().event(idle)).into_response())
}
