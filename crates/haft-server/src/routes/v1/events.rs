//! `/v1/sessions/{id}/events`: what is said and done, sent and read.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response as HttpResponse};
use haft_core::session::{Interrupted, MessageArrived, Open, SuspensionKind};
use haft_core::{
    CallId, CallResult, ContentBlock, Directives, ErrorClass, Failure, MessageId, Output,
    ResolutionId, SessionId,
};
use haft_runtime::{Response, Said, fresh_bits};
use haft_store::{Loaded, Request};
use haft_wire::managed::{Confirmation, Place, SentEvent, blocks, thread_id};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::unless_over;
use crate::app::App;
use crate::caller::Caller;
use crate::deletion::Deletable;
use crate::error::Error;
use crate::feed::{self, Previews, Since};
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::pages::Wanted;
use crate::session::Session;
use crate::streams;

/// How many bytes a page has at most, unless it is of one event; the next page goes on.
pub(super) const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SentEvents")]
pub(crate) struct Sent {
    events: Vec<Value>,
}

pub(crate) async fn send(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
    Body(sent): Body<Sent>,
) -> Result<Json<Value>, Error> {
    params.finish()?;
    let session = Session::seen(&app, &caller, &id).await?;
    session.require_current()?;
    let events = read_events(sent.events, "events")?;
    for (at, event) in events.iter().enumerate() {
        let allowed = require_allowed(&session, &caller, event);
        allowed.map_err(|error| error.at(&format!("events[{at}]")))?;
    }
    let events = named(&app, events)?;
    let to = match earlier_target(&events) {
        Some(to) => to,
        None => target(&app, &session, &events).await?,
    };
    let Session { id: session, loaded, .. } = session;
    let seen = (to == session).then_some(loaded);
    let mut data = apply(&app, &caller, (to, seen), events).await?;
    if to != session {
        data.iter_mut().for_each(|told| told["session_thread_id"] = thread_id(to).into());
    }
    Ok(Json(json!({ "data": data })))
}

/// Reads events, and says which one cannot be read.
pub(super) fn read_events(events: Vec<Value>, list: &str) -> Result<Vec<SentEvent>, Error> {
    let read = |(at, event): (usize, Value)| {
        SentEvent::read(event).map_err(|error| Error::from(error).at(&format!("{list}[{at}]")))
    };
    events.into_iter().enumerate().map(read).collect()
}

/// An event with the id that it is recorded under.
pub(super) struct Named {
    bits: u128,
    event: SentEvent,
}

/// Gives each event its id, in order: a request that is sent again gives them the same ones.
pub(super) fn named(app: &App, events: Vec<SentEvent>) -> Result<Vec<Named>, Error> {
    let name = |event| {
        let bits = fresh_bits(app.now()).map_err(Error::internal)?;
        Ok(Named { bits, event })
    };
    events.into_iter().map(name).collect()
}

/// The thread that the events went to when this request was first worked on: what they answer does
/// not wait any more, so it cannot be found by that.
fn earlier_target(events: &[Named]) -> Option<SessionId> {
    let sessions = Request::current()?.sessions_before();
    let answers = |named: &Named| awaited_by(&named.event).is_some();
    // An interrupt is passed on to threads below; what answers a call went to one thread alone.
    match events.iter().any(answers) {
        true => sessions.into_iter().next(),
        false => None,
    }
}

/// Who may talk to a session need not be who may approve what it does.
fn require_allowed(session: &Session, caller: &Caller, event: &SentEvent) -> Result<(), Error> {
    match event {
        SentEvent::ToolConfirmation { .. } => caller.require(Scope::Approve),
        // A client runs the tools that it declared, without being one who approves.
        SentEvent::Message { .. } | SentEvent::Interrupt | SentEvent::CustomToolResult { .. } => {
            caller.require(Scope::Write)?;
            session.require_owned(caller)
        }
    }
}

/// Finds the thread that the events are for: what answers a call goes where the call waits, which
/// may be a sub-agent's.
///
/// They are applied in one step, so all of them must be for the same thread, and each must answer
/// something that waits.
async fn target(app: &App, session: &Session, events: &[Named]) -> Result<SessionId, Error> {
    let mut answered = BTreeSet::new();
    let mut found: Option<SessionId> = None;
    for (at, Named { event, .. }) in events.iter().enumerate() {
        let here = |error: Error| error.at(&format!("events[{at}]"));
        let to = match awaited_by(event) {
            None => session.id,
            Some((call, takes)) => {
                let not_waiting = || {
                    here(Error::invalid(format!(
                        "`{call}` is not waiting for this: it was answered, ran out, or never asked"
                    )))
                };
                let (to, kind) = thread_of(app, session, call).await?.ok_or_else(not_waiting)?;
                if kind == SuspensionKind::Settlement {
                    return Err(here(Error::invalid(format!(
                        "`{call}` was interrupted, and nobody knows whether it took effect; settle \
                         it at /haft/v1/sessions/{to}/calls/{call}/resolve"
                    ))));
                }
                if !takes.contains(&kind) || !answered.insert(call) {
                    return Err(not_waiting());
                }
                to
            }
        };
        if *found.get_or_insert(to) != to {
            return Err(here(Error::invalid(
                "this event is for another thread than events[0], and events are applied together \
                 or not at all; send those for each thread in a request of their own",
            )));
        }
    }
    Ok(found.unwrap_or(session.id))
}

/// Which call an event answers, and what that call may be waiting for.
fn awaited_by(event: &SentEvent) -> Option<(CallId, &'static [SuspensionKind])> {
    match event {
        SentEvent::Message { .. } | SentEvent::Interrupt => None,
        SentEvent::ToolConfirmation { call, .. } => Some((*call, &[SuspensionKind::Approval])),
        SentEvent::CustomToolResult { call, .. } => {
            Some((*call, &[SuspensionKind::ClientExec, SuspensionKind::Elicitation]))
        }
    }
}

/// The thread in which a call waits, and for what.
async fn thread_of(
    app: &App,
    session: &Session,
    call: CallId,
) -> Result<Option<(SessionId, SuspensionKind)>, Error> {
    let here = session.loaded.state.as_open().and_then(|open| awaited(open, call));
    if let Some(kind) = here {
        return Ok(Some((session.id, kind)));
    }
    let below = app.haft().waits_below(session.id).await?;
    let found = below.into_iter().find(|wait| wait.call == call && wait.session != session.id);
    Ok(found.map(|wait| (wait.session, wait.kind)))
}

fn awaited(open: &Open, call: CallId) -> Option<SuspensionKind> {
    let waiting = open.waiting().find(|(waiting, _)| waiting.id == call);
    waiting.map(|(_, suspension)| suspension.kind)
}

/// Does what events ask for in one step, and returns each as it will be listed. A session that was
/// just loaded is not read again.
pub(super) async fn apply(
    app: &App,
    caller: &Caller,
    (session, seen): (SessionId, Option<Loaded>),
    events: Vec<Named>,
) -> Result<Vec<Value>, Error> {
    let is_answered = |named: &Named| matches!(named.event, SentEvent::CustomToolResult { .. });
    let seen = match seen {
        None if events.iter().any(is_answered) => app.store().load(session).await?,
        seen => seen,
    };
    let open = seen.as_ref().and_then(|loaded| loaded.state.as_open());
    let said: Vec<Said> = events.iter().map(|named| said_of(caller, open, named)).collect();
    let interrupts = said.iter().any(|said| matches!(said, Said::Interrupt(_)));
    let taken = app.haft().take_all(session, seen, said).await;
    taken.map_err(|(at, error)| match at {
        Some(at) if events.len() > 1 => Error::from(error).at(&format!("events[{at}]")),
        _ => Error::from(error),
    })?;
    if interrupts {
        for below in app.haft().below(session).await? {
            unless_over(app.haft().interrupt(below, caller.actor.clone(), None).await)?;
        }
    }
    let mut told = Vec::with_capacity(events.len());
    for named in events {
        told.push(told_of(app, session, named).await?);
    }
    Ok(told)
}

/// What an event says, for the session to take.
fn said_of(caller: &Caller, open: Option<&Open>, Named { bits, event }: &Named) -> Said {
    let by = caller.actor.clone();
    let resolution = |call: CallId, response: Response| Said::Resolution {
        call,
        id: ResolutionId::from_bits(*bits),
        by: by.clone(),
        response,
    };
    match event {
        SentEvent::Message { content } => {
            let (message, content) = (MessageId::from_bits(*bits), content.clone());
            Said::Message(MessageArrived { message, from: by, content })
        }
        SentEvent::Interrupt => Said::Interrupt(Interrupted { by, note: None }),
        SentEvent::ToolConfirmation { call, confirmation } => {
            let response = match confirmation {
                Confirmation::Allow => {
                    Response::Approve { arguments: None, note: None, grant: None }
                }
                Confirmation::Deny { message } => Response::Deny { note: message.clone() },
            };
            resolution(*call, response)
        }
        SentEvent::CustomToolResult { call, content, is_error } => {
            let kind = open.and_then(|open| awaited(open, *call));
            resolution(*call, returned(kind, content.clone(), *is_error))
        }
    }
}

/// An event that was taken, as it will be listed.
async fn told_of(app: &App, session: SessionId, named: Named) -> Result<Value, Error> {
    let Named { bits, event } = named;
    let done = |id: String, kind: &str, members: Value| {
        let mut body = json!({ "id": id, "type": kind, "processed_at": app.now().to_string() });
        if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
            body.extend(members);
        }
        body
    };
    let id = ResolutionId::from_bits(bits).to_string();
    Ok(match event {
        SentEvent::Message { content } => {
            let said = json!({ "content": blocks(&content), "processed_at": null });
            done(MessageId::from_bits(bits).to_string(), "user.message", said)
        }
        SentEvent::Interrupt => {
            let pages = feed::pages(app, session).await?;
            let told = pages.latest("user.interrupt").await?;
            let told = told.and_then(|event| serde_json::from_slice(event.text.bytes()).ok());
            told.ok_or_else(|| Error::internal("an interrupt left no event"))?
        }
        SentEvent::ToolConfirmation { call, confirmation } => {
            let mut members = match confirmation {
                Confirmation::Allow => json!({ "result": "allow" }),
                Confirmation::Deny { message } => {
                    json!({ "result": "deny", "deny_message": message })
                }
            };
            members["tool_use_id"] = call.to_string().into();
            done(id, "user.tool_confirmation", members)
        }
        SentEvent::CustomToolResult { call, content, is_error } => {
            let members = json!({
                "custom_tool_use_id": call.to_string(), "content": blocks(&content),
                "is_error": is_error,
            });
            done(id, "user.custom_tool_result", members)
        }
    })
}

/// What a client says came out, as what the call waits for: a result, or a person's answer.
fn returned(kind: Option<SuspensionKind>, content: Vec<ContentBlock>, is_error: bool) -> Response {
    let text = || {
        let texts = content.iter().filter_map(ContentBlock::as_text);
        texts.collect::<Vec<_>>().join("\n")
    };
    match (kind, is_error) {
        (Some(SuspensionKind::Elicitation), true) => Response::Deny { note: Some(text()) },
        (Some(SuspensionKind::Elicitation), false) => {
            let text = text();
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            Response::Answer { value }
        }
        (_, true) => {
            let failure = Failure::new(ErrorClass::ToolError, text());
            Response::Result { result: CallResult::Err(failure), directives: Directives::default() }
        }
        (_, false) => {
            let output = Output { content, ..Output::default() };
            Response::Result { result: CallResult::Ok(output), directives: Directives::default() }
        }
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<HttpResponse, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, 1000)? as usize;
    let after = params.one::<Place>("page")?;
    let types = params.list("types");
    let is_descending = match params.text("order").as_deref() {
        None | Some("asc") => false,
        Some("desc") => true,
        Some(order) => {
            return Err(Error::invalid(format!(
                "order: expected `asc` or `desc`, found {order:?}"
            )));
        }
    };
    params.finish()?;
    let session = Session::seen(&app, &caller, &id).await?;
    let bytes_max = PAGE_BYTES_MAX;
    listed(&app, session.id, &Wanted { limit, bytes_max, after, types, is_descending }).await
}

/// A page of a session's events, from the texts that every reader is sent.
pub(super) async fn listed(
    app: &App,
    session: SessionId,
    wanted: &Wanted,
) -> Result<HttpResponse, Error> {
    let (shown, next) = feed::pages(app, session).await?.page(wanted).await?;
    let mut body = b"{\"data\":[".to_vec();
    for (at, event) in shown.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        body.extend_from_slice(event.text.bytes());
    }
    let next = json!(next.map(|next| next.to_string()));
    body.extend_from_slice(format!("],\"next_page\":{next}}}").as_bytes());
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// What happens from here on, or after the event that `Last-Event-ID` names; what happened before
/// is listed.
pub(crate) async fn stream(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    let previews = previews(&mut params)?;
    params.finish()?;
    let since = last_event(&headers)?.map_or(Since::Now, Since::After);
    let session = Session::seen(&app, &caller, &id).await?;
    previewed(&app, session.id, &session, (since, previews)).await
}

/// Returns the event after which a client wants to go on.
pub(crate) fn last_event(headers: &HeaderMap) -> Result<Option<Place>, Error> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let place = id.to_str().unwrap_or_default().parse();
    place.map(Some).map_err(|error| Error::invalid(format!("Last-Event-ID: {error}")))
}

/// Which events are to be previewed. Thinking is not: no event tells it.
pub(super) fn previews(params: &mut Params) -> Result<Previews, Error> {
    let wanted = params.list("event_deltas");
    for kind in &wanted {
        if !["agent.message", "agent.thinking"].contains(&kind.as_str()) {
            let message = "event_deltas: expected `agent.message` or `agent.thinking`";
            return Err(Error::invalid(format!("{message}, found {kind:?}")));
        }
    }
    Ok(match wanted.iter().any(|kind| kind == "agent.message") {
        true => Previews::Shown,
        false => Previews::Left,
    })
}

/// A session's events as server-sent events, each with its place as its id.
pub(crate) async fn sse(
    app: &App,
    session: &Session,
    since: Since,
) -> Result<impl IntoResponse + use<>, Error> {
    previewed(app, session.id, session, (since, Previews::Left)).await
}

/// Likewise, with previews where they are wanted, of a session or of one below it. Previews have no
/// id: nothing resumes after one.
pub(super) async fn previewed(
    app: &App,
    session: SessionId,
    top: &Session,
    since: (Since, Previews),
) -> Result<impl IntoResponse + use<>, Error> {
    let deletable = Deletable { tenant: top.loaded.tenant.clone(), session: top.id };
    let follower = feed::follow(app, session, deletable, since).await?;
    Ok(streams::respond(app.streams(), follower))
}
