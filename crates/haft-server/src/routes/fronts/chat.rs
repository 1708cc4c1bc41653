//! `POST /chat/{agent}`: the AI SDK's UI message stream, as `useChat` asks for it.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use haft_core::session::{Event, State as SessionState, evolve};
use haft_core::{SessionId, Timestamp};
use haft_wire::front::ui_message;
use serde_json::{Map, Value};

use super::run::{Ears, Frames, Run, config_of};
use super::thread::{Taken, Thread};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::streams;

/// How many entries are read at once.
const PAGE: u32 = 512;

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
    let name = body.get("id").and_then(Value::as_str).unwrap_or_default();
    let (app, caller) = (&app, &caller);
    let environment = environment.as_deref();
    let thread = Thread { app, caller, agent: &agent, environment };
    let (session, loaded) = thread.find_or_open(name).await?;
    let ears = Ears::of(app, session);
    let read = ui_message::read(&body, loaded.state.as_open());
    let (post, continued) = read.map_err(|error| Error::invalid(error.to_string()))?;
    let seen = loaded.head.seq;
    let input = match thread.take((session, &loaded), post.message, post.decisions).await? {
        Taken::To(input) => input,
        Taken::TooLate(stale) => return Err(Error::conflict(stale)),
    };
    let message = continued.unwrap_or_else(|| message_id(session, seen));
    let config = config_of(&loaded);
    let encoder = ui_message::Encoder::new(loaded.state);
    let first = vec![encoder.start(&message)];
    let run = Run { app: app.clone(), session, config, ears, encoder, seen, input };
    Ok(answer(app, run.frames(first)))
}

/// The run that is under way, from its beginning; nothing when none is.
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path((agent, chat)): Path<(String, String)>,
    params: Params,
) -> Result<Response, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let thread = Thread { app: &app, caller: &caller, agent: &agent, environment: None };
    let session = thread.session(&chat);
    let ears = Ears::of(&app, session);
    let Some(loaded) = thread.find(session).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let Some((state, seen)) = run_under_way(&app, session).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let (config, encoder) = (config_of(&loaded), ui_message::Encoder::new(state));
    let first = vec![encoder.start(&message_id(session, seen))];
    let input = loaded.head.seq;
    let run = Run { app: app.clone(), session, config, ears, encoder, seen, input };
    Ok(answer(&app, run.frames(first)))
}

/// The state before the run under way began, and where in the log that is.
async fn run_under_way(
    app: &App,
    session: SessionId,
) -> Result<Option<(SessionState, u64)>, Error> {
    let (mut state, mut seen, mut before) = (SessionState::Unopened, 0, None);
    loop {
        let page = app.store().entries(session, seen, PAGE).await?;
        for entry in &page {
            let event = entry.event()?;
            if before.is_none() && matches!(event, Event::MessageReceived { .. }) {
                before = Some((state.clone(), seen));
            }
            state = next(state, entry.at, &event)?;
            seen = entry.seq;
            if matches!(event, Event::TurnEnded { .. }) {
                before = None;
            }
        }
        if page.len() < PAGE as usize {
            return Ok(before);
        }
    }
}

fn next(state: SessionState, at: Timestamp, event: &Event) -> Result<SessionState, Error> {
    evolve(state, at, event).map_err(Error::internal)
}

/// The client's message that a run answers in, the same for whoever joins it.
fn message_id(session: SessionId, seen: u64) -> String {
    format!("{session}-{seen}")
}

fn answer(app: &App, frames: Frames<ui_message::Encoder>) -> Response {
    let mut response = streams::respond(app.streams(), frames.then("[DONE]"));
    let (name, version) = ("x-vercel-ai-ui-message-stream", HeaderValue::from_static("v1"));
    response.headers_mut().insert(name, version);
    response
}
