//! How full a model's context is, and which tools find again what no longer fits.

use haft_core::SessionId;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// Below this many tokens hardly an answer fits.
const LOW: i64 = 400;
const NARROW: i64 = 1200;

/// What was chosen of a session's history for its model's latest question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUse {
    /// Tokens of the budget that are left; negative when it is overdrawn.
    pub headroom: i64,
    /// Messages that were left out.
    pub dropped_messages: usize,
    /// Notes of the runtime that were left out.
    pub dropped_notes: usize,
}

/// Tells the tools how full contexts are: a service that whoever assembles contexts gives.
#[derive(Clone)]
pub struct ContextWatch(Arc<dyn Fn(SessionId) -> Option<ContextUse> + Send + Sync>);

impl ContextWatch {
    /// Asks `of` about a session; `None` when its model was asked nothing yet.
    pub fn new(of: impl Fn(SessionId) -> Option<ContextUse> + Send + Sync + 'static) -> Self {
        Self(Arc::new(of))
    }

    pub(crate) fn pressure(&self, session: SessionId) -> Option<Value> {
        (self.0)(session).map(|used| used.pressure())
    }
}

impl fmt::Debug for ContextWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContextWatch")
    }
}

impl ContextUse {
    /// Document 002's account of it: a level, the reasons, and the tools that help.
    pub fn pressure(&self) -> Value {
        let mut reasons = Vec::new();
        let mut tools: Vec<&str> = Vec::new();
        let mut because = |reason: &'static str, helpful: &[&'static str]| {
            reasons.push(reason);
            tools.extend(helpful);
        };
        match self.headroom {
            ..LOW => because("low_headroom", &["retrieval_search", "session_search_context"]),
            LOW..NARROW => because("narrow_headroom", &["retrieval_search"]),
            NARROW.. => {}
        }
        if self.dropped_messages > 0 {
            because("dropped_conversation", &["session_search_context", "session_get_snapshot"]);
        }
        if self.dropped_notes > 0 {
            because("dropped_runtime_notes", &["session_get_trace", "shell_describe"]);
        }
        let level = match (self.headroom < LOW || self.dropped_messages > 0, reasons.is_empty()) {
            (true, _) => "high",
            (false, false) => "moderate",
            (false, true) => "low",
        };
        let mut helpful: Vec<&str> = Vec::new();
        for tool in tools {
            if !helpful.contains(&tool) {
                helpful.push(tool);
            }
        }
        json!({
            "level": level,
            "reasons": reasons,
            "recommendedTools": helpful,
            "selectionHeadroomTokens": self.headroom,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::ContextUse;

    // S2-69: levels, reasons and tools as document 002 has them.
    #[test]
    fn s2_69_pressure_follows_headroom_and_what_was_left_out() {
        for (headroom, dropped_messages, dropped_notes, level, reasons) in [
            (5000, 0, 0, "low", vec![]),
            (1200, 0, 0, "low", vec![]),
            (1199, 0, 0, "moderate", vec!["narrow_headroom"]),
            (399, 0, 0, "high", vec!["low_headroom"]),
            (-20, 0, 0, "high", vec!["low_headroom"]),
            (5000, 1, 0, "high", vec!["dropped_conversation"]),
            (5000, 0, 2, "moderate", vec!["dropped_runtime_notes"]),
            (
                500,
                1,
                1,
                "high",
                vec!["narrow_headroom", "dropped_conversation", "dropped_runtime_notes"],
            ),
        ] {
            let said = ContextUse { headroom, dropped_messages, dropped_notes }.pressure();
            assert_eq!((&said["level"], &said["reasons"]), (&level.into(), &reasons.into()));
        }
    }
}
