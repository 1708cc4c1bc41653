//! Why a verb of the front door did not do what was asked.

use haft_core::session::Rejection;
use haft_core::{CallId, Timestamp, ToolName};
use haft_store::Error as StoreError;

use crate::error::InputError;

/// Why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CallError {
    /// It was not taken: unknown, misfitting, over a limit or not permitted. Nothing ran.
    #[error("{}", .0.message)]
    Rejected(Rejection),
    /// Someone would have to be asked or to run it, and nothing here could keep it meanwhile.
    #[error("`{tool}` has to wait for someone; use a node with a store")]
    NeedsStore {
        /// The tool.
        tool: ToolName,
    },
    /// There is no such call in the session.
    #[error("no call `{call}` in this session")]
    Unknown {
        /// The call.
        call: CallId,
    },
    /// The session did not take it.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Why a response was not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResolveError {
    /// The tool is not registered here, so what came cannot be checked against its schemas.
    #[error(
        "`{tool}` is not offered here, so nothing can be let run or be checked against its \
         definition; the call goes on waiting"
    )]
    ToolGone {
        /// The tool.
        tool: ToolName,
    },
    /// The arguments or the result could not be kept.
    #[error("{message}")]
    NotKept {
        /// Why.
        message: String,
    },
    /// The session did not take it; [`haft_core::session::Refusal::Stale`] for whoever is late.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Why a call is not taken back.
#[derive(Debug, Clone, thiserror::Error)]
pub enum UndoError {
    /// Its tool declares no undo.
    #[error("`{tool}` declares no undo")]
    NoUndo {
        /// The tool.
        tool: String,
    },
    /// It did not do anything that could be taken back.
    #[error("the call did not succeed, so there is nothing to take back")]
    NothingDone,
    /// Nobody knows whether it took effect, and someone can still settle that.
    #[error(
        "it is not known whether the call took effect; look, and settle it first: \
         only a call that happened can be taken back"
    )]
    InDoubt,
    /// Nobody knows whether it took effect, and it was left at that.
    #[error(
        "it was never found out whether the call took effect, so Haft does not take it back; \
         look, and make the compensating call yourself if it did"
    )]
    NotKnown,
    /// The time for it is over.
    #[error("it could be taken back until {until}, which is over")]
    TooLate {
        /// Until when.
        until: Timestamp,
    },
    /// An argument of the compensating call is not in what the call was given or gave.
    #[error("the undo needs `{argument}`, and the call has nothing there")]
    Missing {
        /// The argument.
        argument: String,
    },
    /// What the call was given cannot be opened.
    #[error("{message}")]
    Sealed {
        /// Why.
        message: String,
    },
    /// The call is not known, or the undo was not taken.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl UndoError {
    /// Returns the word for it, for programs and for `haft explain`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoUndo { .. } | Self::Missing { .. } | Self::Sealed { .. } => "no_undo",
            Self::NothingDone | Self::InDoubt | Self::NotKnown => "nothing_done",
            Self::TooLate { .. } => "undo_over",
            Self::Call(CallError::Unknown { .. }) => "no_call",
            Self::Call(_) => "invalid_request_error",
            Self::Store(_) => "api_error",
        }
    }
}

impl From<InputError> for UndoError {
    fn from(error: InputError) -> Self {
        Self::Call(error.into())
    }
}
