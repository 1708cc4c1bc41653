//! The grade: where a session is on its way, by fixed rules.

use serde::Serialize;
use serde_json::{Value, json};

use super::evidence::{claims, criteria, shown};
use super::{Blocked, Facts, Sleep};
use crate::chronicle::Run;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GradeStatus {
    MissingOutcome,
    Blocked,
    Sleeping,
    InProgress,
    DoneCandidate,
}

impl GradeStatus {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MissingOutcome => "missing_outcome",
            Self::Blocked => "blocked",
            Self::Sleeping => "sleeping",
            Self::InProgress => "in_progress",
            Self::DoneCandidate => "done_candidate",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    Low,
    Medium,
    High,
}

/// What to call next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NextStep {
    pub(crate) tool: String,
    pub(crate) args: Value,
    pub(crate) rationale: String,
}

impl NextStep {
    pub(crate) fn new(tool: &str, args: Value, rationale: &str) -> Self {
        Self { tool: tool.to_owned(), args, rationale: rationale.to_owned() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Grade {
    pub(crate) status: GradeStatus,
    pub(crate) confidence: Confidence,
    pub(crate) summary: String,
    /// How many criteria are claimed or shown to be met.
    pub(crate) matched_criteria: usize,
    pub(crate) total_criteria: usize,
    pub(crate) evidence: Vec<String>,
    pub(crate) next_suggested_tool: Option<NextStep>,
    /// How many of them the result of a call shows.
    #[serde(skip)]
    pub(super) n_shown: usize,
}

/// Grades a session as it stood after some of its runs.
pub(super) fn grade(facts: &Facts<'_>, runs: &[Run]) -> Grade {
    let Some(goal) = facts.goal else { return missing() };
    let (criteria, claimed) = (criteria(goal), claimed_text(facts, runs));
    let (mut evidence, mut matched, mut n_shown) = (Vec::new(), 0, 0);
    for criterion in &criteria {
        match shown(facts, runs, criterion) {
            Some(shown) => {
                (matched, n_shown) = (matched + 1, n_shown + 1);
                evidence.push(format!("{criterion}: shown by `{}` ({})", shown.tool, shown.call));
            }
            None if claims(&claimed, criterion) => {
                matched += 1;
                evidence.push(format!("{criterion}: claimed, and shown by no result"));
            }
            None => evidence.push(format!("{criterion}: nothing about it")),
        }
    }
    let total = criteria.len();
    let rested = runs.last().is_some_and(Run::rested);
    let base = Grade {
        status: GradeStatus::InProgress,
        confidence: Confidence::Medium,
        summary: format!("{matched} of {total} criteria have something said for them"),
        matched_criteria: matched,
        total_criteria: total,
        evidence,
        next_suggested_tool: None,
        n_shown,
    };
    if let Some(blocked) = &facts.blocked {
        return blocked_grade(base, blocked);
    }
    if facts.sleep == Sleep::Scheduled {
        let summary = "the session sleeps until its next wake".to_owned();
        return Grade { status: GradeStatus::Sleeping, summary, ..base };
    }
    if matched == total && rested {
        return done_candidate(base, runs);
    }
    base
}

fn missing() -> Grade {
    Grade {
        status: GradeStatus::MissingOutcome,
        confidence: Confidence::High,
        summary: "the session has no outcome to be measured by".to_owned(),
        matched_criteria: 0,
        total_criteria: 0,
        evidence: Vec::new(),
        next_suggested_tool: Some(NextStep::new(
            "outcome_define",
            json!({}),
            "say what is to be achieved and how that is told",
        )),
        n_shown: 0,
    }
}

fn blocked_grade(base: Grade, blocked: &Blocked) -> Grade {
    let next = match &blocked.alternative {
        Some((tool, args)) => {
            NextStep::new(tool, args.clone(), "it only looks, and needs nobody's agreement")
        }
        None => NextStep::new(
            "permissions_check",
            json!({ "toolName": blocked.tool }),
            "see what the call waits for",
        ),
    };
    Grade {
        status: GradeStatus::Blocked,
        confidence: Confidence::High,
        summary: format!("`{}` waits for someone", blocked.tool),
        next_suggested_tool: Some(next),
        ..base
    }
}

fn done_candidate(base: Grade, runs: &[Run]) -> Grade {
    let run = runs.last().map(|run| run.id);
    let all_shown = base.n_shown == base.total_criteria;
    Grade {
        status: GradeStatus::DoneCandidate,
        confidence: if all_shown { Confidence::High } else { Confidence::Low },
        summary: "every criterion has something said for it, and the session rests".to_owned(),
        next_suggested_tool: Some(NextStep::new(
            "session_get_trace",
            json!({ "wakeId": run }),
            "read what the last wake did before relying on it",
        )),
        ..base
    }
}

/// What the session says of itself: worth a second look, and no proof.
fn claimed_text(facts: &Facts<'_>, runs: &[Run]) -> String {
    let answers = runs.iter().rev().flat_map(|run| run.answers.iter().rev());
    let latest = answers.into_iter().find(|answer| !answer.is_empty());
    let mut texts: Vec<&str> = facts.notes.to_vec();
    texts.extend(latest.map(String::as_str));
    texts.join("\n")
}
