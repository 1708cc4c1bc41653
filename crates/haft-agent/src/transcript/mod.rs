//! What was said and done in a session, as a model may be shown it.
//!
//! Derived from the log alone, so it is the same after a crash and on every node. Every call
//! stands with its result: one that has none yet is left out along with it. What the model sees
//! as run is what ran: arguments that an approver edited replace the proposed ones.

mod budget;
mod render;
mod retention;

use std::collections::BTreeMap;

use haft_core::session::{Decided, Event, Rejection};
use haft_core::tool::Executor;
use haft_core::{
    Arguments, CallId, CallResult, ContentBlock, ErrorClass, Failure, MessageId, ProviderCallId,
};
use serde_json::{Map, Value};

pub use budget::Budget;
pub use render::messages;
pub(crate) use render::{Names, Rendered, render, result_text, said};

/// What was said and done, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    /// The parts, oldest first.
    pub items: Vec<Item>,
}

/// One part of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Someone outside said something.
    User {
        /// What.
        content: Vec<ContentBlock>,
    },
    /// The model answered.
    Assistant {
        /// The turn.
        turn: u32,
        /// What it said.
        content: Vec<ContentBlock>,
        /// What it called, each with its result.
        calls: Vec<PairedCall>,
    },
    /// Haft says that something is left out here.
    LeftOut {
        /// How many answers and messages.
        items: usize,
    },
}

/// A call and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedCall {
    /// Our id of it.
    pub id: CallId,
    /// The provider's id of it.
    pub provider_id: ProviderCallId,
    /// The name that the model used, in its canonical form where there is one.
    pub name: String,
    /// The arguments, as they may be shown: the ones that ran, if others did than were proposed.
    pub arguments: Map<String, Value>,
    /// Who ran it.
    pub executor: Executor,
    /// What an approver changed or added.
    pub notes: Vec<String>,
    /// How it ended.
    pub ended: Ended,
    /// What its provider said about it, untouched.
    pub provider_meta: Option<Value>,
}

/// How a call ended, as far as the model is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// With this.
    With(CallResult),
    /// With something that is no longer kept in view.
    Stubbed,
}

/// A call whose result may still come.
struct OpenCall {
    turn: u32,
    call: PairedCall,
    has_ended: bool,
}

#[derive(Default)]
struct Fold {
    waiting: BTreeMap<MessageId, Vec<ContentBlock>>,
    items: Vec<Item>,
    turn: u32,
    /// In the order in which they were proposed.
    calls: Vec<OpenCall>,
}

impl Transcript {
    /// Reads a log, oldest event first.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Self {
        let mut fold = Fold::default();
        for event in events {
            fold.take(event);
        }
        fold.into_transcript()
    }
}

impl Fold {
    fn take(&mut self, event: Event) {
        match event {
            Event::MessageReceived { message, content, .. } => {
                self.waiting.insert(message, content);
            }
            Event::TurnStarted { turn, messages, .. } => {
                self.turn = turn;
                let delivered = messages.iter().filter_map(|id| self.waiting.remove(id));
                self.items.extend(delivered.map(|content| Item::User { content }));
            }
            Event::TurnAnswered { turn, content, .. } => {
                self.items.push(Item::Assistant { turn, content, calls: Vec::new() });
            }
            Event::CallProposed { call, provider_id, contract, arguments, .. } => {
                let name = contract.tool.to_string();
                let arguments = arguments.record().clone();
                let executor = contract.executor;
                self.open(call, provider_id, name, arguments, executor);
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
                if let Some(open) = self.find(outcome.call) {
                    open.call.provider_meta = outcome.provider_meta;
                    open.call.ended = Ended::With(outcome.result);
                    open.has_ended = true;
                }
            }
            _ => {}
        }
    }

    fn open(
        &mut self,
        id: CallId,
        provider_id: ProviderCallId,
        name: String,
        arguments: Map<String, Value>,
        executor: Executor,
    ) {
        let call = PairedCall {
            id,
            provider_id,
            name,
            arguments,
            executor,
            notes: Vec::new(),
            ended: Ended::Stubbed,
            provider_meta: None,
        };
        self.calls.push(OpenCall { turn: self.turn, call, has_ended: false });
    }

    /// A call may be rejected at once, or after it was proposed.
    fn reject(&mut self, id: CallId, provider_id: ProviderCallId, name: String, why: Rejection) {
        if self.find(id).is_none() {
            // Text that is no object cannot be shown as arguments; the reason quotes what matters.
            let raw = why.raw_arguments.as_deref().unwrap_or_default();
            let arguments = serde_json::from_str(raw).unwrap_or_default();
            self.open(id, provider_id, name, arguments, Executor::Server);
        }
        if let Some(open) = self.find(id) {
            let failure = Failure::new(why.reason.class(), why.message);
            open.call.ended = Ended::With(CallResult::Err(failure));
            open.has_ended = true;
        }
    }

    fn approve(&mut self, call: CallId, edited: Option<&Arguments>, note: Option<String>) {
        let Some(open) = self.find(call) else { return };
        if let Some(edited) = edited {
            open.call.arguments = edited.record().clone();
            let said = "The approver changed the arguments; the call shows what ran.";
            open.call.notes.push(said.to_owned());
        }
        open.call.notes.extend(note.map(|note| format!("The approver says: {note}")));
    }

    fn find(&mut self, id: CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().rev().find(|open| open.call.id == id)
    }

    fn into_transcript(self) -> Transcript {
        let Self { mut items, calls, .. } = self;
        let mut by_turn: BTreeMap<u32, Vec<PairedCall>> = BTreeMap::new();
        for open in calls.into_iter().filter(|open| open.has_ended) {
            by_turn.entry(open.turn).or_default().push(open.call);
        }
        for item in &mut items {
            if let Item::Assistant { turn, calls, .. } = item {
                *calls = by_turn.remove(turn).unwrap_or_default();
            }
        }
        let is_empty = |item: &Item| match item {
            Item::User { content } => content.is_empty(),
            Item::Assistant { content, calls, .. } => content.is_empty() && calls.is_empty(),
            Item::LeftOut { .. } => false,
        };
        items.retain(|item| !is_empty(item));
        Transcript { items }
    }
}

impl PairedCall {
    /// Returns how it ended, with a stub in the place of what is no longer kept in view.
    pub(crate) fn result(&self) -> CallResult {
        match &self.ended {
            Ended::With(result) => result.clone(),
            Ended::Stubbed => CallResult::Ok(haft_core::Output::of_text("[result expired]")),
        }
    }

    /// Returns the class of its failure, if it failed.
    pub fn failed(&self) -> Option<ErrorClass> {
        match &self.ended {
            Ended::With(CallResult::Err(failure)) => Some(failure.class),
            Ended::With(CallResult::Ok(_)) | Ended::Stubbed => None,
        }
    }
}
