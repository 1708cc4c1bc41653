//! Models that follow a script: no model at all, and labelled so.
//!
//! A script is JSON or TOML:
//!
//! ```toml
//! then = "stop"                     # or "repeat": after the last turn begin again
//!
//! [[turns]]
//! expect = "Paris"                  # the last message or results must contain this
//! say = "Let me look."
//!
//! [[turns.calls]]
//! tool = "get_weather"
//! arguments = { city = "Paris" }
//!
//! [[turns]]
//! say = "It rains."
//! ```
//!
//! What a turn says may end with a loop directive, as a model's answer may.
//!
//! Which turn is next follows from the log, so a script goes on where it was after a crash.

use haft_core::session::Event;
use haft_core::{ContentBlock, ErrorClass, Failure, ProviderCallId};
use haft_runtime::{AskedCall, Model, ModelAnswer, ModelError, ModelRequest, ToolFuture};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::directive;
use crate::transcript::{Item, Transcript, result_text, said};

/// What a scripted model says, turn by turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns, in their order.
    turns: Vec<Turn>,
    /// What follows the last one.
    #[serde(default)]
    then: Then,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    expect: Option<String>,
    say: Option<String>,
    #[serde(default)]
    calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    Repeat,
    #[default]
    Stop,
}

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// It cannot be read.
    #[error("the script cannot be read: {0}")]
    Unreadable(String),
    /// It has nothing to say.
    #[error("expected at least one turn in the script, found none")]
    Empty,
}

impl Script {
    /// Reads a script in JSON.
    ///
    /// # Errors
    ///
    /// When it is no script, or has no turns.
    pub fn from_json(text: &str) -> Result<Self, ScriptError> {
        let read = serde_json::from_str::<Self>(text);
        read.map_err(|error| ScriptError::Unreadable(error.to_string()))?.checked()
    }

    /// Reads a script in TOML.
    ///
    /// # Errors
    ///
    /// When it is no script, or has no turns.
    pub fn from_toml(text: &str) -> Result<Self, ScriptError> {
        let read = toml::from_str::<Self>(text);
        read.map_err(|error| ScriptError::Unreadable(error.to_string()))?.checked()
    }

    fn checked(self) -> Result<Self, ScriptError> {
        if self.turns.is_empty() { Err(ScriptError::Empty) } else { Ok(self) }
    }

    /// Returns how many turns were said. A script that repeats begins again after an interruption:
    /// what it asked was not answered.
    fn n_done(&self, events: &[Event]) -> usize {
        let is_interruption = |event: &Event| matches!(event, Event::SessionInterrupted { .. });
        let begin = match self.then {
            Then::Stop => 0,
            Then::Repeat => events.iter().rposition(is_interruption).unwrap_or(0),
        };
        let is_answer = |event: &&Event| matches!(event, Event::TurnAnswered { .. });
        events[begin..].iter().filter(is_answer).count()
    }

    fn turn(&self, n_before: usize) -> Option<&Turn> {
        match self.then {
            Then::Stop => self.turns.get(n_before),
            Then::Repeat => self.turns.get(n_before.checked_rem(self.turns.len())?),
        }
    }
}

/// A model that follows a script.
#[derive(Debug, Clone)]
pub struct ScriptedModel {
    script: Script,
}

impl ScriptedModel {
    /// A model that follows this script in every session.
    pub fn new(script: Script) -> Self {
        Self { script }
    }

    async fn ask(&self, request: ModelRequest) -> Result<ModelAnswer, Failure> {
        let events = request.log.events().await?;
        let is_answer = |event: &&Event| matches!(event, Event::TurnAnswered { .. });
        let n_before = events.iter().filter(is_answer).count();
        let failed = |message: String| Failure::new(ErrorClass::Internal, message);
        let turn = self.script.turn(self.script.n_done(&events));
        let turn = turn.ok_or_else(|| failed(format!("the script ends after {n_before} turns")))?;
        if let Some(expected) = &turn.expect {
            let found = last_message(&Transcript::of(events));
            if !found.contains(expected.as_str()) {
                let message = format!(
                    "turn {} of the script expected {expected:?} in the last message, found \
                     {found:?}",
                    n_before + 1
                );
                return Err(failed(message));
            }
        }
        Ok(turn.answer(n_before))
    }
}

impl Turn {
    fn answer(&self, n_before: usize) -> ModelAnswer {
        let (said, directive) = match self.say.as_deref().map(directive::read) {
            Some((said, directive)) => (Some(said).filter(|said| !said.is_empty()), directive),
            None => (None, None),
        };
        let say = said.map(|text| ContentBlock::Text { text });
        let calls = self.calls.iter().enumerate().filter_map(|(i, call)| {
            let provider_id = ProviderCallId::new(format!("scripted_{n_before}_{i}")).ok()?;
            let arguments = Value::Object(call.arguments.clone()).to_string();
            Some(AskedCall { provider_id, name: call.tool.clone(), arguments })
        });
        let (content, calls) = (say.into_iter().collect(), calls.collect());
        ModelAnswer { content, calls, directive, ..ModelAnswer::default() }
    }
}

/// Returns what the model would read last: a message, or the results of its calls.
fn last_message(transcript: &Transcript) -> String {
    match transcript.items.last() {
        Some(Item::User { content }) => said(content),
        Some(Item::Assistant { calls, .. }) => {
            calls.iter().map(result_text).collect::<Vec<_>>().join("\n")
        }
        Some(Item::Note { text } | Item::Summary { text }) => text.clone(),
        Some(Item::LeftOut { .. }) | None => String::new(),
    }
}

impl Model for ScriptedModel {
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>> {
        Box::pin(async move { Ok(self.ask(request).await?) })
    }
}
