//! Streams for front ends that people already have, over the same log.
//!
//! A front end follows one *run*: from what someone says until the session rests, because the
//! model has said its last word or because every open call waits for someone. Nothing of a front
//! end's format is stored; what it posts as history is not read. Only its latest words and its
//! decisions about calls are.
//!
//! Calls go by our own ids, since a provider's may repeat, and a wait goes by its call and round,
//! so that an answer to an earlier question cannot end a later one.

pub mod ag_ui;
pub mod steerable;
pub mod ui_message;

use haft_core::session::{Activity, Call, Corrupt, Event, Phase, State, Suspension, TurnEnding};
use haft_core::{CallId, ContentBlock, Timestamp, ToolName};
use serde_json::{Map, Value};

/// What someone posts about a call that waits, not yet checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// The call.
    pub call: CallId,
    /// The wait that they saw.
    pub round: Option<u32>,
    /// What they say.
    pub said: Said,
}

/// What someone says about a wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Yes.
    Approve {
        /// Other arguments to run instead.
        arguments: Option<Map<String, Value>>,
        /// What they add.
        note: Option<String>,
    },
    /// No.
    Deny {
        /// What they add, for the model.
        note: Option<String>,
    },
    /// The answer, which is the result.
    Answer {
        /// The answer.
        value: Value,
    },
    /// What the client that ran the call got.
    Ran {
        /// The result, or what went wrong.
        result: Result<Value, String>,
    },
    /// What became of a call in doubt.
    Settle(Settled),
}

/// What someone says about a call in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// It did take effect.
    Happened {
        /// What it gave, as far as known.
        value: Option<Value>,
    },
    /// It did not; run it.
    RunAgain,
    /// Leave it.
    GiveUp,
}

/// What a posted body says, apart from its history.
#[derive(Debug, Clone, PartialEq)]
pub struct Post {
    /// The conversation, by the client's name for it.
    pub thread: String,
    /// What is said, if anything new is.
    pub message: Option<PostedMessage>,
    /// The decisions about calls.
    pub decisions: Vec<Posted>,
}

/// A message by the client's id for it, so that one sent again is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedMessage {
    /// The client's id.
    pub id: String,
    /// The text.
    pub text: String,
}

/// Why a posted body is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Something is missing or of the wrong type.
    #[error("expected {expected} at `{at}`")]
    Shape {
        /// Where.
        at: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// Nothing in it says anything new.
    #[error("expected a new message or a decision at the end of `messages`, found neither")]
    NothingNew,
    /// It asks for what is not offered.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// Calls wait that it says nothing about.
    #[error("a resume must answer every open interrupt; not answered: {}", .0.join(", "))]
    Incomplete(Vec<String>),
    /// Calls wait, and it brings a new message instead of an answer.
    #[error("the session waits for an answer to {}; post it in `resume`", .0.join(", "))]
    Waiting(Vec<String>),
}

/// What forms are made from: the schemas of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchemas {
    /// Of its arguments, for whoever edits them.
    pub input: Value,
    /// Of its result, for whoever answers in its place.
    pub output: Option<Value>,
}

/// Finds the schemas of a tool, if it is still there.
pub type SchemasOf<'a> = &'a dyn Fn(&ToolName) -> Option<ToolSchemas>;

/// Where a run has come to rest.
#[derive(Debug)]
pub enum Rest<'a> {
    /// Nothing is under way.
    Idle,
    /// Every open call waits for someone.
    Waiting(Vec<(&'a Call, &'a Suspension)>),
    /// The session is over.
    Ended,
}

/// Turns a run's events into a front end's.
pub trait Encode {
    /// What a stored event is for the front end.
    ///
    /// # Errors
    ///
    /// When the event cannot follow the ones before.
    fn event(&mut self, at: Timestamp, event: &Event) -> Result<Vec<Value>, Corrupt>;

    /// A piece of what the model says in a turn, the `attempt`th time it is asked. One of an
    /// answer that is there already, or of an attempt that is void, is nothing.
    fn delta(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<Value>;

    /// Pieces were missed: the rest of the text comes with the whole answer.
    fn missed(&mut self);

    /// A running call says how far it is.
    fn progress(&self, call: CallId, progress: &Value) -> Value;

    /// Returns where the run rests, if it does.
    fn rest(&self) -> Option<Rest<'_>>;

    /// The last frames of a run that rests.
    fn finish(&mut self, schemas: SchemasOf<'_>) -> Vec<Value>;

    /// The last frame of a run that could not be followed to its rest.
    fn broken(&self, message: &str) -> Value;
}

/// What every encoder follows: the state, and how much of the model's text was sent already.
#[derive(Debug)]
struct Run {
    state: State,
    ending: Option<TurnEnding>,
    streamed: Streamed,
}

/// The text of the model's answer in hand, as far as it was sent.
#[derive(Debug, Default)]
struct Streamed {
    /// Counts texts, so that one that is begun again gets an id of its own.
    n_texts: u32,
    text: Option<String>,
    /// Whether a piece was missed: the rest then comes with the whole answer.
    holds_back: bool,
}

/// What becomes of the text in hand.
enum TextStep {
    Begin,
    More(String),
    End,
}

impl Run {
    fn new(state: State) -> Self {
        Self { state, ending: None, streamed: Streamed::default() }
    }

    fn apply(&mut self, at: Timestamp, event: &Event) -> Result<(), Corrupt> {
        let state = std::mem::take(&mut self.state);
        self.state = haft_core::session::evolve(state, at, event)?;
        match event {
            Event::TurnStarted { .. } => self.ending = None,
            Event::TurnEnded { ending, .. } => self.ending = Some(ending.clone()),
            _ => {}
        }
        Ok(())
    }

    fn rest(&self) -> Option<Rest<'_>> {
        let Some(open) = self.state.as_open() else { return Some(Rest::Ended) };
        match open.activity {
            Activity::Thinking { .. } => None,
            Activity::Idle => Some(Rest::Idle),
            Activity::Acting => {
                let is_held = |call: &Call| {
                    matches!(
                        call.phase,
                        Phase::Waiting(_) | Phase::Settled { .. } | Phase::AtProvider { .. }
                    )
                };
                let waiting: Vec<_> = open.waiting().collect();
                (open.calls().all(is_held) && !waiting.is_empty()).then_some(Rest::Waiting(waiting))
            }
        }
    }

    fn turn(&self) -> u32 {
        self.state.as_open().map_or(0, |open| open.turn)
    }

    /// The name by which the session's people and model know a tool.
    fn called<'a>(&'a self, tool: &'a str) -> &'a str {
        self.state.as_open().map_or(tool, |open| open.config.toolset.called(tool))
    }

    fn hear(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<TextStep> {
        let asked = Activity::Thinking { attempt };
        let is_asked =
            self.state.as_open().is_some_and(|open| open.turn == turn && open.activity == asked);
        if is_asked { self.streamed.more(text) } else { Vec::new() }
    }
}

impl Streamed {
    /// The id of the text in hand, or of the next one.
    fn id(&self, turn: u32) -> String {
        format!("text-{turn}-{}", self.n_texts)
    }

    fn more(&mut self, piece: &str) -> Vec<TextStep> {
        if self.holds_back || piece.is_empty() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        if self.text.is_none() {
            self.n_texts += 1;
            steps.push(TextStep::Begin);
        }
        self.text.get_or_insert_default().push_str(piece);
        steps.push(TextStep::More(piece.to_owned()));
        steps
    }

    /// What was sent so far is a beginning that no answer continues.
    fn drop(&mut self) -> Vec<TextStep> {
        self.holds_back = false;
        self.text.take().map(|_| TextStep::End).into_iter().collect()
    }

    /// The whole answer is there: what was not sent yet follows.
    fn complete(&mut self, content: &[ContentBlock]) -> Vec<TextStep> {
        let whole: String = content.iter().filter_map(ContentBlock::as_text).collect();
        self.holds_back = false;
        let sent = self.text.take();
        if let Some(rest) = sent.as_deref().and_then(|sent| whole.strip_prefix(sent)) {
            let rest = (!rest.is_empty()).then(|| TextStep::More(rest.to_owned()));
            return rest.into_iter().chain([TextStep::End]).collect();
        }
        let mut steps: Vec<_> = sent.map(|_| TextStep::End).into_iter().collect();
        if !whole.is_empty() {
            self.n_texts += 1;
            steps.extend([TextStep::Begin, TextStep::More(whole), TextStep::End]);
        }
        steps
    }
}

/// The id by which a front end knows a wait.
fn wait_id(call: CallId, round: u32) -> String {
    format!("{call}:{round}")
}

fn read_wait_id(id: &str, at: impl FnOnce() -> String) -> Result<(CallId, u32), PostError> {
    id.split_once(':')
        .and_then(|(call, round)| Some((call.parse().ok()?, round.parse().ok()?)))
        .ok_or_else(|| PostError::Shape { at: at(), expected: "the id of a wait, as it was sent" })
}

fn text_member(object: &Value, member: &str, at: &str) -> Result<String, PostError> {
    let text = object.get(member).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| PostError::Shape { at: format!("{at}/{member}"), expected: "a text" })
}

fn optional_text(object: &Value, member: &str) -> Option<String> {
    object.get(member).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The text of a message that is written in parts.
fn joined_text(parts: &[Value]) -> Result<String, PostError> {
    let texts = parts.iter().map(|part| match part.get("type").and_then(Value::as_str) {
        Some("text") => Ok(part.get("text").and_then(Value::as_str).unwrap_or_default()),
        _ => Err(PostError::Unsupported("a part of a message that is no text")),
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(steps: Vec<TextStep>) -> String {
        let text = |step| match step {
            TextStep::Begin => "<".to_owned(),
            TextStep::More(text) => text,
            TextStep::End => ">".to_owned(),
        };
        steps.into_iter().map(text).collect()
    }

    fn answer(text: &str) -> Vec<ContentBlock> {
        vec![ContentBlock::Text { text: text.to_owned() }]
    }

    #[test]
    fn the_whole_answer_sends_only_what_was_not_sent_yet() {
        let mut streamed = Streamed::default();
        assert_eq!(texts(streamed.more("It ")), "<It ");
        assert_eq!(texts(streamed.more("rains")), "rains");
        assert_eq!(texts(streamed.complete(&answer("It rains."))), ".>");
        assert_eq!(texts(streamed.complete(&answer("Again."))), "<Again.>");
        assert_eq!(texts(streamed.complete(&[])), "");
    }

    #[test]
    fn after_a_missed_piece_nothing_is_sent_until_the_whole_answer_is_there() {
        let mut streamed = Streamed::default();
        let mut sent = texts(streamed.more("It "));
        streamed.holds_back = true;
        sent += &texts(streamed.more("in London"));
        sent += &texts(streamed.complete(&answer("It rains in London")));
        assert_eq!(sent, "<It rains in London>");
    }

    #[test]
    fn an_answer_that_begins_anew_is_a_text_of_its_own() {
        let mut streamed = Streamed::default();
        let first = texts(streamed.more("Let me")) + &streamed.id(1);
        let second = texts(streamed.drop()) + &texts(streamed.more("It rains")) + &streamed.id(1);
        assert_eq!((&*first, &*second), ("<Let metext-1-1", "><It rainstext-1-2"));
    }

    #[test]
    fn a_wait_goes_by_its_call_and_round() {
        let call = CallId::from_bits(7);
        let read = read_wait_id(&wait_id(call, 3), || "here".to_owned());
        assert_eq!(read, Ok((call, 3)));
        for id in ["", "call", "call_1:x", &call.to_string()] {
            let at = "here".to_owned();
            let expected = "the id of a wait, as it was sent";
            assert_eq!(read_wait_id(id, || at.clone()), Err(PostError::Shape { at, expected }));
        }
    }
}
