//! `/v1/sessions/{id}/events`: what is said and done, sent and read.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response as HttpResponse};
use haft_core::session::{Open, SuspensionKind};
use haft_core::{
    CallId, CallResult, ContentBlock, Directives, ErrorClass, Failure, Output, ResolutionId,
    SessionId,
};
use haft_runtime::{Response, fresh_bits};
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
    let events = sent.events.into_iter().map(SentEvent::read).collect::<Result<Vec<_>, _>>()?;
    for event in &events {
        require_allowed(&session, &caller, event)?;
    }
    let routed = routed(&app, &session, events).await?;
    let mut data = Vec::with_capacity(routed.len());
    for (to, event) in routed {
        let mut told = apply(&app, &caller, to, event).await?;
        if to != session.id {
            told["session_thread_id"] = thread_id(to).into();
        }
        data.push(told);
    }
    Ok(Json(json!({ "data": data })))
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

/// Finds the thread that each event is for: what answers a call goes where the call waits, which
/// may be a sub-agent's.
///
/// Refuses the whole of what was sent when a part of it answers nothing that waits: a part of it
/// would otherwise be done.
async fn routed(
    app: &App,
    session: &Session,
    events: Vec<SentEvent>,
) -> Result<Vec<(SessionId, SentEvent)>, Error> {
    let mut answered = BTreeSet::new();
    let mut routed = Vec::with_capacity(events.len());
    for event in events {
        let (call, takes): (CallId, &[SuspensionKind]) = match &event {
            SentEvent::Message { .. } | SentEvent::Interrupt => {
                routed.push((session.id, event));
                continue;
            }
            SentEvent::ToolConfirmation { call, .. } => (*call, &[SuspensionKind::Approval]),
            SentEvent::CustomToolResult { call, .. } => {
                (*call, &[SuspensionKind::ClientExec, SuspensionKind::Elicitation])
            }
        };
        let not_waiting = || {
            Error::invalid(format!(
                "`{call}` is not waiting for this: it was answered, ran out, or never asked"
            ))
        };
        let (to, kind) = thread_of(app, session, call).await?.ok_or_else(not_waiting)?;
        if kind == SuspensionKind::Settlement {
            return Err(Error::invalid(format!(
                "`{call}` was interrupted, and nobody knows whether it took effect; settle it at \
                 /haft/v1/sessions/{to}/calls/{call}/resolve"
            )));
        }
        if !takes.contains(&kind) || !answered.insert(call) {
            return Err(not_waiting());
        }
        routed.push((to, event));
    }
    Ok(routed)
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

/// Does what an event asks for, and returns it as it will be listed.
pub(super) async fn apply(
    app: &App,
    caller: &Caller,
    session: SessionId,
    event: SentEvent,
) -> Result<Value, Error> {
    let by = caller.actor.clone();
    let done = |id: String, kind: &str, members: Value| {
        let mut body = json!({ "id": id, "type": kind, "processed_at": app.now().to_string() });
        if let (Some(body), Value::Object(members)) = (body.as_object_mut(), members) {
            body.extend(members);
        }
        body
    };
    match event {
        SentEvent::Message { content } => {
            let said = json!({ "content": blocks(&content), "processed_at": null });
            let message = app.haft().say(session, by, content).await?;
            Ok(done(message.to_string(), "user.message", said))
        }
        SentEvent::Interrupt => {
            app.haft().interrupt(session, by.clone(), None).await?;
            for below in app.haft().below(session).await? {
                unless_over(app.haft().interrupt(below, by.clone(), None).await)?;
            }
            let pages = feed::pages(app, session).await?;
            let told = pages.latest("user.interrupt");
            let told = told.and_then(|event| serde_json::from_slice(event.text.bytes()).ok());
            told.ok_or_else(|| Error::internal("an interrupt left no event"))
        }
        SentEvent::ToolConfirmation { call, confirmation } => {
            let (response, mut members) = match confirmation {
                Confirmation::Allow => (
                    Response::Approve { arguments: None, note: None, grant: None },
                    json!({ "result": "allow" }),
                ),
                Confirmation::Deny { message } => (
                    Response::Deny { note: message.clone() },
                    json!({ "result": "deny", "deny_message": message }),
                ),
            };
            members["tool_use_id"] = call.to_string().into();
            let id = resolve(app, caller, session, call, response).await?;
            Ok(done(id.to_string(), "user.tool_confirmation", members))
        }
        SentEvent::CustomToolResult { call, content, is_error } => {
            let members = json!({
                "custom_tool_use_id": call.to_string(), "content": blocks(&content),
                "is_error": is_error,
            });
            let response = returned(app, session, call, content, is_error).await?;
            let id = resolve(app, caller, session, call, response).await?;
            Ok(done(id.to_string(), "user.custom_tool_result", members))
        }
    }
}

async fn resolve(
    app: &App,
    caller: &Caller,
    session: SessionId,
    call: CallId,
    response: Response,
) -> Result<ResolutionId, Error> {
    let id = ResolutionId::from_bits(fresh_bits(app.now()).map_err(Error::internal)?);
    app.haft().resolve_as(session, call, None, id, caller.actor.clone(), response).await?;
    Ok(id)
}

/// What a client says came out, as what the call waits for: a result, or a person's answer.
async fn returned(
    app: &App,
    session: SessionId,
    call: CallId,
    content: Vec<ContentBlock>,
    is_error: bool,
) -> Result<Response, Error> {
    let text = || {
        let texts = content.iter().filter_map(ContentBlock::as_text);
        texts.collect::<Vec<_>>().join("\n")
    };
    let loaded = app.store().load(session).await?;
    let kind = loaded.as_ref().and_then(|loaded| awaited(loaded.state.as_open()?, call));
    Ok(match (kind, is_error) {
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
    })
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
