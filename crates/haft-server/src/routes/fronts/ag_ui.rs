//! `POST /ag-ui/{agent}`: a run, by AG-UI 1.0.

use std::convert::Infallible;

use axum::extract::State;
use axum::response::sse::{Event as Frame, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use haft_wire::front::{PostError, ag_ui};
use serde_json::{Map, Value};

use super::run::{Ears, Run, config_of};
use super::thread::{Taken, Thread};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::streams;

pub(crate) async fn run(
    State(app): State<App>,
    caller: Caller,
    Path(agent): Path<String>,
    mut params: Params,
    Body(body): Body<Map<String, Value>>,
) -> Result<Response, Error> {
    let environment = params.text("environment");
    params.finish()?;
    let body = Value::Object(body);
    let name = body.get("threadId").and_then(Value::as_str).unwrap_or_default();
    let (app, caller) = (&app, &caller);
    let environment = environment.as_deref();
    let thread = Thread { app, caller, agent: &agent, environment };
    let (session, loaded) = thread.find_or_open(name).await?;
    let ears = Ears::of(app, session);
    let (post, run_id) = match ag_ui::read(&body, loaded.state.as_open()) {
        Ok(read) => read,
        Err(error @ (PostError::Incomplete(_) | PostError::Waiting(_))) => {
            return Ok(refused(&body, &error.to_string(), "resume_incomplete"));
        }
        Err(error) => return Err(Error::invalid(error.to_string())),
    };
    let seen = loaded.head.seq;
    let input = match thread.take((session, &loaded), post.message, post.decisions).await? {
        Taken::To(input) => input,
        Taken::TooLate(stale) => return Ok(refused(&body, &stale, "stale")),
    };
    let config = config_of(&loaded);
    let encoder = ag_ui::Encoder::new(loaded.state, &post.thread, &run_id);
    let first = vec![encoder.start(session)];
    let run = Run { app: app.clone(), session, config, ears, encoder, seen, input };
    Ok(streams::respond(app.streams(), run.frames(first)))
}

/// A run that could not begin, in the client's own words for that.
fn refused(body: &Value, message: &str, code: &str) -> Response {
    let id = |name: &str| body.get(name).cloned().unwrap_or_default();
    let started = serde_json::json!({
        "type": "RUN_STARTED", "threadId": id("threadId"), "runId": id("runId"),
        "protocolVersion": "1.0",
    });
    let frames = [started, ag_ui::broken(message, code)]
        .map(|frame| Ok::<_, Infallible>(Frame::default().data(frame.to_string())));
    Sse::new(stream::iter(frames)).into_response()
}
