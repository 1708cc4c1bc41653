//! How full a model's context is, and which tools find again what no longer fits.

use haft_core::SessionId;
use haft_core::session::{ContextUse, Event};
use haft_runtime::ToolError;
use haft_store::Store;
use serde_json::{Value, json};

use crate::chronicle::{self, Told};

/// Below this many tokens hardly an answer fits.
const LOW: u64 = 400;
const NARROW: u64 = 1200;
/// How far back the latest answer is looked for, and how much of it at once.
const LOG_MOST: u64 = 4_096;
const PAGE: u64 = 256;

/// How much a session's model was last shown, as far as a part of its log tells.
pub(crate) fn in_log(log: &[Told]) -> Option<ContextUse> {
    log.iter().rev().find_map(|told| match &told.event {
        Event::TurnAnswered { context, .. } => *context,
        _ => None,
    })
}

/// How much a session's model was last shown; `None` when nobody has told.
pub(crate) async fn latest(
    store: &Store,
    session: SessionId,
) -> Result<Option<ContextUse>, ToolError> {
    let head = store.load(session).await?.map_or(0, |loaded| loaded.head.seq);
    let (mut before, end) = (head, head.saturating_sub(LOG_MOST));
    while before > end {
        let after = before.saturating_sub(PAGE).max(end);
        let log = chronicle::read(store, session, after, before - after).await?;
        if let Some(found) = in_log(&log) {
            return Ok(Some(found));
        }
        before = after;
    }
    Ok(None)
}

/// Document 002's account of it: a level, the reasons, and the tools that help.
pub(crate) fn pressure(used: &ContextUse) -> Value {
    let mut reasons = Vec::new();
    let mut tools: Vec<&str> = Vec::new();
    let mut because = |reason: &'static str, helpful: &[&'static str]| {
        reasons.push(reason);
        tools.extend(helpful);
    };
    let headroom = used.headroom();
    match headroom {
        ..LOW => because("low_headroom", &["retrieval_search", "session_search_context"]),
        LOW..NARROW => because("narrow_headroom", &["retrieval_search"]),
        NARROW.. => {}
    }
    if used.left_out > 0 {
        because("dropped_conversation", &["session_search_context", "session_get_snapshot"]);
    }
    let level = match (headroom < LOW || used.left_out > 0, reasons.is_empty()) {
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
        "selectionHeadroomTokens": headroom,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-43, S2-69: levels, reasons and tools as document 002 has them.
    #[test]
    fn s2_43_s2_69_pressure_follows_headroom_and_what_was_left_out() {
        for (headroom, left_out, level, reasons) in [
            (5000, 0, "low", vec![]),
            (1200, 0, "low", vec![]),
            (1199, 0, "moderate", vec!["narrow_headroom"]),
            (399, 0, "high", vec!["low_headroom"]),
            (0, 0, "high", vec!["low_headroom"]),
            (5000, 1, "high", vec!["dropped_conversation"]),
            (500, 1, "high", vec!["narrow_headroom", "dropped_conversation"]),
        ] {
            let used = ContextUse {
                budget: headroom + 70,
                history: 70,
                left_out,
                ..ContextUse::default()
            };
            let said = pressure(&used);
            assert_eq!((&said["level"], &said["reasons"]), (&level.into(), &reasons.into()));
        }
    }
}
