//! The answers of the tools as files in the workspace, for whoever reads files.
//!
//! The tools and permissions themselves, and the shell, are written by the session's hand. Each
//! file here is written from the very answer that its tool gives, so that the two cannot differ,
//! and nothing is in a file that is not in an answer.

use haft_runtime::{ToolContext, ToolError};
use serde_json::{Value, json};

use super::{checkpoint, context_budget, permissions, sessions};
use crate::chronicle::{FeedEvent, feed};
use crate::hands::{Hand, Hands, mirror};
use crate::library::Library;
use crate::notes;
use crate::setup;
use crate::sight::{Current, Viewer};

const NAMES: [&str; 28] = [
    "session-runtime.json",
    "session-runtime.md",
    "session-status.json",
    "managed-tools.json",
    "permissions.json",
    "permissions.md",
    "permission-posture.json",
    "permission-posture.md",
    "environment.json",
    "agent-setup.json",
    "agent-setup.md",
    "skills.json",
    "vaults.json",
    "context-budget.json",
    "context-budget.md",
    "outcome.json",
    "outcome-grade.json",
    "outcome-grade.md",
    "outcome-repair.md",
    "outcome-evaluation.json",
    "outcome-evaluation.md",
    "outcome-evaluations.json",
    "outcome-evaluations.md",
    "event-feed.json",
    "event-feed.md",
    "wake-traces.json",
    "session-relations.json",
    "staged-substrate.json",
];

/// Where a file is seen by whoever works in the usual place.
pub(super) fn at(name: &str) -> String {
    format!("/workspace/.haft-runtime/{name}")
}

pub(super) fn named(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), json!(at(name)))).collect()
}

/// Where every file is, by its name.
pub(super) fn paths(hand: Option<&Hand>) -> Value {
    let Some(hand) = hand else { return named(&NAMES) };
    let mut all: serde_json::Map<String, Value> = NAMES
        .iter()
        .map(|name| ((*name).to_owned(), json!(mirror::path(hand, name).to_string())))
        .collect();
    if let Value::Object(shell) = mirror::paths(hand) {
        all.extend(shell);
    }
    Value::Object(all)
}

/// Writes every file of a session anew.
pub(crate) async fn write(context: &ToolContext) -> Result<(), ToolError> {
    let viewer = Viewer::of(context).await?;
    if Hands::of(context).await.is_err() {
        return Ok(());
    }
    let setup = setup::record(context, &viewer).await?;
    let sight = viewer.look(viewer.own.clone()).await?;
    let assessment = sight.assessment();
    let posture = permissions::posture(context).await?;
    let snapshot = sessions::snapshot_of(&viewer, &sight, context).await?;
    let budget = context_budget::of(&sight, context);
    let library = Library::of(context, viewer.agent());
    let events: Vec<Value> =
        feed(&sight.log).iter().rev().take(100).map(FeedEvent::value).collect();
    let mut relations = Vec::new();
    for listed in viewer.kin(Some(crate::sight::Lineage::Related), Current::LeftOut).await? {
        relations
            .push(json!({ "sessionId": listed.session, "relation": viewer.relation(&listed) }));
    }
    let outcome = checkpoint::outcome(&sight);
    let (grade, evaluation) = (json!(assessment.grade), json!(assessment.evaluation));
    let history = json!(assessment.history);
    let runtime = json!({ "sessionId": viewer.own.session, "agentId": viewer.agent(), "artifactPaths": snapshot["artifactPaths"] });
    let files: Vec<(&'static str, String)> = vec![
        ("session-runtime.json", pretty(&runtime)),
        ("session-runtime.md", outline("Session", &runtime)),
        ("session-status.json", pretty(&snapshot)),
        ("permission-posture.json", pretty(&posture)),
        ("permission-posture.md", outline("Permission posture", &posture)),
        ("environment.json", pretty(&setup["environment"])),
        ("agent-setup.json", pretty(&setup)),
        ("agent-setup.md", outline("Agent setup", &setup)),
        ("skills.json", pretty(&json!(library.skills_listing()))),
        ("vaults.json", pretty(&setup["vaults"])),
        ("context-budget.json", pretty(&budget)),
        ("context-budget.md", outline("Context budget", &budget)),
        ("outcome.json", pretty(&outcome)),
        ("outcome-grade.json", pretty(&grade)),
        ("outcome-grade.md", outline("Outcome grade", &grade)),
        ("outcome-repair.md", outline("Next step", &grade["nextSuggestedTool"])),
        ("outcome-evaluation.json", pretty(&evaluation)),
        ("outcome-evaluation.md", outline("Outcome evaluation", &evaluation)),
        ("outcome-evaluations.json", pretty(&history)),
        ("outcome-evaluations.md", outline("Outcome evaluations", &history)),
        ("event-feed.json", pretty(&json!(events))),
        ("event-feed.md", outline("Events, newest first", &json!(events))),
        ("wake-traces.json", pretty(&json!(sessions::traces_of(&sight, 24)))),
        ("session-relations.json", pretty(&json!(relations))),
    ];
    for (name, content) in files {
        notes::show(context, name, content).await;
    }
    Ok(())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A value as an outline that people read.
fn outline(title: &str, value: &Value) -> String {
    let mut text = format!("# {title}\n\n");
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                text.push_str(&format!("- **{name}**: {}\n", line(value)));
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| text.push_str(&format!("- {}\n", line(item))));
        }
        Value::Null => text.push_str("Nothing.\n"),
        other => text.push_str(&format!("{}\n", line(other))),
    }
    text
}

fn line(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('\n', " "),
        Value::Null => "–".to_owned(),
        other => other.to_string(),
    }
}
