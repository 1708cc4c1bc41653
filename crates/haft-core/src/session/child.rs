//! Sub-agents: a call whose work another session does.

use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::id::{CallId, MessageId, SessionId};
use crate::outcome::ContentBlock;

/// The session for which a child works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parent {
    /// The session.
    pub session: SessionId,
    /// The call that waits for the child.
    pub call: CallId,
    /// The session at the top, where people look.
    pub root: SessionId,
    /// How far below the top the child is: 1 for a child of the top.
    pub depth: u32,
}

/// What a child is to do, and as whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The child's id.
    pub child: SessionId,
    /// The id of the message that tells it what to do.
    pub message: MessageId,
    /// How the child wishes to behave; what its parent may not do, it may not do either.
    pub config: Config,
    /// What it is to do.
    pub task: Vec<ContentBlock>,
}
