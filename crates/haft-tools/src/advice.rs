//! What a model is told before it is asked, beside what was said: how it stands with its goal, and
//! what other sessions of its agent have about that. Document 002 calls these runtime notes.
//!
//! They are hints, and each names the tool that shows more; a tool that the model was not offered
//! is not named, and a session that has none of them is not looked at.

use haft_core::session::{Event, Open};
use haft_runtime::{Adviser, ModelRequest, ToolContext, ToolError, ToolFuture};
use serde_json::Value;

use crate::chronicle::said;
use crate::goal::{Assessment, GradeStatus, NextStep};
use crate::sight::{Sight, Viewer};
use crate::tools::{Recalled, recalled};

/// What changes only when the outcome has passed.
const GATED: [&str; 3] =
    ["memory_promote_note", "resources_promote_to_substrate", "resources_restore_version"];
/// How much of the latest message is looked for.
const CUE_CHARS: usize = 400;

/// Tells models of sessions how they stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Advice;

impl Adviser for Advice {
    fn notes<'a>(
        &'a self,
        request: &'a ModelRequest,
        context: &'a ToolContext,
    ) -> ToolFuture<'a, Vec<String>> {
        Box::pin(async move {
            // A model that is told nothing can still be asked.
            advised(request, context).await.unwrap_or_default()
        })
    }
}

async fn advised(request: &ModelRequest, context: &ToolContext) -> Result<Vec<String>, ToolError> {
    let has = |tool: &str| request.advertised.find(tool).is_ok();
    let recalls = has("retrieval_search") && begins_run(&request.open);
    if request.open.goal.is_none() && !has("outcome_define") && !recalls {
        return Ok(Vec::new());
    }
    let viewer = Viewer::of(context).await?;
    let sight = viewer.look(viewer.own.clone()).await?;
    let assessment = sight.assessment();
    let mut notes = standing(&assessment, &has);
    if recalls {
        let found = recalled(&cue(&sight, &assessment), context).await?;
        notes.extend(remembered(&found, &has));
    }
    Ok(notes)
}

/// What was recalled is in view for the rest of the run, in the model's own words if it matters.
fn begins_run(open: &Open) -> bool {
    open.turn == open.first_turn_of_run()
}

/// How the session stands with its goal.
fn standing(assessment: &Assessment, has: &impl Fn(&str) -> bool) -> Vec<String> {
    let Assessment { grade, evaluation, n_evaluated, .. } = assessment;
    let offered = |next: Option<NextStep>| next.filter(|next| has(&next.tool));
    let mut notes = Vec::new();
    let repair = offered(grade.next_suggested_tool.clone());
    let repairs = match grade.status {
        GradeStatus::MissingOutcome => repair.is_some(),
        GradeStatus::Blocked | GradeStatus::Sleeping | GradeStatus::DoneCandidate => true,
        GradeStatus::InProgress => false,
    };
    if repairs {
        let text = format!("{}: {}", grade.status.name(), grade.summary);
        notes.push(note("outcome-repair", &text, repair.as_ref()));
    }
    if grade.status == GradeStatus::MissingOutcome {
        return notes;
    }
    if !evaluation.promotion_ready && GATED.iter().any(|tool| has(tool)) {
        let text = format!(
            "the outcome evaluates to {}: {}; until it passes, nothing shared is changed",
            evaluation.status.name(),
            evaluation.summary
        );
        notes.push(note("promotion-gate", &text, offered(evaluation.gate_step()).as_ref()));
    }
    if evaluation.trend.is_stalled() && !evaluation.promotion_ready && *n_evaluated > 1 {
        let text = format!("{}: {}", evaluation.trend.name(), evaluation.trend_summary);
        let next = offered(evaluation.gate_step());
        notes.push(note("outcome-trend", &text, next.as_ref()));
    }
    notes
}

/// What other sessions are asked for: what was said last, what is to be achieved, and how that
/// stands, so that who is stuck finds how others got unstuck.
fn cue(sight: &Sight, assessment: &Assessment) -> String {
    let message = sight.log.iter().rev().find_map(|told| match &told.event {
        Event::MessageReceived { content, .. } => Some(said(content)),
        _ => None,
    });
    let message: String = message.unwrap_or_default().chars().take(CUE_CHARS).collect();
    let mut words = vec![message];
    if let Some((active, _)) = sight.goal() {
        words.push(active.goal.title().to_owned());
        words.extend(active.goal.criteria().iter().cloned());
        let Assessment { grade, evaluation, .. } = assessment;
        let posture = [grade.status.name(), evaluation.status.name(), evaluation.trend.name()];
        words.extend(posture.map(str::to_owned));
    }
    words.join(" ")
}

fn remembered(found: &Recalled, has: &impl Fn(&str) -> bool) -> Vec<String> {
    let mut notes = Vec::new();
    let step = |value: &Value| {
        let (tool, why) = (value["tool"].as_str()?, value["rationale"].as_str()?);
        has(tool).then(|| NextStep::new(tool, value["args"].clone(), why))
    };
    if let Some(next) = found.plan.iter().find_map(step) {
        notes.push(note("retrieval-plan", "other sessions have something about this", Some(&next)));
    }
    for candidate in &found.candidates {
        let expansion = &candidate.expansion;
        let next = NextStep::new(expansion.tool, expansion.args.clone(), &expansion.rationale);
        let text =
            format!("{} ({}): {:?}", candidate.title, candidate.confidence, candidate.snippet);
        notes.push(note("retrieval-candidate", &text, Some(&next).filter(|next| has(&next.tool))));
    }
    notes
}

fn note(kind: &str, text: &str, next: Option<&NextStep>) -> String {
    match next {
        Some(NextStep { tool, args, rationale }) => {
            format!("[{kind}] {text} nextTool={tool} nextArgs={args} nextWhy={rationale}")
        }
        None => format!("[{kind}] {text}"),
    }
}
