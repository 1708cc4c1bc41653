//! What admission leads to: a permit, or a rejection.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::digest::Digest;
use crate::outcome::ErrorClass;
use crate::permission::GrantUse;
use crate::time::Timestamp;

/// What lets one call run once, with exactly these arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    /// The digest of the arguments that may run.
    pub digest: Digest,
    /// What it rests on.
    pub basis: Basis,
}

/// What a permit rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// No source asked.
    Policy,
    /// A standing grant.
    Grant(GrantUse),
    /// A person's approval of what they were shown.
    Approval {
        /// Who.
        by: Actor,
        /// When.
        at: Timestamp,
        /// The state of the world that the preview showed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fingerprint: Option<Digest>,
        /// Which arguments.
        #[serde(default, skip_serializing_if = "Approved::is_shown")]
        arguments: Approved,
    },
}

/// Which arguments a person approved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approved {
    /// Those that they were shown.
    #[default]
    Shown,
    /// Others, of which they have not been shown what they do.
    Edited,
}

impl Approved {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
    fn is_shown(&self) -> bool {
        *self == Self::Shown
    }
}

/// Why a proposed call will not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    /// Which rule.
    pub reason: RejectReason,
    /// What the model is told: what was expected, what was found, what to do.
    pub message: String,
    /// Arguments that could not be read, kept as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
}

/// The rules by which a proposed call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// No such tool.
    UnknownTool,
    /// The tool was not offered in this turn.
    NotAdvertised,
    /// The arguments are not strict JSON.
    Malformed,
    /// The arguments do not fit the schema.
    InvalidArguments,
    /// Too many calls.
    Limit,
    /// A source of permission denies it.
    Denied,
    /// A precondition does not hold.
    Precondition,
    /// The very same call stands in this turn already, under the same provider id.
    Repeated,
}

impl RejectReason {
    /// Returns whether the model asked for what cannot be called, whoever permits it.
    pub(super) const fn is_misuse(self) -> bool {
        match self {
            Self::UnknownTool | Self::NotAdvertised | Self::Malformed | Self::InvalidArguments => {
                true
            }
            Self::Limit | Self::Denied | Self::Precondition | Self::Repeated => false,
        }
    }

    /// Returns the class of the error that the model sees.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::UnknownTool | Self::NotAdvertised => ErrorClass::UnknownTool,
            Self::Malformed | Self::InvalidArguments => ErrorClass::InvalidArgs,
            Self::Limit | Self::Denied | Self::Repeated => ErrorClass::Policy,
            Self::Precondition => ErrorClass::Gate,
        }
    }
}
