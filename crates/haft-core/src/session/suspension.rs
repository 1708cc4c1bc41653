//! Waits: what a call waits for, why, and how the wait ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::admission::Permit;
use super::state::DecidedBy;
use crate::arguments::Arguments;
use crate::digest::Digest;
use crate::outcome::{CallResult, Directives, Output};
use crate::permission::GrantUse;
use crate::time::Timestamp;

/// A wait for someone outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// What is waited for.
    pub kind: SuspensionKind,
    /// Which wait of this call, from 1.
    pub round: u32,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// Why it waits.
    pub reason: SuspendReason,
    /// What lets the call run once the wait is over, when that is settled already.
    pub permit: Option<Permit>,
    /// The state of the world that the preview showed.
    pub fingerprint: Option<Digest>,
    /// When the attempt in doubt started, or when the wait began.
    pub since: Timestamp,
    /// Who has said yes already, where one person is not enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsed: Vec<DecidedBy>,
}

/// What a suspended call waits for; what a renderer switches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspensionKind {
    /// A yes or a no.
    Approval,
    /// An answer that is the result.
    Elicitation,
    /// The connected client runs it.
    ClientExec,
    /// A person says what became of a call in doubt.
    Settlement,
    /// Another session does the work; nobody outside can end this.
    Child,
}

/// Why a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendReason {
    /// The sources of permission ask.
    Asked,
    /// Its executor is outside.
    Executor,
    /// The world is not what the approver was shown.
    WorldMoved,
    /// The approver edited the arguments, and is shown what the edited ones would do.
    Edited,
    /// The tool is not what the approver was shown.
    Redefined,
    /// It ran, and nobody knows whether it took effect.
    InDoubt,
    /// Its tool gave the work to a child.
    Delegated,
}

/// What a call would do, shown before it is approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// A digest of the state that the preview rests on.
    pub fingerprint: Digest,
    /// What it would touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// The difference it would make, as a unified diff or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Why there is nothing to show, when the tool could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Decided {
    /// Yes.
    Approve {
        /// The arguments to run instead of the proposed ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Arguments>,
        /// What the approver adds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A grant that was given meanwhile covers it.
    Granted {
        /// What it takes from the grant.
        used: GrantUse,
    },
    /// No.
    Deny {
        /// What the approver adds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The answer is the result.
    Answer {
        /// The answer.
        output: Output,
    },
    /// The client ran it.
    Result {
        /// What came out, as an outcome's result.
        result: CallResult,
        /// What it asks of the loop.
        #[serde(default, skip_serializing_if = "Directives::is_empty")]
        directives: Directives,
    },
    /// It did take effect.
    Happened {
        /// What it gave, as far as known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Output>,
    },
    /// It did not take effect and shall run.
    RunAgain,
    /// It is left as it is.
    GiveUp,
    /// Nobody ended it in time.
    Expired,
    /// No client was there to run it.
    ClientGone,
}

impl Decided {
    /// Returns what was decided, without its particulars.
    pub const fn kind(&self) -> DecidedKind {
        match self {
            Self::Approve { .. } => DecidedKind::Approve,
            Self::Granted { .. } => DecidedKind::Granted,
            Self::Deny { .. } => DecidedKind::Deny,
            Self::Answer { .. } => DecidedKind::Answer,
            Self::Result { .. } => DecidedKind::Result,
            Self::Happened { .. } => DecidedKind::Happened,
            Self::RunAgain => DecidedKind::RunAgain,
            Self::GiveUp => DecidedKind::GiveUp,
            Self::Expired => DecidedKind::Expired,
            Self::ClientGone => DecidedKind::ClientGone,
        }
    }
}

/// What was decided about a wait, without its particulars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedKind {
    /// Yes.
    Approve,
    /// Yes, by a grant.
    Granted,
    /// No.
    Deny,
    /// An answer.
    Answer,
    /// A client's result.
    Result,
    /// It took effect.
    Happened,
    /// Run it.
    RunAgain,
    /// Leave it.
    GiveUp,
    /// Nobody decided in time.
    Expired,
    /// No client was there.
    ClientGone,
}

impl fmt::Display for DecidedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::Granted => "granted",
            Self::Deny => "deny",
            Self::Answer => "answer",
            Self::Result => "result",
            Self::Happened => "happened",
            Self::RunAgain => "run_again",
            Self::GiveUp => "give_up",
            Self::Expired => "expired",
            Self::ClientGone => "client_gone",
        })
    }
}
