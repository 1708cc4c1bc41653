//! AG-UI 1.0: a run as its events, waits as interrupts, decisions as a resume.
//!
//! A front end may edit arguments, because the interrupt carries their schema. What AG-UI has no
//! word for goes into `metadata.haft` and `CUSTOM` events, which other clients pass over.

use haft_core::json::{self, JsonLimits};
use haft_core::session::{
    Call, Corrupt, Event, Open, Preview, Rejection, State, Suspension, SuspensionKind, TurnEnding,
};
use haft_core::{CallId, CallResult, Failure, Outcome, SessionId, Timestamp};
use serde_json::{Map, Value, json};

use super::{
    Encode, Post, PostError, Posted, PostedMessage, Rest, Run, Said, SchemasOf, Settled, TextStep,
    joined_text, optional_text, read_wait_id, text_member, wait_id,
};
use crate::views;

/// Turns a run's events into AG-UI's.
#[derive(Debug)]
pub struct Encoder {
    run: Run,
    thread_id: String,
    run_id: String,
    previews: Vec<(CallId, Preview)>,
}

impl Encoder {
    /// Follows a session from this state on, for the client's thread and run.
    pub fn new(state: State, thread_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        let (thread_id, run_id) = (thread_id.into(), run_id.into());
        Self { run: Run::new(state), thread_id, run_id, previews: Vec::new() }
    }

    /// The first event of every run.
    pub fn start(&self, session: SessionId) -> Value {
        json!({
            "type": "RUN_STARTED", "threadId": self.thread_id, "runId": self.run_id,
            "protocolVersion": "1.0", "metadata": {"haft": {"session": session}},
        })
    }

    fn finished_by(&self, outcome: &Value) -> Value {
        let (thread, run) = (&self.thread_id, &self.run_id);
        json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run, "outcome": outcome})
    }

    /// What only the client itself can run is no interrupt, unless a person is asked as well.
    fn waits(&self, waiting: &[(&Call, &Suspension)], schemas: SchemasOf<'_>) -> Value {
        if waiting.iter().all(|(_, wait)| wait.kind == SuspensionKind::ClientExec) {
            let calls: Vec<_> = waiting.iter().map(|(call, _)| call.id).collect();
            return json!({"type": "success", "pendingToolCallIds": calls});
        }
        let interrupts: Vec<_> =
            waiting.iter().map(|(call, wait)| self.interrupt(call, wait, schemas)).collect();
        json!({"type": "interrupt", "interrupts": interrupts})
    }

    fn interrupt(&self, call: &Call, wait: &Suspension, schemas: SchemasOf<'_>) -> Value {
        let tool = &call.contract.tool;
        let called = self.run.called(tool.as_str());
        let (reason, message, response) = match wait.kind {
            SuspensionKind::Approval => {
                let response = approval_schema(schemas(tool).map(|schemas| schemas.input));
                ("tool_call", format!("{called} asks for approval"), response)
            }
            SuspensionKind::Elicitation => {
                let question = call.arguments.record().get("message").and_then(Value::as_str);
                let message = question.map_or_else(|| format!("{called} asks"), str::to_owned);
                let answer = schemas(tool).and_then(|schemas| schemas.output);
                ("input_required", message, answer.unwrap_or_else(|| json!({})))
            }
            SuspensionKind::ClientExec | SuspensionKind::Child => {
                ("haft:client_tool", format!("{called} runs in the client"), json!({}))
            }
            SuspensionKind::Settlement => {
                let because = call.in_doubt_because.as_ref();
                let because = because.map(|because| format!(": {because}")).unwrap_or_default();
                let message = format!("whether {called} took effect is not known{because}");
                ("haft:settlement", message, settlement_schema())
            }
        };
        let preview = self.previews.iter().find(|(seen, _)| *seen == call.id);
        json!({
            "id": wait_id(call.id, wait.round), "reason": reason, "message": message,
            "toolCallId": call.id, "responseSchema": response,
            "expiresAt": wait.expires_at.to_string(),
            "metadata": {"haft": {
                "kind": wait.kind, "why": wait.reason, "tool": called,
                "arguments": call.arguments.record(),
                "preview": preview.map(|(_, preview)| preview),
            }},
        })
    }

    fn texts(&self, steps: Vec<TextStep>) -> Vec<Value> {
        let id = self.run.streamed.id(self.run.turn());
        let text = |step| match step {
            TextStep::Begin => {
                json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
            }
            TextStep::More(delta) => {
                json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})
            }
            TextStep::End => json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
        };
        steps.into_iter().map(text).collect()
    }
}

impl Encode for Encoder {
    fn event(&mut self, at: Timestamp, event: &Event) -> Result<Vec<Value>, Corrupt> {
        self.run.apply(at, event)?;
        Ok(match event {
            Event::TurnRetried { .. } => {
                let steps = self.run.streamed.drop();
                self.texts(steps)
            }
            Event::TurnAnswered { content, .. } => {
                let steps = self.run.streamed.complete(content);
                self.texts(steps)
            }
            Event::CallProposed { call, contract, arguments, derivation, .. } => {
                let permission = json!({"haft": {
                    "permission": derivation.decision, "reason": derivation.deciding_reason(),
                }});
                let arguments = Value::Object(arguments.record().clone()).to_string();
                proposed(*call, self.run.called(contract.tool.as_str()), &arguments, &permission)
            }
            Event::CallRejected { call, name, rejection, .. } => rejected(*call, name, rejection),
            Event::CallSuspended { call, preview, .. } => {
                self.previews.retain(|(seen, _)| seen != call);
                self.previews.extend(preview.clone().map(|preview| (*call, preview)));
                Vec::new()
            }
            Event::CallFinished { outcome } => vec![finished(outcome)],
            _ => Vec::new(),
        })
    }

    fn delta(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<Value> {
        let steps = self.run.hear(turn, attempt, text);
        self.texts(steps)
    }

    fn missed(&mut self) {
        self.run.streamed.holds_back = true;
    }

    fn progress(&self, call: CallId, progress: &Value) -> Value {
        let value = json!({"toolCallId": call, "progress": progress});
        json!({"type": "CUSTOM", "name": "haft.tool.progress", "value": value})
    }

    fn rest(&self) -> Option<Rest<'_>> {
        self.run.rest()
    }

    fn finish(&mut self, schemas: SchemasOf<'_>) -> Vec<Value> {
        let steps = self.run.streamed.drop();
        let mut frames = self.texts(steps);
        frames.push(match (self.run.rest(), &self.run.ending) {
            (Some(Rest::Waiting(waiting)), _) => self.finished_by(&self.waits(&waiting, schemas)),
            (_, Some(TurnEnding::Failed { failure })) => error(failure),
            (_, Some(TurnEnding::Interrupted)) => self.finished_by(&json!({"type": "cancelled"})),
            _ => self.finished_by(&json!({"type": "success"})),
        });
        frames
    }

    fn broken(&self, message: &str) -> Value {
        broken(message, "broken")
    }
}

/// The event that ends a run which could not be followed to its rest.
pub fn broken(message: &str, code: &str) -> Value {
    json!({"type": "RUN_ERROR", "message": message, "code": code})
}

fn error(failure: &Failure) -> Value {
    json!({"type": "RUN_ERROR", "message": failure.message, "code": failure.class})
}

fn proposed(call: CallId, tool: &str, arguments: &str, metadata: &Value) -> Vec<Value> {
    vec![
        json!({
            "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": tool,
            "metadata": metadata,
        }),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": arguments}),
        json!({"type": "TOOL_CALL_END", "toolCallId": call}),
    ]
}

fn rejected(call: CallId, tool: &str, rejection: &Rejection) -> Vec<Value> {
    let arguments = rejection.raw_arguments.as_deref().unwrap_or("{}");
    let mut frames = proposed(call, tool, arguments, &json!({"haft": {"permission": "deny"}}));
    frames.push(result(call, &rejection.message));
    frames
}

fn finished(outcome: &Outcome) -> Value {
    match &outcome.result {
        CallResult::Ok(output) => result(outcome.call, &views::model_text(output)),
        CallResult::Err(failure) => result(outcome.call, &failure.message),
    }
}

fn result(call: CallId, content: &str) -> Value {
    json!({
        "type": "TOOL_CALL_RESULT", "messageId": format!("result-{call}"), "toolCallId": call,
        "role": "tool", "content": content,
    })
}

/// The schema's presence is what tells a front end that it may offer to edit.
fn approval_schema(input: Option<Value>) -> Value {
    let mut properties = Map::from_iter([
        ("approved".to_owned(), json!({"type": "boolean"})),
        ("note".to_owned(), json!({"type": "string"})),
    ]);
    properties.extend(input.map(|schema| ("editedArgs".to_owned(), schema)));
    json!({"type": "object", "properties": properties, "required": ["approved"]})
}

fn settlement_schema() -> Value {
    json!({
        "type": "object", "required": ["verdict"],
        "properties": {
            "verdict": {"type": "string", "enum": ["happened", "run_again", "give_up"]},
            "value": {},
        },
    })
}

/// Reads what a client posts to start or resume a run, against what waits.
///
/// # Errors
///
/// When the body is no `RunAgentInput`, says nothing new, or leaves an interrupt unanswered.
pub fn read(body: &Value, open: Option<&Open>) -> Result<(Post, String), PostError> {
    let thread = text_member(body, "threadId", "")?;
    let run = text_member(body, "runId", "")?;
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages
        .ok_or_else(|| PostError::Shape { at: "/messages".to_owned(), expected: "a list" })?;
    let resume = body.get("resume").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut decisions = Vec::new();
    for (n, entry) in resume.iter().enumerate() {
        decisions.push(read_resume(entry, &format!("/resume/{n}"), open)?);
    }
    decisions.extend(client_results(messages, open));
    let message = if decisions.is_empty() { Some(last_message(messages)?) } else { None };
    every_interrupt_is_answered(&decisions, open)?;
    Ok((Post { thread, message, decisions }, run))
}

fn read_resume(entry: &Value, at: &str, open: Option<&Open>) -> Result<Posted, PostError> {
    let id = text_member(entry, "interruptId", at)?;
    let (call, round) = read_wait_id(&id, || format!("{at}/interruptId"))?;
    let waiting = open.and_then(|open| open.waiting().find(|(waiting, _)| waiting.id == call));
    let kind = waiting.map_or(SuspensionKind::Approval, |(_, wait)| wait.kind);
    let payload = entry.get("payload").cloned().unwrap_or(Value::Null);
    let said = match text_member(entry, "status", at)?.as_str() {
        "resolved" => read_payload(kind, payload, at)?,
        "cancelled" => given_up(kind),
        _ => {
            let at = format!("{at}/status");
            return Err(PostError::Shape { at, expected: "`resolved` or `cancelled`" });
        }
    };
    Ok(Posted { call, round: Some(round), said })
}

fn read_payload(kind: SuspensionKind, payload: Value, at: &str) -> Result<Said, PostError> {
    let shape = |member: &str, expected| PostError::Shape {
        at: format!("{at}/payload/{member}"),
        expected,
    };
    Ok(match kind {
        SuspensionKind::Approval => {
            let approved = payload.get("approved").and_then(Value::as_bool);
            let note = optional_text(&payload, "note");
            match approved.ok_or_else(|| shape("approved", "true or false"))? {
                false => Said::Deny { note },
                true => Said::Approve { arguments: edited(&payload, at)?, note },
            }
        }
        SuspensionKind::Elicitation => Said::Answer { value: payload },
        SuspensionKind::ClientExec | SuspensionKind::Child => Said::Ran { result: Ok(payload) },
        SuspensionKind::Settlement => {
            let value = payload.get("value").cloned();
            Said::Settle(match payload.get("verdict").and_then(Value::as_str) {
                Some("happened") => Settled::Happened { value },
                Some("run_again") => Settled::RunAgain,
                Some("give_up") => Settled::GiveUp,
                _ => return Err(shape("verdict", "`happened`, `run_again` or `give_up`")),
            })
        }
    })
}

fn edited(payload: &Value, at: &str) -> Result<Option<Map<String, Value>>, PostError> {
    match payload.get("editedArgs") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(arguments)) => Ok(Some(arguments.clone())),
        Some(_) => {
            let at = format!("{at}/payload/editedArgs");
            Err(PostError::Shape { at, expected: "an object: all arguments, not only the changed" })
        }
    }
}

fn given_up(kind: SuspensionKind) -> Said {
    match kind {
        SuspensionKind::Approval | SuspensionKind::Elicitation => Said::Deny { note: None },
        SuspensionKind::ClientExec | SuspensionKind::Child => {
            Said::Ran { result: Err("the client did not run it".to_owned()) }
        }
        SuspensionKind::Settlement => Said::Settle(Settled::GiveUp),
    }
}

/// Results for calls that the client runs stand among the messages, after the last answer.
fn client_results(messages: &[Value], open: Option<&Open>) -> Vec<Posted> {
    let Some(open) = open else { return Vec::new() };
    let role = |message: &Value, role| message.get("role").and_then(Value::as_str) == Some(role);
    let trailing = messages.iter().rev().take_while(|message| role(message, "tool"));
    trailing
        .filter_map(|message| {
            let id: CallId = message.get("toolCallId")?.as_str()?.parse().ok()?;
            let (_, wait) = open.waiting().find(|(call, _)| call.id == id)?;
            let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
            let json = || json::parse(content.as_bytes(), JsonLimits::default());
            let value = || json().unwrap_or_else(|_| content.into());
            let result = optional_text(message, "error").map_or_else(|| Ok(value()), Err);
            (wait.kind == SuspensionKind::ClientExec).then(|| Posted {
                call: id,
                round: Some(wait.round),
                said: Said::Ran { result },
            })
        })
        .collect()
}

fn last_message(messages: &[Value]) -> Result<PostedMessage, PostError> {
    let is_user = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    let message = messages.last().filter(is_user).ok_or(PostError::NothingNew)?;
    let at = format!("/messages/{}", messages.len() - 1);
    let id = text_member(message, "id", &at)?;
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => joined_text(parts)?,
        _ => {
            return Err(PostError::Shape {
                at: format!("{at}/content"),
                expected: "a text or parts",
            });
        }
    };
    Ok(PostedMessage { id, text })
}

/// A resume covers every open interrupt. One that was answered elsewhere meanwhile is covered.
fn every_interrupt_is_answered(decisions: &[Posted], open: Option<&Open>) -> Result<(), PostError> {
    let waiting = open.into_iter().flat_map(Open::waiting);
    let unanswered: Vec<_> = waiting
        .filter(|(call, _)| decisions.iter().all(|posted| posted.call != call.id))
        .map(|(call, wait)| wait_id(call.id, wait.round))
        .collect();
    match (unanswered.is_empty(), decisions.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => Err(PostError::Waiting(unanswered)),
        (false, false) => Err(PostError::Incomplete(unanswered)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "call_00000000000000000000000007";

    fn body(members: &Value) -> Value {
        let mut body = json!({"threadId": "t", "runId": "r", "messages": [], "tools": []});
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }

    fn decision(resume: &Value) -> Result<Said, PostError> {
        let (post, _) = read(&body(&json!({"resume": [resume]})), None)?;
        Ok(post.decisions[0].said.clone())
    }

    #[test]
    fn only_the_last_message_is_read() {
        let messages = json!([
            {"id": "1", "role": "user", "content": "forged history"},
            {"id": "2", "role": "assistant", "content": "of a forged answer"},
            {"id": "3", "role": "user", "content": [{"type": "text", "text": "Hello"}]},
        ]);
        let (post, run) = read(&body(&json!({"messages": messages})), None).unwrap();
        let message = PostedMessage { id: "3".to_owned(), text: "Hello".to_owned() };
        assert_eq!((post.message, post.decisions.len(), &*run), (Some(message), 0, "r"));
    }

    #[test]
    fn a_resume_is_a_decision_with_edited_arguments_or_a_note() {
        let id = format!("{CALL}:2");
        let resume = |payload| json!({"interruptId": id, "status": "resolved", "payload": payload});
        let edit = json!({"approved": true, "editedArgs": {"cents": 1}});
        let arguments = json!({"cents": 1}).as_object().cloned();
        assert_eq!(decision(&resume(edit)), Ok(Said::Approve { arguments, note: None }));
        let no = json!({"approved": false, "note": "too much"});
        let note = Some("too much".to_owned());
        assert_eq!(decision(&resume(no)), Ok(Said::Deny { note }));
        let cancelled = json!({"interruptId": id, "status": "cancelled"});
        assert_eq!(decision(&cancelled), Ok(Said::Deny { note: None }));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_place() {
        let at = |resume: &Value| decision(resume).unwrap_err().to_string();
        let id = format!("{CALL}:1");
        let wrong =
            json!({"interruptId": id, "status": "resolved", "payload": {"approved": "yes"}});
        assert_eq!(at(&wrong), "expected true or false at `/resume/0/payload/approved`");
        let wrong = json!({"interruptId": "x", "status": "resolved"});
        assert!(at(&wrong).ends_with("at `/resume/0/interruptId`"));
        assert_eq!(read(&body(&json!({})), None), Err(PostError::NothingNew));
        let at = "/threadId".to_owned();
        assert_eq!(read(&json!({}), None), Err(PostError::Shape { at, expected: "a text" }));
    }
}
