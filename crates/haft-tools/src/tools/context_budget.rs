//! How much of what a model is shown a session takes, as the model's last answer told.

use haft_runtime::ToolContext;
use serde_json::{Value, json};

use super::artifacts;
use crate::context_pressure::{in_log, pressure};
use crate::sight::Sight;

/// How many of the largest schemas are named.
const TOP: usize = 5;

/// How many tokens a text takes, roughly.
fn tokens(chars: usize) -> u64 {
    (chars as u64).div_ceil(4)
}

/// The largest schemas of the tools that a session knows.
fn largest(context: &ToolContext) -> Vec<Value> {
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
    let named = |(tokens, name): (u64, String)| json!({ "name": name, "estimatedTokens": tokens });
    schemas.into_iter().take(TOP).map(named).collect()
}

pub(super) fn of(sight: &Sight, context: &ToolContext) -> Value {
    let session = sight.listed.session;
    let paths = artifacts::named(&["context-budget.json", "context-budget.md"]);
    let Some(used) = in_log(&sight.log) else {
        let reason = "no model that tells how much it was shown has answered in this session yet";
        return json!({ "sessionId": session, "available": false, "artifactPaths": paths, "contextBudget": null, "pressure": null, "reason": reason });
    };
    let summarised = sight.open().and_then(|open| open.summary.as_ref());
    let budget = json!({
        "contextSelectionBudgetTokens": used.budget,
        "estimatedSelectedTextTokens": used.history,
        "estimatedToolSchemaTokens": used.tools,
        "estimatedTotalRuntimeTokens": used.history + used.tools,
        "selectionHeadroomTokens": used.headroom(),
        "history": {
            "total": used.shown + used.left_out,
            "selected": used.shown,
            "dropped": used.left_out,
            "summarisedThroughTurn": summarised.map(|summary| summary.through_turn),
        },
        "tools": largest(context),
    });
    json!({
        "sessionId": session,
        "available": true,
        "artifactPaths": paths,
        "contextBudget": budget,
        "pressure": pressure(&used),
        "reason": null,
    })
}
