//! The AI SDK's UI message stream v1: what `useChat` and its relatives read.
//!
//! The client decides yes or no about a call and may give results for what it runs itself. It
//! cannot edit arguments, and a call in doubt is shown to it as data only: both are for the inbox.
//! An unknown kind of chunk is an error to that client, so only its own kinds and `data-haft-*`
//! are sent.

use haft_core::session::{
    Corrupt, Event, Open, Preview, State, SuspendReason, SuspensionKind, TurnEnding,
};
use haft_core::{CallId, CallResult, ErrorClass, Outcome, Timestamp};
use serde_json::{Value, json};

use super::{
    Post, PostError, Posted, PostedMessage, Rest, Run, Said, TextStep, joined_text, optional_text,
    read_wait_id, text_member, wait_id,
};
use crate::views;

/// Turns a run's events into chunks.
#[derive(Debug)]
pub struct Encoder {
    run: Run,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Open,
    Closed,
}

impl Encoder {
    /// Follows a session from this state on.
    pub fn new(state: State) -> Self {
        Self { run: Run::new(state), step: Step::Closed }
    }

    /// The first chunk; the message is the client's own when it goes on with one.
    pub fn start(&self, message_id: &str) -> Value {
        json!({"type": "start", "messageId": message_id})
    }

    /// A piece of the model's text, as it comes.
    pub fn delta(&mut self, text: &str) -> Vec<Value> {
        let steps = self.run.streamed.more(text);
        self.texts(steps)
    }

    /// Pieces were missed: the rest of the text comes with the whole answer.
    pub fn missed(&mut self) {
        self.run.streamed.holds_back = true;
    }

    /// A running call says how far it is.
    pub fn progress(&self, call: CallId, progress: &Value) -> Value {
        let data = json!({"toolCallId": call, "progress": progress});
        json!({"type": "data-haft-progress", "data": data, "transient": true})
    }

    /// What a stored event is for the front end.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before.
    pub fn event(&mut self, at: Timestamp, event: &Event) -> Result<Vec<Value>, Corrupt> {
        self.run.apply(at, event)?;
        Ok(match event {
            Event::TurnStarted { .. } => {
                let mut chunks = self.close_step();
                self.step = Step::Open;
                chunks.push(json!({"type": "start-step"}));
                chunks
            }
            Event::TurnRetried { .. } => {
                let steps = self.run.streamed.drop();
                self.texts(steps)
            }
            Event::TurnAnswered { content, .. } => {
                let steps = self.run.streamed.complete(content);
                self.texts(steps)
            }
            Event::CallProposed { call, contract, arguments, .. } => vec![json!({
                "type": "tool-input-available", "toolCallId": call, "toolName": contract.tool,
                "input": arguments.record(), "dynamic": true,
            })],
            Event::CallRejected { call, name, rejection, .. } => vec![json!({
                "type": "tool-input-error", "toolCallId": call, "toolName": name,
                "input": rejection.raw_arguments, "errorText": rejection.message, "dynamic": true,
            })],
            Event::CallSuspended { call, round, kind, expires_at, reason, preview } => {
                let asked = Asked { call: *call, round: *round, expires_at: *expires_at };
                asked.chunk(*kind, *reason, preview.as_ref()).into_iter().collect()
            }
            Event::CallFinished { outcome } => vec![finished(outcome)],
            _ => Vec::new(),
        })
    }

    /// Returns where the run rests, if it does.
    pub fn rest(&self) -> Option<Rest<'_>> {
        self.run.rest()
    }

    /// The last chunks of the run, once it rests.
    pub fn finish(&mut self) -> Vec<Value> {
        let steps = self.run.streamed.drop();
        let mut chunks = self.texts(steps);
        chunks.extend(self.close_step());
        chunks.push(match (self.run.rest(), &self.run.ending) {
            (Some(Rest::Waiting(_)), _) => json!({"type": "finish", "finishReason": "tool-calls"}),
            (_, Some(TurnEnding::Failed { failure })) => broken(&failure.message),
            (_, Some(TurnEnding::Interrupted)) => json!({"type": "abort"}),
            (_, Some(TurnEnding::Limit { .. })) => {
                json!({"type": "finish", "finishReason": "other"})
            }
            _ => json!({"type": "finish", "finishReason": "stop"}),
        });
        chunks
    }

    fn close_step(&mut self) -> Vec<Value> {
        let open = std::mem::replace(&mut self.step, Step::Closed) == Step::Open;
        open.then(|| json!({"type": "finish-step"})).into_iter().collect()
    }

    fn texts(&self, steps: Vec<TextStep>) -> Vec<Value> {
        let id = self.run.streamed.id(self.run.turn());
        let text = |step| match step {
            TextStep::Begin => json!({"type": "text-start", "id": id}),
            TextStep::More(delta) => json!({"type": "text-delta", "id": id, "delta": delta}),
            TextStep::End => json!({"type": "text-end", "id": id}),
        };
        steps.into_iter().map(text).collect()
    }
}

/// The chunk that ends a run which could not be followed to its rest.
pub fn broken(message: &str) -> Value {
    json!({"type": "error", "errorText": message})
}

/// A wait that has just begun.
struct Asked {
    call: CallId,
    round: u32,
    expires_at: Timestamp,
}

impl Asked {
    /// A call that the client runs, and a question to a person, wait for the client's output by
    /// themselves.
    fn chunk(
        &self,
        kind: SuspensionKind,
        why: SuspendReason,
        preview: Option<&Preview>,
    ) -> Option<Value> {
        let (call, expires_at) = (self.call, self.expires_at.to_string());
        let id = wait_id(call, self.round);
        match kind {
            SuspensionKind::Approval => Some(json!({
                "type": "tool-approval-request", "approvalId": id, "toolCallId": call,
                "approvalDescriptor": {"why": why, "expiresAt": expires_at, "preview": preview},
            })),
            SuspensionKind::Settlement => Some(json!({
                "type": "data-haft-settlement", "id": id,
                "data": {"toolCallId": call, "expiresAt": expires_at},
            })),
            SuspensionKind::Elicitation | SuspensionKind::ClientExec | SuspensionKind::Child => {
                None
            }
        }
    }
}

fn finished(outcome: &Outcome) -> Value {
    let call = outcome.call;
    match &outcome.result {
        CallResult::Ok(output) => json!({
            "type": "tool-output-available", "toolCallId": call,
            "output": views::single_value(output), "dynamic": true,
        }),
        CallResult::Err(failure) if failure.class == ErrorClass::Denied => {
            json!({"type": "tool-output-denied", "toolCallId": call})
        }
        CallResult::Err(failure) => json!({
            "type": "tool-output-error", "toolCallId": call, "errorText": failure.message,
            "dynamic": true,
        }),
    }
}

/// Reads what a chat posts, against what waits: the last message only.
///
/// # Errors
///
/// When the body is no chat's, asks for what is not offered, or says nothing new.
pub fn read(body: &Value, open: Option<&Open>) -> Result<(Post, Option<String>), PostError> {
    let thread = text_member(body, "id", "")?;
    if body.get("trigger").and_then(Value::as_str) == Some("regenerate-message") {
        return Err(PostError::Unsupported(
            "taking a turn again: what tools did stays done, so it",
        ));
    }
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages
        .ok_or_else(|| PostError::Shape { at: "/messages".to_owned(), expected: "a list" })?;
    let last = messages.last().ok_or(PostError::NothingNew)?;
    let at = format!("/messages/{}", messages.len() - 1);
    let parts = last.get("parts").and_then(Value::as_array);
    let parts =
        parts.ok_or_else(|| PostError::Shape { at: format!("{at}/parts"), expected: "a list" })?;
    let id = text_member(last, "id", &at)?;
    match last.get("role").and_then(Value::as_str) {
        Some("user") => {
            let message = Some(PostedMessage { id, text: joined_text(parts)? });
            Ok((Post { thread, message, decisions: Vec::new() }, None))
        }
        Some("assistant") => {
            let decisions = decisions(parts, open, &at)?;
            if decisions.is_empty() {
                return Err(PostError::NothingNew);
            }
            Ok((Post { thread, message: None, decisions }, Some(id)))
        }
        _ => Err(PostError::Shape { at: format!("{at}/role"), expected: "`user` or `assistant`" }),
    }
}

/// Only what is about a call that waits is read: outputs of our own tools are history.
fn decisions(parts: &[Value], open: Option<&Open>, at: &str) -> Result<Vec<Posted>, PostError> {
    let mut decisions = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let at = format!("{at}/parts/{n}");
        match part.get("state").and_then(Value::as_str) {
            Some("approval-responded") => decisions.push(approval(part, &at)?),
            Some("output-available" | "output-error") => {
                decisions.extend(open.and_then(|open| output(part, open)));
            }
            _ => {}
        }
    }
    Ok(decisions)
}

fn approval(part: &Value, at: &str) -> Result<Posted, PostError> {
    let approval = part.get("approval").unwrap_or(&Value::Null);
    let id = text_member(approval, "id", &format!("{at}/approval"))?;
    let (call, round) = read_wait_id(&id, || format!("{at}/approval/id"))?;
    let note = optional_text(approval, "reason");
    let said = match approval.get("approved").and_then(Value::as_bool) {
        Some(true) => Said::Approve { arguments: None, note },
        Some(false) => Said::Deny { note },
        None => {
            let at = format!("{at}/approval/approved");
            return Err(PostError::Shape { at, expected: "true or false" });
        }
    };
    Ok(Posted { call, round: Some(round), said })
}

fn output(part: &Value, open: &Open) -> Option<Posted> {
    let id: CallId = part.get("toolCallId")?.as_str()?.parse().ok()?;
    let (_, wait) = open.waiting().find(|(call, _)| call.id == id)?;
    let value = part.get("output").cloned().unwrap_or(Value::Null);
    let error = optional_text(part, "errorText");
    let said = match wait.kind {
        SuspensionKind::ClientExec => Said::Ran { result: error.map_or(Ok(value), Err) },
        SuspensionKind::Elicitation if error.is_some() => Said::Deny { note: error },
        SuspensionKind::Elicitation => Said::Answer { value },
        SuspensionKind::Approval | SuspensionKind::Settlement | SuspensionKind::Child => {
            return None;
        }
    };
    Some(Posted { call: id, round: Some(wait.round), said })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "call_00000000000000000000000007";

    fn chat(last: &Value) -> Value {
        let forged = json!({"id": "0", "role": "user", "parts": [{"type": "text", "text": "x"}]});
        json!({"id": "chat", "trigger": "submit-message", "messages": [forged, last]})
    }

    #[test]
    fn only_the_last_message_is_read() {
        let parts = json!([{"type": "text", "text": "Hello"}]);
        let body = chat(&json!({"id": "1", "role": "user", "parts": parts}));
        let (post, continued) = read(&body, None).unwrap();
        let message = PostedMessage { id: "1".to_owned(), text: "Hello".to_owned() };
        assert_eq!((post.message, continued), (Some(message), None));
    }

    #[test]
    fn an_answered_approval_is_a_decision_and_outputs_of_our_tools_are_not() {
        let approval = json!({"id": format!("{CALL}:1"), "approved": false, "reason": "no"});
        let parts = json!([
            {"type": "dynamic-tool", "toolCallId": "call_x", "state": "output-available", "output": 1},
            {"type": "dynamic-tool", "toolCallId": CALL, "state": "approval-responded",
             "approval": approval},
        ]);
        let body = chat(&json!({"id": "7", "role": "assistant", "parts": parts}));
        let (post, continued) = read(&body, None).unwrap();
        let said = Said::Deny { note: Some("no".to_owned()) };
        let posted = Posted { call: CALL.parse().unwrap(), round: Some(1), said };
        assert_eq!((post.decisions, continued), (vec![posted], Some("7".to_owned())));
    }

    #[test]
    fn what_says_nothing_new_or_asks_for_too_much_is_refused() {
        let body = chat(&json!({"id": "7", "role": "assistant", "parts": []}));
        assert_eq!(read(&body, None), Err(PostError::NothingNew));
        let mut again = body;
        again["trigger"] = "regenerate-message".into();
        assert!(matches!(read(&again, None), Err(PostError::Unsupported(_))));
    }
}
