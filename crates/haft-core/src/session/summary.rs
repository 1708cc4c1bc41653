//! A summary of what was said and done, which stands for it in what the model is shown.

use serde::{Deserialize, Serialize};

use super::usage::Usage;

/// A summary of a session's earlier turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What it says.
    pub text: String,
    /// The last turn that it stands for; whatever was delivered with that turn is included.
    pub through_turn: u32,
    /// The place in the log after which everything stands that it does not cover.
    pub after_seq: u64,
    /// What making it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Summary {
    /// How long the text may be, in bytes: it is a part of the session's state.
    pub const TEXT_MAX: usize = 32 * 1024;
}
