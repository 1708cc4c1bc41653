//! What a session is to achieve, and how far it is.

use haft_core::session::{Goal, GoalSet, Input, Returned};
use haft_core::{Actor, ActorId, ActorKind};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::checkpoint;
use crate::chronicle::feed;
use crate::memory::short;
use crate::sight::{Sight, Viewer};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    session_id: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedGoal {
    session_id: Option<String>,
    title: String,
    detail: Option<String>,
    #[serde(default)]
    success_criteria: Vec<String>,
}

async fn sight(wanted: &Wanted, context: &ToolContext) -> Result<Sight, ToolError> {
    let viewer = Viewer::of(context).await?;
    viewer.look(viewer.session(wanted.session_id.as_deref()).await?).await
}

fn about(sight: &Sight) -> Value {
    json!({ "sessionId": sight.listed.session, "activeOutcome": checkpoint::outcome(sight) })
}

pub(super) async fn read(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    Ok(plain(about(&sight(&taken(arguments)?, &context).await?)))
}

pub(super) async fn grade(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let sight = sight(&taken(arguments)?, &context).await?;
    let mut answer = about(&sight);
    answer["grade"] = json!(sight.assessment().grade);
    Ok(plain(answer))
}

pub(super) async fn evaluate(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let sight = sight(&taken(arguments)?, &context).await?;
    let assessment = sight.assessment();
    let mut answer = about(&sight);
    answer["grade"] = json!(assessment.grade);
    answer["evaluation"] = json!(assessment.evaluation);
    answer["evaluationHistory"] = json!(assessment.history);
    Ok(plain(answer))
}

pub(super) async fn history(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let sight = sight(&wanted, &context).await?;
    let assessment = sight.assessment();
    let skipped = assessment.history.len().saturating_sub(wanted.limit.unwrap_or(12));
    let mut answer = about(&sight);
    answer["count"] = json!(assessment.n_evaluated);
    answer["latestIteration"] = json!(assessment.history.last().map(|latest| latest.iteration));
    answer["evaluations"] = json!(assessment.history.get(skipped..));
    Ok(plain(answer))
}

/// In the agent's own name: what a person wants, a person says.
pub(super) async fn define(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedGoal = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let listed = viewer.session(wanted.session_id.as_deref()).await?;
    let goal = Goal::new(&wanted.title, wanted.detail.as_deref(), &wanted.success_criteria)
        .map_err(|error| ToolError::invalid(error.to_string()))?;
    let by = Actor { kind: ActorKind::Agent, id: ActorId::new(&short(viewer.agent()))? };
    context.require_going()?;
    context.record(listed.session, Input::GoalSet(GoalSet { goal, by })).await?;
    let sight = viewer.look(listed).await?;
    let events = feed(&sight.log);
    let event = events.iter().rev().find(|event| event.kind.ends_with(".define_outcome"));
    let mut answer = about(&sight);
    answer["eventId"] = json!(event.map(|event| event.id.to_string()).unwrap_or_default());
    Ok(plain(answer))
}
