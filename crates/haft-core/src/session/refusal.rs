//! The refusals: why an input changes nothing. Expected, total, and worth a stable code.

use super::evolve::Corrupt;
use super::suspension::{DecidedKind, SuspensionKind};
use crate::actor::Actor;
use crate::id::CallId;
use crate::time::Timestamp;

/// Why an input is refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such session yet.
    #[error("the session has not been opened; open it first")]
    NotOpen,
    /// The session exists already.
    #[error("the session is open already")]
    AlreadyOpen,
    /// The session is over.
    #[error("the session has ended; open another one")]
    Ended,
    /// The session is at work and takes nothing beside it.
    #[error("the session is busy; wait until it is idle, or interrupt it")]
    Busy,
    /// The session is driven otherwise.
    #[error("expected a session driven by {expected}; this one is driven by {found}")]
    WrongDriver {
        /// Who would have to drive it.
        expected: &'static str,
        /// Who does.
        found: &'static str,
    },
    /// The call does not wait for this any more, or never did.
    #[error("stale: {0}")]
    Stale(Stale),
    /// The call waits for something else.
    #[error("the call waits for {}, which `{found}` is not", waits_for(*expected))]
    WrongKind {
        /// What it waits for.
        expected: SuspensionKind,
        /// What came.
        found: &'static str,
    },
    /// What came does not fit its schema; the call still waits.
    #[error("it does not fit: {message}")]
    Misfit {
        /// What was expected and found.
        message: String,
    },
    /// The actor may not do this.
    #[error("`{actor}` may not {action}: {reason}")]
    NotAllowed {
        /// Who.
        actor: Actor,
        /// What.
        action: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// It is too early.
    #[error("it is not due before {due}")]
    NotDue {
        /// When it is.
        due: Timestamp,
    },
    /// Two calls have one id, which only a broken driver does.
    #[error("call `{call}` exists already")]
    DuplicateCall {
        /// The id.
        call: CallId,
    },
    /// The call runs and cannot be stopped.
    #[error(
        "the call is running, and its tool does not declare that its calls can be stopped \
         (`interrupt = cancel`), so it is left to finish"
    )]
    NotCancellable,
    /// There is no such grant in this session.
    #[error("no such grant in this session")]
    UnknownGrant,
    /// Only the node that owns the session can act upon it.
    #[error("only the node that owns the session can do this; hand it over")]
    NeedsOwner,
    /// The machine would have broken its own rules; nothing was done. A bug to report.
    #[error("internal: {0}; please report this")]
    Internal(#[from] Corrupt),
    /// The grant is for something that always asks.
    #[error("the tool always asks; a standing permission would never apply")]
    GrantNeverApplies,
}

fn waits_for(kind: SuspensionKind) -> &'static str {
    match kind {
        SuspensionKind::Approval => "an approval (`approve` or `deny`)",
        SuspensionKind::Elicitation => "an answer (`answer` or `deny`)",
        SuspensionKind::ClientExec => "a client's `result`",
        SuspensionKind::Settlement => "a settlement (`settle`)",
        SuspensionKind::Child => "its sub-agent",
    }
}

impl Refusal {
    /// Returns the stable code of the refusal.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotOpen => "not_open",
            Self::AlreadyOpen => "already_open",
            Self::Ended => "ended",
            Self::Busy => "busy",
            Self::WrongDriver { .. } => "wrong_driver",
            Self::Stale(_) => "stale",
            Self::WrongKind { .. } => "wrong_kind",
            Self::Misfit { .. } => "misfit",
            Self::NotAllowed { .. } => "not_allowed",
            Self::NotDue { .. } => "not_due",
            Self::DuplicateCall { .. } => "duplicate_call",
            Self::NotCancellable => "not_cancellable",
            Self::UnknownGrant => "unknown_grant",
            Self::GrantNeverApplies => "grant_never_applies",
            Self::NeedsOwner => "needs_owner",
            Self::Internal(_) => "internal",
        }
    }
}

/// Why something comes too late, or was never awaited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The session has no such call in its current turn.
    #[error("no such call is waiting")]
    Unknown,
    /// Someone decided already.
    #[error("`{by}` decided `{decision}` at {at}")]
    Decided {
        /// Who.
        by: Actor,
        /// What.
        decision: DecidedKind,
        /// When.
        at: Timestamp,
    },
    /// The wait had run out.
    #[error("the wait ended at {at}")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The call does not wait for anyone.
    #[error("the call is not waiting for anyone")]
    NotAwaiting,
    /// The call has its outcome.
    #[error("the call ended at {at}")]
    Finished {
        /// When.
        at: Timestamp,
    },
    /// The call waits again, for another reason than the resolver saw.
    #[error("the call waits for the {current}. time; what was decided upon was the {seen}.")]
    OtherRound {
        /// What the resolver saw.
        seen: u32,
        /// What is current.
        current: u32,
    },
    /// The attempt or turn is not the current one.
    #[error("it belongs to an attempt that is over")]
    OtherAttempt,
}
