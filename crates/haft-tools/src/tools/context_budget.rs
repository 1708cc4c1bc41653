//! How much of what a model is shown a session takes, as far as its log tells.

use haft_core::session::Event;
use haft_runtime::ToolContext;
use serde_json::{Value, json};

use super::artifacts;
use crate::chronicle::feed;
use crate::context_pressure::{ContextUse, ContextWatch};
use crate::sight::Sight;

/// What a session that names no limit is measured by.
const BUDGET: u64 = 128_000;

/// How many tokens a text takes, roughly.
fn tokens(chars: usize) -> u64 {
    (chars as u64).div_ceil(4)
}

pub(super) fn of(sight: &Sight, context: &ToolContext) -> Value {
    let session = sight.listed.session;
    let paths = artifacts::named(&["context-budget.json", "context-budget.md"]);
    let answered = sight.log.iter().rev().find_map(|told| match &told.event {
        Event::TurnAnswered { usage, .. } => Some(*usage),
        _ => None,
    });
    let Some(usage) = answered else {
        let reason = "no model has been asked in this session yet";
        return json!({ "sessionId": session, "available": false, "artifactPaths": paths, "contextBudget": null, "pressure": null, "reason": reason });
    };
    let conversation: Vec<u64> = feed(&sight.log)
        .iter()
        .filter(|event| event.kind != "span.started" && event.kind != "span.completed")
        .map(|event| tokens(event.text().chars().count()))
        .collect();
    let text: u64 = conversation.iter().sum();
    let mut schemas: Vec<(u64, String)> = context
        .tools()
        .tools()
        .iter()
        .map(|tool| {
            let schema = tool.spec().input_schema.value().to_string();
            let chars = schema.len() + tool.spec().description.len();
            (tokens(chars), tool.name().to_string())
        })
        .collect();
    schemas.sort_by(|one, other| other.cmp(one));
    let schema_tokens: u64 = schemas.iter().map(|(tokens, _)| tokens).sum();
    let summarised = sight.open().and_then(|open| open.summary.as_ref());
    let total = text + schema_tokens;
    let headroom = BUDGET.saturating_sub(total);
    let top: Vec<Value> = schemas
        .iter()
        .take(5)
        .map(|(tokens, name)| json!({ "name": name, "estimatedTokens": tokens }))
        .collect();
    let budget = json!({
        "contextSelectionBudgetTokens": BUDGET,
        "estimatedSelectedTextTokens": text,
        "estimatedToolSchemaTokens": schema_tokens,
        "estimatedTotalRuntimeTokens": total,
        "selectionHeadroomTokens": headroom,
        "history": { "total": conversation.len(), "summarisedThroughTurn": summarised.map(|summary| summary.through_turn) },
        "lastAnswerUsage": usage,
        "tools": top,
    });
    let watched = context.services().get::<ContextWatch>();
    let watched = watched.and_then(|watch| watch.pressure(session));
    let pressure = watched.unwrap_or_else(|| {
        let dropped_messages = summarised.map_or(0, |summary| summary.through_turn as usize);
        let headroom = i64::try_from(headroom).unwrap_or(i64::MAX);
        ContextUse { headroom, dropped_messages, dropped_notes: 0 }.pressure()
    });
    json!({
        "sessionId": session,
        "available": true,
        "artifactPaths": paths,
        "contextBudget": budget,
        "pressure": pressure,
        "reason": null,
    })
}
