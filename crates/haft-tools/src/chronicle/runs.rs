//! A session's runs, which document 002 calls wakes: from the first turn after rest until rest.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use haft_core::session::{Event, TurnEnding};
use haft_core::{CallId, CallResult, ContentBlock, ErrorClass, Outcome, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Told;

/// Names a run within its session, by its first turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(u32);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run_{}", self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("run_").and_then(|number| number.parse().ok());
        number.map(Self).ok_or_else(|| format!("expected a wake like `run_3`, found {text:?}"))
    }
}

/// How a call of a run ended, in document 002's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpanEnd {
    Success,
    Error,
    /// It did not run: someone or something said no.
    Blocked,
}

impl SpanEnd {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        match &outcome.result {
            CallResult::Ok(_) => Self::Success,
            CallResult::Err(failure) => match failure.class {
                ErrorClass::Denied
                | ErrorClass::Policy
                | ErrorClass::Gate
                | ErrorClass::Expired => Self::Blocked,
                _ => Self::Error,
            },
        }
    }
}

/// A call of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    pub(crate) call: CallId,
    pub(crate) tool: String,
    /// As they may be shown.
    pub(crate) arguments: Map<String, Value>,
    /// What came of it; `None` while it is open.
    pub(crate) end: Option<SpanEnd>,
    /// Every text of its result.
    pub(crate) text: String,
    /// Where its end stands in the log; its beginning while it is open.
    pub(crate) seq: u64,
}

/// From the first turn after rest until rest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    pub(crate) started_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    /// What the model said, in order.
    pub(crate) answers: Vec<String>,
    pub(crate) calls: Vec<Done>,
    /// Why it is over; `None` while it is not.
    pub(crate) ending: Option<TurnEnding>,
}

impl Run {
    /// The last thing that was said, or else done.
    pub(crate) fn summary(&self) -> Option<String> {
        let said = self.answers.iter().rev().find(|answer| !answer.is_empty());
        said.cloned().or_else(|| {
            let last = self.calls.last()?;
            let end = match last.end {
                Some(SpanEnd::Success) => "done",
                Some(SpanEnd::Error) => "failed",
                Some(SpanEnd::Blocked) => "blocked",
                None => "open",
            };
            Some(format!("`{}`: {end}", last.tool))
        })
    }

    /// Whether it has ended, not before a time.
    pub(crate) fn ended_since(&self, since: Timestamp) -> bool {
        self.ending.is_some() && self.updated_at >= since
    }

    /// Whether it came to rest by itself.
    pub(crate) fn rested(&self) -> bool {
        matches!(self.ending, Some(TurnEnding::Completed | TurnEnding::Settled))
    }
}

/// The runs of a log, oldest first. What stands before the first turn belongs to none.
pub(crate) fn runs(log: &[Told]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut of_call: HashMap<CallId, usize> = HashMap::new();
    for told in log {
        let resting = runs.last().is_none_or(|run| run.ending.is_some());
        if let (Event::TurnStarted { turn, .. }, true) = (&told.event, resting) {
            runs.push(Run {
                id: RunId(*turn),
                first_seq: told.seq,
                last_seq: told.seq,
                started_at: told.at,
                updated_at: told.at,
                answers: Vec::new(),
                calls: Vec::new(),
                ending: None,
            });
            of_call.clear();
            continue;
        }
        let Some(run) = runs.last_mut().filter(|run| run.ending.is_none()) else { continue };
        run.last_seq = told.seq;
        run.updated_at = told.at;
        take(run, &mut of_call, told);
    }
    runs
}

fn take(run: &mut Run, of_call: &mut HashMap<CallId, usize>, told: &Told) {
    match &told.event {
        Event::TurnAnswered { content, .. } => run.answers.push(said(content)),
        Event::TurnEnded { ending, .. } => run.ending = Some(ending.clone()),
        Event::CallProposed { call, contract, arguments, .. } => {
            of_call.insert(*call, run.calls.len());
            run.calls.push(Done {
                call: *call,
                tool: contract.tool.as_str().to_owned(),
                arguments: arguments.record().clone(),
                end: None,
                text: String::new(),
                seq: told.seq,
            });
        }
        Event::CallFinished { outcome } => {
            let place = of_call.get(&outcome.call).copied();
            let Some(done) = place.and_then(|place| run.calls.get_mut(place)) else { return };
            done.end = Some(SpanEnd::of(outcome));
            done.text = result_text(&outcome.result);
            done.seq = told.seq;
        }
        _ => {}
    }
}

/// The text of some content.
pub(crate) fn said(content: &[ContentBlock]) -> String {
    content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}

/// Every text that a result holds, wherever in it.
pub(super) fn result_text(result: &CallResult) -> String {
    let mut texts = Vec::new();
    match result {
        CallResult::Ok(output) => {
            texts.extend(output.content.iter().filter_map(ContentBlock::as_text));
            if let Some(value) = &output.value {
                each_text(value, &mut texts);
            }
        }
        CallResult::Err(failure) => texts.push(&failure.message),
    }
    texts.dedup();
    texts.join("\n")
}

pub(crate) fn each_text<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, texts)),
        Value::Object(members) => members.values().for_each(|value| each_text(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
