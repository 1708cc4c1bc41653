//! How crowded what a model is shown has become, and where to look instead of widening it.

use serde_json::{Value, json};

/// Below this, next to nothing fits any more.
const LOW: u64 = 400;
const NARROW: u64 = 1_200;

/// What was selected for a model, and what was not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Selection {
    /// How many tokens are still free.
    pub(crate) headroom: u64,
    /// How many records of the conversation were left out.
    pub(crate) dropped_conversation: u64,
    /// How many notes of the runtime were left out.
    pub(crate) dropped_notes: u64,
}

/// How many tokens a text takes, roughly.
pub(crate) fn tokens(chars: usize) -> u64 {
    (chars as u64).div_ceil(4)
}

/// The level, the reasons, and the tools to turn to.
pub(crate) fn pressure(selection: Selection) -> Value {
    let (mut reasons, mut tools): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    match selection.headroom {
        ..LOW => {
            reasons.push("low_headroom");
            tools.extend(["retrieval_search", "session_search_context"]);
        }
        LOW..NARROW => {
            reasons.push("narrow_headroom");
            tools.push("retrieval_search");
        }
        _ => {}
    }
    if selection.dropped_conversation > 0 {
        reasons.push("dropped_conversation");
        tools.extend(["session_search_context", "session_get_snapshot"]);
    }
    if selection.dropped_notes > 0 {
        reasons.push("dropped_runtime_notes");
        tools.extend(["session_get_trace", "shell_describe"]);
    }
    let level = match (selection.headroom < LOW || selection.dropped_conversation > 0, &reasons[..])
    {
        (true, _) => "high",
        (false, []) => "low",
        (false, _) => "moderate",
    };
    let mut once: Vec<&str> = Vec::new();
    tools.into_iter().for_each(|tool| {
        if !once.contains(&tool) {
            once.push(tool);
        }
    });
    json!({ "level": level, "reasons": reasons, "recommendedTools": once })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-43: the levels, and what each recommends.
    #[test]
    fn s2_43_pressure_has_the_documents_levels() {
        let of = |headroom, dropped_conversation, dropped_notes| {
            pressure(Selection { headroom, dropped_conversation, dropped_notes })
        };
        assert_eq!(
            of(1_200, 0, 0),
            json!({ "level": "low", "reasons": [], "recommendedTools": [] })
        );
        assert_eq!(of(1_199, 0, 0)["level"], "moderate");
        assert_eq!(of(1_199, 0, 0)["recommendedTools"], json!(["retrieval_search"]));
        assert_eq!(of(399, 0, 0)["level"], "high");
        assert_eq!(of(5_000, 1, 0)["level"], "high");
        let both = of(399, 1, 1);
        let tools = [
            "retrieval_search",
            "session_search_context",
            "session_get_snapshot",
            "session_get_trace",
            "shell_describe",
        ];
        assert_eq!(both["recommendedTools"], json!(tools));
        assert_eq!(of(5_000, 0, 1)["level"], "moderate");
        assert_eq!((tokens(0), tokens(1), tokens(4), tokens(5)), (0, 1, 1, 2));
    }
}
