//! How someone ends a wait, as they put it.

use super::input::PolicyFacts;
use super::suspension::DecidedKind;
use crate::actor::Actor;
use crate::arguments::Arguments;
use crate::id::{CallId, ResolutionId};
use crate::outcome::{CallResult, Directives, Output};
use crate::permission::StandingGrant;

/// Someone ends a wait.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The resolver's id for this, the same when it tries again.
    pub id: ResolutionId,
    /// The call.
    pub call: CallId,
    /// The wait that the resolver saw; `None` for whichever is current.
    pub round: Option<u32>,
    /// Who.
    pub by: Actor,
    /// How.
    pub resolution: Resolution,
    /// What policy says about the call by now.
    pub policy: PolicyFacts,
}

/// How someone ends a wait.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// Yes.
    Approve {
        /// Other arguments to run, checked against the schema.
        edit: Option<Edit>,
        /// What the approver adds.
        note: Option<String>,
        /// A standing permission given along with it.
        grant: Option<Box<StandingGrant>>,
    },
    /// No.
    Deny {
        /// What the approver adds, for the model.
        note: Option<String>,
    },
    /// The answer is the result.
    Answer {
        /// The answer.
        output: Output,
        /// Whether it fits the schema.
        fit: Fit,
    },
    /// The client ran it.
    Result {
        /// What came out.
        result: CallResult,
        /// What it asks of the loop.
        directives: Directives,
        /// Whether it fits the schema.
        fit: Fit,
    },
    /// What became of a call in doubt.
    Settle(Settlement),
}

impl Resolution {
    /// Returns the kind of decision as which it is recorded.
    pub const fn kind(&self) -> DecidedKind {
        match self {
            Self::Approve { .. } => DecidedKind::Approve,
            Self::Deny { .. } => DecidedKind::Deny,
            Self::Answer { .. } => DecidedKind::Answer,
            Self::Result { .. } => DecidedKind::Result,
            Self::Settle(Settlement::Happened { .. }) => DecidedKind::Happened,
            Self::Settle(Settlement::RunAgain) => DecidedKind::RunAgain,
            Self::Settle(Settlement::GiveUp) => DecidedKind::GiveUp,
        }
    }
}

/// Other arguments to run than the proposed ones.
#[derive(Debug, Clone)]
pub struct Edit {
    /// The arguments.
    pub arguments: Arguments,
    /// Whether they fit the schema.
    pub fit: Fit,
}

/// Whether something from outside fits its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Fits,
    /// It does not.
    Misfit {
        /// What was expected and found.
        message: String,
    },
}

/// What a person says about a call in doubt.
#[derive(Debug, Clone)]
pub enum Settlement {
    /// It did take effect.
    Happened {
        /// What it gave, as far as known.
        output: Option<Output>,
    },
    /// It did not; run it.
    RunAgain,
    /// Leave it.
    GiveUp,
}
