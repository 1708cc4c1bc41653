//! What was said and done in a session, as a model may be shown it.
//!
//! Derived from the log alone, so it is the same after a crash and on every node. Every call
//! stands with its result: one that has none yet is left out along with it. What the model sees
//! as run is what ran: arguments that an approver edited replace the proposed ones.

mod history;
mod pressure;
mod render;
mod view;

use haft_core::session::Event;
use haft_core::tool::Executor;
use haft_core::{CallId, CallResult, ContentBlock, ErrorClass, ProviderCallId};
use serde_json::{Map, Value};

pub use history::History;
pub use pressure::{Level, Pressure, Reason};
pub use render::messages;
pub(crate) use render::{Names, Rendered, render, result_text, said};
pub use view::{Budget, View};

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
        /// What its provider wants to be shown again as it was, by the vendor's name.
        provider_meta: Option<Value>,
    },
    /// Haft says something: that a wake is due, or how a run ended.
    Note {
        /// What.
        text: String,
    },
    /// What stands for the earlier turns.
    Summary {
        /// What it says.
        text: String,
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

impl Transcript {
    /// Reads a log, oldest event first, and leaves nothing out.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Self {
        History::of(events).view(&View::everything())
    }

    /// Returns about how many tokens it is.
    pub fn tokens(&self) -> usize {
        self.items.iter().map(view::cost).sum()
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
