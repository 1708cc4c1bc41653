//! Where a session stands, as its log tells.

use haft_core::SessionId;
use haft_runtime::{ToolContext, ToolError};
use haft_store::{Place, Which};
use serde_json::{Value, json};

use crate::chronicle::feed;
use crate::hands::Hands;
use crate::sight::{Sight, Viewer};

/// Document 002's checkpoint.
pub(super) fn of(sight: &Sight) -> Value {
    let open = sight.open();
    let events = feed(&sight.log);
    let last = |wanted: &dyn Fn(&crate::chronicle::FeedEvent) -> bool| {
        events.iter().rev().find(|event| wanted(event)).map(|event| event.id.to_string())
    };
    let assessment = sight.assessment();
    json!({
        "version": 6,
        "sessionId": sight.listed.session,
        "agentId": sight.listed.agent,
        "updatedAt": sight.last_activity().to_string(),
        "lastWakeId": sight.last_run().map(|run| run.id),
        "eventCursor": {
            "lastContextEventId": last(&|event| !event.is_pending),
            "lastProcessedEventId": last(&|event| event.kind.starts_with("user.") && !event.is_pending),
            "lastProducedEventId": last(&|event| event.kind.starts_with("agent.")),
        },
        "lastSummary": sight.latest_summary(),
        "nextWakeAt": open.and_then(|open| open.wakes.iter().map(|wake| wake.due).min()).map(|due| due.to_string()),
        "queuedWakes": open.map(|open| json!(open.wakes)),
        "activeOutcome": outcome(sight),
        "stopReason": sight.stop_reason(),
        "outcomeEvaluationHistory": assessment.history,
    })
}

/// The goal in document 002's words, with who set it.
pub(super) fn outcome(sight: &Sight) -> Value {
    let Some((active, _)) = sight.goal() else { return Value::Null };
    json!({
        "title": active.goal.title(),
        "detail": active.goal.detail(),
        "successCriteria": active.goal.criteria(),
        "definedBy": active.by,
        "definedAt": active.at.to_string(),
        "fingerprint": active.goal.fingerprint().to_string(),
    })
}

/// What is known of a session's shell: variables by name, nothing sealed.
pub(super) async fn shell_state(
    viewer: &Viewer,
    context: &ToolContext,
    session: SessionId,
) -> Result<Value, ToolError> {
    if session == viewer.own.session {
        return Ok(Hands::of(context).await?.desk().shown());
    }
    let place = Place::new(viewer.own.tenant.clone(), "shell-desk", &session.to_string())?;
    let stored = viewer.store().version(&place, Which::Latest).await?;
    let body = stored.and_then(|stored| stored.body).unwrap_or_default();
    let desk: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let commands = desk["commands"].as_array();
    let latest: Vec<&Value> = commands.into_iter().flatten().rev().take(5).collect();
    Ok(json!({
        "cwd": desk["cwd"],
        "env": { "keys": desk["variables"] },
        "persistentShell": desk["shell"],
        "lastCommand": latest.first(),
        "recentCommands": latest,
    }))
}
