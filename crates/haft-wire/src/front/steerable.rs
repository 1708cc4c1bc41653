//! Document 000's stream: a session from its beginning until it rests, as that document's own
//! events, and then `done`.
//!
//! What a call and a result carry are exactly the document's two types. A result has no room for
//! its call's id, so the id stands in the envelope, which is open.

use haft_core::session::{Corrupt, Event, State, SuspensionKind, TurnEnding};
use haft_core::{CallId, ProviderCallId, Timestamp};
use serde_json::{Value, json};

use super::{Encode, Rest, Run, SchemasOf, TextStep};
use crate::{Dialect, Extension};

/// Turns a session's events into document 000's.
#[derive(Debug)]
pub struct Encoder {
    run: Run,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { run: Run::new(State::Unopened) }
    }
}

impl Encoder {
    fn texts(steps: Vec<TextStep>) -> Vec<Value> {
        let text = |step| match step {
            TextStep::More(text) => Some(json!({"type": "content", "content": text})),
            TextStep::Begin | TextStep::End => None,
        };
        steps.into_iter().filter_map(text).collect()
    }

    fn proposed(&self, event: &Event) -> Option<Value> {
        let Event::CallProposed { call, contract, arguments, .. } = event else { return None };
        let name = self.run.called(contract.tool.as_str());
        let payload = json!({"id": call, "name": name, "arguments": arguments.record()});
        Some(json!({"type": "tool_call", "toolCallId": call, "payload": payload}))
    }
}

/// What document 000 has no type for: where the agent stands.
fn agent(event: &str, payload: &Value) -> Value {
    json!({"type": "agent", "event": event, "payload": payload})
}

fn told(event: &Event) -> Option<Value> {
    Some(match event {
        Event::CallRejected { call, rejection, .. } => json!({
            "type": "tool_result", "toolCallId": call,
            "payload": {"success": false, "needsFollowup": true, "error": rejection.message},
        }),
        Event::CallFinished { outcome } => {
            let id = ProviderCallId::from(outcome.call);
            let payload = Dialect::Steerable.project_result(outcome, &id, Extension::Omit);
            json!({"type": "tool_result", "toolCallId": outcome.call, "payload": payload})
        }
        Event::CallStarted { call, attempt, .. } => {
            json!({"type": "loader-hint", "hint": "running", "payload": {"toolCallId": call, "attempt": attempt}})
        }
        Event::CallDelegated { call, delegation, .. } => json!({
            "type": "orchestration", "event": "delegated", "taskId": delegation.child,
            "payload": {"toolCallId": call},
        }),
        Event::CallSuspended { kind: SuspensionKind::Child, .. } => return None,
        Event::CallSuspended { call, round, kind, expires_at, reason, .. } => agent(
            "waiting",
            &json!({
                "toolCallId": call, "round": round, "kind": kind, "reason": reason,
                "expiresAt": expires_at.to_string(),
            }),
        ),
        Event::CallResolved { call, round, decision, .. } => agent(
            "resolved",
            &json!({"toolCallId": call, "round": round, "decision": decision.kind()}),
        ),
        Event::TurnEnded { ending: TurnEnding::Limit { limit }, .. } => json!({
            "type": "budget_exhausted", "code": limit,
            "message": format!("the run ended at its limit `{limit}`"),
        }),
        Event::TurnEnded { ending: TurnEnding::Failed { failure }, .. } => {
            json!({"type": "error", "code": failure.class, "message": failure.message})
        }
        _ => return None,
    })
}

impl Encode for Encoder {
    fn event(&mut self, at: Timestamp, event: &Event) -> Result<Vec<Value>, Corrupt> {
        self.run.apply(at, event)?;
        Ok(match event {
            Event::TurnRetried { .. } => Self::texts(self.run.streamed.drop()),
            Event::TurnAnswered { content, .. } => Self::texts(self.run.streamed.complete(content)),
            Event::CallProposed { .. } => self.proposed(event).into_iter().collect(),
            event => told(event).into_iter().collect(),
        })
    }

    fn delta(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<Value> {
        Self::texts(self.run.hear(turn, attempt, text))
    }

    fn missed(&mut self) {
        self.run.streamed.holds_back = true;
    }

    fn progress(&self, call: CallId, progress: &Value) -> Value {
        let payload = json!({"toolCallId": call, "progress": progress});
        json!({"type": "loader-hint", "hint": "progress", "payload": payload})
    }

    fn rest(&self) -> Option<Rest<'_>> {
        self.run.rest()
    }

    fn finish(&mut self, _: SchemasOf<'_>) -> Vec<Value> {
        vec![json!({"type": "done"})]
    }

    fn broken(&self, message: &str) -> Value {
        json!({"type": "error", "message": message})
    }
}
