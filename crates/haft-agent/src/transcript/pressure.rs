//! Measures how full the context that a model is shown has become.

use std::fmt;

use super::{Budget, Item, Transcript};

/// Below this many tokens of room there is hardly any.
const LOW_HEADROOM: usize = 400;
/// Below this many there is little.
const NARROW_HEADROOM: usize = 1200;

/// How crowded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// There is room.
    Low,
    /// There is little room.
    Moderate,
    /// There is no room: something is not shown any more, or will be next.
    High,
}

/// Why it is crowded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Hardly any room is left.
    LowHeadroom,
    /// Little room is left.
    NarrowHeadroom,
    /// Parts of the conversation are left out.
    DroppedConversation,
}

/// How crowded what a model is shown is, why, and where it can look instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressure {
    /// How crowded.
    pub level: Level,
    /// Why.
    pub reasons: Vec<Reason>,
    /// The tools with which a narrower look is possible.
    pub recommended_tools: Vec<&'static str>,
    /// How many tokens of room are left.
    pub headroom: usize,
}

impl Pressure {
    /// Measures what is shown against its budget.
    pub fn of(shown: &Transcript, budget: Budget) -> Self {
        let headroom = budget.tokens.saturating_sub(shown.tokens());
        let dropped = shown.items.iter().any(|item| matches!(item, Item::LeftOut { .. }));
        let (mut reasons, mut tools) = (Vec::new(), Vec::new());
        if headroom < LOW_HEADROOM {
            reasons.push(Reason::LowHeadroom);
            tools.extend(["retrieval_search", "session_search_context"]);
        } else if headroom < NARROW_HEADROOM {
            reasons.push(Reason::NarrowHeadroom);
            tools.push("retrieval_search");
        }
        if dropped {
            reasons.push(Reason::DroppedConversation);
            tools.extend(["session_search_context", "session_get_snapshot"]);
        }
        let level = if headroom < LOW_HEADROOM || dropped {
            Level::High
        } else if reasons.is_empty() {
            Level::Low
        } else {
            Level::Moderate
        };
        tools.sort_unstable();
        tools.dedup();
        Self { level, reasons, recommended_tools: tools, headroom }
    }

    /// Returns the note that a model is given under pressure, naming only tools that it has.
    pub(crate) fn note(&self, has: impl Fn(&str) -> bool) -> Option<String> {
        if self.level != Level::High {
            return None;
        }
        let reasons: Vec<_> = self.reasons.iter().map(ToString::to_string).collect();
        let reasons = reasons.join(", ");
        let narrower = ["session_describe_context"].into_iter();
        let tools: Vec<_> = narrower.chain(self.recommended_tools.iter().copied()).collect();
        let tools: Vec<_> = tools.into_iter().filter(|tool| has(tool)).collect();
        let headroom = self.headroom;
        let mut note = format!("[context-pressure] {reasons}; about {headroom} tokens are left.");
        if !tools.is_empty() {
            note.push_str(&format!(" Look narrowly, with {}.", tools.join(", ")));
        }
        Some(note)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LowHeadroom => "low_headroom",
            Self::NarrowHeadroom => "narrow_headroom",
            Self::DroppedConversation => "dropped_conversation",
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ContentBlock;

    use super::*;

    fn shown(items: Vec<Item>) -> Transcript {
        Transcript { items }
    }

    // S2-43, S2-52: the level follows from the room that is left and from what is not shown.
    #[test]
    fn s2_43_the_level_follows_from_room_and_from_what_is_left_out() {
        let content = vec![ContentBlock::Text { text: "hello".into() }];
        let said = || Item::User { content: content.clone() };
        let of = |items, tokens| Pressure::of(&shown(items), Budget { tokens });
        assert_eq!(of(vec![said()], 5000).level, Level::Low);
        let narrow = of(vec![said()], 1000);
        assert_eq!((narrow.level, narrow.reasons), (Level::Moderate, vec![Reason::NarrowHeadroom]));
        assert_eq!(of(vec![said()], 100).level, Level::High);
        let dropped = of(vec![Item::LeftOut { items: 3 }, said()], 5000);
        assert_eq!(dropped.level, Level::High);
        let note = dropped.note(|tool| tool == "session_get_snapshot").unwrap();
        assert!(note.starts_with("[context-pressure]") && note.contains("session_get_snapshot"));
        assert!(!note.contains("session_search_context"), "it has no such tool: {note}");
        assert_eq!(narrow.recommended_tools, ["retrieval_search"]);
    }
}
