//! Sub-agents: a call whose work another session does.

use serde::{Deserialize, Serialize};

use super::config::Config;
use super::goal::Goal;
use crate::id::{CallId, MessageId, SessionId};
use crate::outcome::{ContentBlock, Output};

/// The session for which a child works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parent {
    /// The session.
    pub session: SessionId,
    /// The call that gave the work away.
    pub call: CallId,
    /// The session at the top, where people look.
    pub root: SessionId,
    /// How far below the top the child is: 1 for a child of the top.
    pub depth: u32,
    /// Whether it hears what comes of the child's runs.
    #[serde(default, skip_serializing_if = "Hears::is_all")]
    pub hears: Hears,
}

/// What a parent hears of its child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hears {
    /// What each of its runs came to.
    #[default]
    All,
    /// Nothing: it looks when it wants to know.
    Nothing,
}

impl Hears {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// How long a call whose work is given away waits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Awaits {
    /// Until the child has come to rest: its last word is the result.
    #[default]
    Word,
    /// Until the child is open, which works on its own from there.
    Opening {
        /// What the call then comes to.
        output: Output,
    },
}

impl Awaits {
    fn is_word(&self) -> bool {
        *self == Self::Word
    }

    /// Returns what the parent hears of a child that is awaited so.
    pub const fn hears(&self) -> Hears {
        match self {
            Self::Word => Hears::All,
            Self::Opening { .. } => Hears::Nothing,
        }
    }
}

/// What a child is to do, and as whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delegation {
    /// The child's id.
    pub child: SessionId,
    /// The id of the message that tells it what to do.
    pub message: MessageId,
    /// How the child wishes to behave; what its parent may not do, it may not do either.
    pub config: Config,
    /// What it is to do.
    pub task: Vec<ContentBlock>,
    /// By what it is told whether that is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// How long the call waits.
    #[serde(default, skip_serializing_if = "Awaits::is_word")]
    pub awaits: Awaits,
}
