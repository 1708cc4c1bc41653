//! `GET /steerable/{session}/stream`: a session as document 000's stream.

use axum::extract::State;
use axum::response::Response;
use haft_wire::front::steerable::Encoder;

use super::run::{Ears, Run, config_of};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Params, Path};
use crate::keys::Scope;
use crate::routes::haft::Found;
use crate::streams;

/// What its readers expect while nothing happens.
const KEEP_ALIVE: &str = r#"{"type":"keepalive"}"#;

/// From the beginning of the session until it rests.
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Response, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let (session, ears) = (found.id, Ears::of(&app, found.id));
    let (encoder, input) = (Encoder::default(), found.loaded.head.seq);
    let config = config_of(&found.loaded);
    let run = Run { app: app.clone(), session, config, ears, encoder, seen: 0, input };
    let frames = run.frames(Vec::new()).then("[DONE]").keeping_alive_by(KEEP_ALIVE);
    Ok(streams::respond(app.streams(), frames))
}
