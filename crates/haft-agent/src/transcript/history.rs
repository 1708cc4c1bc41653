//! A log, read as far as it goes and ready to be read on: a question costs what is new, not what
//! is old.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use haft_core::session::{Decided, Event, Rejection, Summary, TurnEnding, Wake};
use haft_core::tool::Executor;
use haft_core::{
    Arguments, CallId, CallResult, ContentBlock, Failure, MessageId, ProviderCallId, WakeId,
};
use serde_json::{Map, Value};

use super::{Ended, PairedCall};
use crate::tokens::Correction;

/// What was said and done in a session so far.
#[derive(Debug, Default)]
pub struct History {
    /// The place of the latest event that was read.
    seq: u64,
    turn: u32,
    waiting: BTreeMap<MessageId, Placed<Vec<ContentBlock>>>,
    wakes: BTreeMap<WakeId, Placed<Wake>>,
    summary: Option<Arc<Summary>>,
    correction: Correction,
    pub(super) parts: Vec<Part>,
    /// The turn of each call that has not ended.
    open: HashMap<CallId, u32>,
}

/// Something with its place in the log.
#[derive(Debug)]
struct Placed<T> {
    seq: u64,
    value: T,
}

/// One part of what was said and done.
#[derive(Debug)]
pub(super) struct Part {
    /// The place of the first event that it is made of.
    seq: u64,
    pub(super) turn: u32,
    pub(super) kind: Kind,
    /// What showing it costs, as long as that is known.
    pub(super) tokens: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Kind {
    User(Vec<ContentBlock>),
    Note(String),
    Answer { content: Vec<ContentBlock>, provider_meta: Option<Value>, calls: Vec<Slot> },
}

/// A call whose result may still come.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) call: PairedCall,
    pub(super) has_ended: bool,
}

impl History {
    /// Reads a whole log, oldest event first.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Self {
        let mut history = Self::default();
        for (seq, event) in (1..).zip(events) {
            history.take(seq, event);
        }
        history
    }

    /// What a summary stands for, with the log to be read on after it.
    pub fn after(summary: Arc<Summary>) -> Self {
        Self { seq: summary.after_seq, summary: Some(summary), ..Self::default() }
    }

    /// Returns the place after which the log is to be read on.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns what stands for the earlier turns.
    pub fn summary(&self) -> Option<&Arc<Summary>> {
        self.summary.as_ref()
    }

    /// Returns how the provider's own counts relate to our estimates, as far as the log was read.
    pub(crate) fn correction(&self) -> Correction {
        self.correction
    }

    /// Returns the place in the log after which everything stands that a summary through this
    /// turn would not cover.
    pub fn after_turn(&self, turn: u32) -> u64 {
        let question = self.covered_question(turn);
        let stays = |(at, part): &(usize, &Part)| part.turn > turn || Some(*at) == question;
        let parts = self.parts.iter().enumerate().filter(stays).map(|(_, part)| part.seq);
        let messages = self.waiting.values().map(|message| message.seq);
        let wakes = self.wakes.values().map(|wake| wake.seq);
        let first = parts.chain(messages).chain(wakes).min();
        first.map_or(self.seq, |first| first.saturating_sub(1))
    }

    /// Reads the next event of the log.
    pub fn take(&mut self, seq: u64, event: Event) {
        self.seq = seq;
        match event {
            Event::MessageReceived { message, content, .. } => {
                self.waiting.insert(message, Placed { seq, value: content });
            }
            Event::WakeQueued { wake } => {
                self.wakes.insert(wake.id, Placed { seq, value: wake });
            }
            Event::WakeCancelled { wake, .. } => drop(self.wakes.remove(&wake)),
            Event::TurnStarted { turn, messages, wakes } => {
                self.start_turn(turn, &messages, &wakes)
            }
            Event::TurnAnswered { turn, content, provider_meta, usage, context, .. } => {
                if let (Some(usage), Some(context)) = (usage, context) {
                    self.correction = Correction::from_answer(&usage, &context, self.correction);
                }
                let kind = Kind::Answer { content, provider_meta, calls: Vec::new() };
                self.push(seq, turn, kind);
            }
            Event::TurnEnded { turn, ending } => {
                if let Some(note) = ending_note(&ending) {
                    self.push(seq, turn, Kind::Note(note));
                }
            }
            Event::ContextSummarised { summary } => self.summarise(summary),
            Event::CallProposed { call, provider_id, contract, arguments, .. } => {
                let name = contract.tool.to_string();
                let arguments = arguments.record().clone();
                self.begin(call, provider_id, name, arguments, contract.executor);
            }
            Event::CallRejected { call, provider_id, name, rejection } => {
                self.reject(call, provider_id, name, rejection);
            }
            Event::CallResolved {
                call, decision: Decided::Approve { arguments, note }, ..
            } => {
                self.approve(call, arguments.as_ref(), note);
            }
            Event::CallFinished { outcome } => {
                self.end(outcome.call, outcome.result, outcome.provider_meta);
            }
            _ => {}
        }
    }

    fn start_turn(&mut self, turn: u32, messages: &[MessageId], wakes: &[WakeId]) {
        self.turn = turn;
        for id in messages {
            if let Some(Placed { seq, value }) = self.waiting.remove(id) {
                self.push(seq, turn, Kind::User(value));
            }
        }
        for id in wakes {
            if let Some(Placed { seq, value }) = self.wakes.remove(id) {
                self.push(seq, turn, Kind::Note(wake_note(&value)));
            }
        }
    }

    /// Of the turns that the summary covers only the last thing said from outside is kept: what
    /// is being worked on is shown as it was put.
    fn push(&mut self, seq: u64, turn: u32, kind: Kind) {
        let through = self.summary.as_ref().map_or(0, |summary| summary.through_turn);
        self.parts.push(Part { seq, turn, kind, tokens: None });
        if turn <= through {
            self.leave_out(through);
        }
    }

    fn summarise(&mut self, summary: Arc<Summary>) {
        let through = summary.through_turn;
        self.leave_out(through);
        self.open.retain(|_, turn| *turn > through);
        self.summary = Some(summary);
    }

    fn leave_out(&mut self, through: u32) {
        let question = self.covered_question(through);
        let mut at = 0;
        self.parts.retain(|part| {
            let stays = part.turn > through || Some(at) == question;
            at += 1;
            stays
        });
    }

    fn covered_question(&self, through: u32) -> Option<usize> {
        let said = |part: &Part| part.turn <= through && matches!(part.kind, Kind::User(_));
        self.parts.iter().rposition(said)
    }

    /// Returns the turn of the newest answer.
    pub(crate) fn newest_answer(&self) -> Option<u32> {
        let is_answer = |part: &&Part| matches!(part.kind, Kind::Answer { .. });
        self.parts.iter().rev().find(is_answer).map(|part| part.turn)
    }

    fn begin(
        &mut self,
        id: CallId,
        provider_id: ProviderCallId,
        name: String,
        arguments: Map<String, Value>,
        executor: Executor,
    ) {
        let turn = self.turn;
        let Some((calls, _)) = self.calls_of(turn) else { return };
        let (notes, ended) = (Vec::new(), Ended::Stubbed);
        let call = PairedCall {
            id,
            provider_id,
            name,
            arguments,
            executor,
            notes,
            ended,
            provider_meta: None,
        };
        calls.push(Slot { call, has_ended: false });
        self.open.insert(id, turn);
    }

    /// A call may be rejected at once, or after it was proposed.
    fn reject(&mut self, id: CallId, provider_id: ProviderCallId, name: String, why: Rejection) {
        if self.slot(id).is_none() {
            // Text that is no object cannot be shown as arguments; the reason quotes what matters.
            let raw = why.raw_arguments.as_deref().unwrap_or_default();
            let arguments = serde_json::from_str(raw).unwrap_or_default();
            self.begin(id, provider_id, name, arguments, Executor::Server);
        }
        self.end(id, CallResult::Err(Failure::new(why.reason.class(), why.message)), None);
    }

    fn approve(&mut self, call: CallId, edited: Option<&Arguments>, note: Option<String>) {
        let Some(slot) = self.slot(call) else { return };
        if let Some(edited) = edited {
            slot.call.arguments = edited.record().clone();
            let said = "The approver changed the arguments; the call shows what ran.";
            slot.call.notes.push(said.to_owned());
        }
        slot.call.notes.extend(note.map(|note| format!("The approver says: {note}")));
    }

    fn end(&mut self, id: CallId, result: CallResult, provider_meta: Option<Value>) {
        if let Some(slot) = self.slot(id) {
            slot.call.provider_meta = provider_meta;
            slot.call.ended = Ended::With(result);
            slot.has_ended = true;
        }
        self.open.remove(&id);
    }

    fn slot(&mut self, id: CallId) -> Option<&mut Slot> {
        let turn = *self.open.get(&id)?;
        let (calls, tokens) = self.calls_of(turn)?;
        *tokens = None;
        calls.iter_mut().rev().find(|slot| slot.call.id == id)
    }

    fn calls_of(&mut self, turn: u32) -> Option<(&mut Vec<Slot>, &mut Option<usize>)> {
        let parts = self.parts.iter_mut().rev().take_while(|part| part.turn >= turn);
        parts.filter(|part| part.turn == turn).find_map(|part| match &mut part.kind {
            Kind::Answer { calls, .. } => Some((calls, &mut part.tokens)),
            Kind::User(_) | Kind::Note(_) => None,
        })
    }
}

/// What the model is told about how a run ended, when it did not end it itself.
fn ending_note(ending: &TurnEnding) -> Option<String> {
    match ending {
        TurnEnding::Limit { limit } => {
            Some(format!("[the run was stopped: `{limit}` was reached]"))
        }
        TurnEnding::Interrupted => Some("[the run was interrupted]".to_owned()),
        TurnEnding::Failed { failure } => {
            Some(format!("[the run ended because you could not be asked: {}]", failure.message))
        }
        TurnEnding::Completed | TurnEnding::Settled | TurnEnding::Terminal => None,
    }
}

fn wake_note(wake: &Wake) -> String {
    match &wake.note {
        Some(note) => format!("[wake] {}\n{note}", wake.reason),
        None => format!("[wake] {}", wake.reason),
    }
}
