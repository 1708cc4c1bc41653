//! What asking a model cost.

use serde::{Deserialize, Serialize};

/// The tokens of one question and its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// What was read, cached or not.
    pub input: u64,
    /// What was written.
    pub output: u64,
    /// How much of what was read came from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Who counted.
    #[serde(default, skip_serializing_if = "Counted::is_by_provider")]
    pub counted: Counted,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// Who counted the tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// The provider.
    #[default]
    Provider,
    /// Haft, because the provider did not say: a limit that nobody counts towards is none.
    Haft,
}

impl Counted {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_by_provider(&self) -> bool {
        *self == Self::Provider
    }
}

impl Usage {
    /// Returns all tokens, read and written.
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// How much of its budget the history took that a model was shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextUse {
    /// The tokens that a history may take.
    pub budget: u64,
    /// Those that this one took.
    pub history: u64,
    /// Those of the tools that were offered.
    pub tools: u64,
    /// How many parts of the history were shown.
    pub shown: u32,
    /// How many were left out.
    #[serde(default, skip_serializing_if = "is_none_left_out")]
    pub left_out: u32,
    /// Haft's estimate of everything that was sent: history, notes, tools and instructions. Beside
    /// the input that the provider counted, it tells how far off the estimates are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimate: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_left_out(parts: &u32) -> bool {
    *parts == 0
}

impl ContextUse {
    /// Returns the tokens that are left of the budget.
    pub const fn headroom(&self) -> u64 {
        self.budget.saturating_sub(self.history)
    }
}
