//! The questions to the model, as the API's spans and previews.

use haft_core::session::Usage;
use haft_core::{SessionId, Timestamp};
use serde_json::{Value, json};

use super::projection::{bare, message_id};

/// What a question cost, in the API's words.
pub(super) fn usage_of(usage: Option<Usage>) -> Value {
    let usage = usage.unwrap_or_default();
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cache_read),
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": 0,
        "speed": "standard",
    })
}

/// What a session has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    input: u64,
    output: u64,
    cache_read: u64,
}

impl Spent {
    pub(super) fn add(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.input = self.input.saturating_add(usage.input.saturating_sub(usage.cache_read));
        self.output = self.output.saturating_add(usage.output);
        self.cache_read = self.cache_read.saturating_add(usage.cache_read);
    }

    /// Writes it as the API shows a session's usage.
    pub fn shown(&self) -> Value {
        json!({
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
        })
    }
}

/// What the model is saying, before it has said it all: for whoever listens, never in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// Its type, such as `event_delta`.
    pub kind: &'static str,
    /// All of it.
    pub body: Value,
}

impl Preview {
    /// Says that the model's message of a turn begins.
    pub fn start(session: SessionId, turn: u32) -> Self {
        let event = json!({ "type": "agent.message", "id": message_id(session, turn) });
        Self { kind: "event_start", body: json!({ "type": "event_start", "event": event }) }
    }

    /// The next piece of it.
    pub fn delta(session: SessionId, turn: u32, text: &str) -> Self {
        let content = json!({ "type": "text", "text": text });
        let delta = json!({ "type": "content_delta", "index": 0, "content": content });
        let event = message_id(session, turn);
        let body = json!({ "type": "event_delta", "event_id": event, "delta": delta });
        Self { kind: "event_delta", body }
    }
}

/// Returns the last event of a session's stream, which says that the session was deleted.
pub fn session_deleted(session: SessionId, at: Timestamp) -> Value {
    let id = format!("sevt_{}_deleted", bare(session));
    json!({ "type": "session.deleted", "id": id, "processed_at": at.to_string() })
}
