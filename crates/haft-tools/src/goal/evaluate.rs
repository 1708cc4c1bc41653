//! The evaluation: whether what a session did is safe to share, and how that moved.

use serde::Serialize;
use serde_json::{Value, json};

use super::grade::{Confidence, Grade, GradeStatus, NextStep, grade};
use super::{Facts, Shell, Sleep};
use crate::catalogue;
use crate::chronicle::{Run, RunId, SpanEnd};

/// How many records of a history are kept.
const HISTORY: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EvaluationStatus {
    MissingOutcome,
    Blocked,
    NotReady,
    Uncertain,
    Fail,
    Pass,
}

impl EvaluationStatus {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::MissingOutcome => "missing_outcome",
            Self::Blocked => "blocked",
            Self::NotReady => "not_ready",
            Self::Uncertain => "uncertain",
            Self::Fail => "fail",
            Self::Pass => "pass",
        }
    }

    const fn score(self) -> u32 {
        match self {
            Self::Pass => 5,
            Self::Uncertain => 4,
            Self::NotReady => 3,
            Self::Blocked => 2,
            Self::Fail => 1,
            Self::MissingOutcome => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trend {
    FirstIteration,
    Improving,
    Stable,
    Regressing,
}

impl Trend {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FirstIteration => "first_iteration",
            Self::Improving => "improving",
            Self::Stable => "stable",
            Self::Regressing => "regressing",
        }
    }

    /// Whether doing the same again is not worth it.
    pub(crate) const fn is_stalled(self) -> bool {
        matches!(self, Self::Stable | Self::Regressing)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evaluation {
    pub(crate) status: EvaluationStatus,
    pub(crate) confidence: Confidence,
    pub(crate) promotion_ready: bool,
    pub(crate) trend: Trend,
    pub(crate) trend_summary: String,
    pub(crate) summary: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) next_suggested_tool: Option<NextStep>,
}

impl Evaluation {
    fn worth(&self) -> u32 {
        self.status.score() + u32::from(self.promotion_ready)
    }

    /// What to do before changing shared things; `None` when that is safe.
    pub(crate) fn gate_step(&self) -> Option<NextStep> {
        if self.promotion_ready {
            return None;
        }
        let suggested = self.next_suggested_tool.clone();
        // A command that still runs comes before everything that is read.
        if suggested.as_ref().is_some_and(|next| next.tool == "shell_wait") {
            return suggested;
        }
        let repeated = self.trend.is_stalled().then(history_step);
        repeated.or(suggested).or_else(|| {
            let why = "see what is missing before changing what others share";
            Some(NextStep::new("outcome_evaluate", json!({}), why))
        })
    }
}

/// One evaluation of a history.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) evaluated_at: Option<String>,
    pub(crate) wake_id: Option<RunId>,
    pub(crate) iteration: usize,
    pub(crate) outcome_title: String,
    pub(crate) outcome_fingerprint: String,
    pub(crate) grade_status: GradeStatus,
    pub(crate) evaluation: Evaluation,
}

/// How a session stands with its goal now, and the history that led there, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) grade: Grade,
    pub(crate) evaluation: Evaluation,
    pub(crate) history: Vec<Record>,
    /// How many records there were before the oldest were left out.
    pub(crate) n_evaluated: usize,
}

/// Grades and evaluates a session after each of its runs, and as it stands now.
pub(crate) fn assess(facts: &Facts<'_>) -> Assessment {
    let runs: Vec<Run> = facts.runs.iter().filter(|run| counts(facts, run)).cloned().collect();
    let past = Facts {
        notes: &[],
        blocked: None,
        sleep: Sleep::None,
        shell: Shell::Quiet,
        ..facts.clone()
    };
    let mut history: Vec<Record> = Vec::new();
    // One more than is shown, so that the oldest that is shown has one to be compared with.
    for end in runs.len().saturating_sub(HISTORY + 1).max(1)..runs.len() {
        let upto = runs.get(..end).unwrap_or_default();
        let graded = grade(&past, upto);
        let evaluation = evaluate(&past, &graded, upto, &history);
        history.extend(record(facts, upto, &graded, evaluation));
    }
    let graded = grade(facts, &runs);
    let evaluation = evaluate(facts, &graded, &runs, &history);
    history.extend(record(facts, &runs, &graded, evaluation.clone()));
    history.drain(..history.len().saturating_sub(HISTORY));
    let n_evaluated = history.last().map_or(0, |latest| latest.iteration);
    Assessment { grade: graded, evaluation, history, n_evaluated }
}

/// A run that is over, after the goal was set, in which more was done than looking inward.
fn counts(facts: &Facts<'_>, run: &Run) -> bool {
    let worked = run.calls.iter().any(|done| !catalogue::looks_inward(&done.tool));
    let spoke = run.answers.iter().any(|answer| !answer.is_empty());
    run.ending.is_some() && run.last_seq > facts.since && (worked || spoke)
}

fn record(
    facts: &Facts<'_>,
    runs: &[Run],
    grade: &Grade,
    evaluation: Evaluation,
) -> Option<Record> {
    let (goal, run) = (facts.goal?, runs.last());
    Some(Record {
        evaluated_at: run.map(|run| run.updated_at.to_string()),
        wake_id: run.map(|run| run.id),
        iteration: runs.len().max(1),
        outcome_title: goal.title().to_owned(),
        outcome_fingerprint: goal.fingerprint().to_string(),
        grade_status: grade.status,
        evaluation,
    })
}

fn evaluate(facts: &Facts<'_>, grade: &Grade, runs: &[Run], history: &[Record]) -> Evaluation {
    let (status, summary) = verdict(facts, grade, runs.last());
    let promotion_ready = status == EvaluationStatus::Pass;
    let mut evaluation = Evaluation {
        status,
        confidence: grade.confidence,
        promotion_ready,
        trend: Trend::FirstIteration,
        trend_summary: String::new(),
        summary,
        evidence: grade.evidence.clone(),
        next_suggested_tool: next(facts, status, grade),
    };
    (evaluation.trend, evaluation.trend_summary) = trend(&evaluation, history.last());
    let repeated = history.len() >= 2
        && history.iter().rev().take(3).all(|one| one.evaluation.status != EvaluationStatus::Pass);
    if repeated && !promotion_ready && facts.shell == Shell::Quiet {
        evaluation.next_suggested_tool = Some(history_step());
    }
    evaluation
}

fn verdict(facts: &Facts<'_>, grade: &Grade, latest: Option<&Run>) -> (EvaluationStatus, String) {
    let failed =
        latest.is_some_and(|run| run.calls.iter().any(|done| done.end == Some(SpanEnd::Error)));
    let (status, summary) = match grade.status {
        GradeStatus::MissingOutcome => (EvaluationStatus::MissingOutcome, grade.summary.as_str()),
        GradeStatus::Blocked => (EvaluationStatus::Blocked, grade.summary.as_str()),
        GradeStatus::Sleeping | GradeStatus::InProgress => {
            (EvaluationStatus::NotReady, grade.summary.as_str())
        }
        GradeStatus::DoneCandidate if failed => {
            (EvaluationStatus::Fail, "a call of the last wake ended in an error")
        }
        GradeStatus::DoneCandidate if grade.n_shown < grade.total_criteria => (
            EvaluationStatus::Uncertain,
            "a criterion is only claimed: no result of a call shows it",
        ),
        GradeStatus::DoneCandidate => {
            (EvaluationStatus::Pass, "results of calls show every criterion, and nothing failed")
        }
    };
    let unsettled = matches!(
        status,
        EvaluationStatus::NotReady | EvaluationStatus::Uncertain | EvaluationStatus::Pass
    );
    if facts.shell == Shell::Busy && unsettled {
        let summary = "a command still runs in the session's shell".to_owned();
        return (EvaluationStatus::NotReady, summary);
    }
    (status, summary.to_owned())
}

fn next(facts: &Facts<'_>, status: EvaluationStatus, grade: &Grade) -> Option<NextStep> {
    if facts.shell == Shell::Busy && status == EvaluationStatus::NotReady {
        let args = json!({ "timeoutMs": 1000 });
        return Some(NextStep::new("shell_wait", args, "wait for the command that runs"));
    }
    match status {
        EvaluationStatus::Pass => None,
        EvaluationStatus::Uncertain => {
            Some(NextStep::new("bash", json!({}), "run something whose result shows the criterion"))
        }
        _ => grade.next_suggested_tool.clone(),
    }
}

fn trend(evaluation: &Evaluation, last: Option<&Record>) -> (Trend, String) {
    let Some(last) = last else {
        return (Trend::FirstIteration, "this is the first evaluation of this outcome".to_owned());
    };
    let (before, now) = (last.evaluation.worth(), evaluation.worth());
    let trend = match now.cmp(&before) {
        std::cmp::Ordering::Greater => Trend::Improving,
        std::cmp::Ordering::Equal => Trend::Stable,
        std::cmp::Ordering::Less => Trend::Regressing,
    };
    let words = format!("{} after {}", evaluation.status.name(), last.evaluation.status.name());
    (trend, words)
}

fn history_step() -> NextStep {
    let why = "the evaluation does not get better: see how it went before trying the same again";
    NextStep::new("outcome_history", Value::Object(serde_json::Map::new()), why)
}
