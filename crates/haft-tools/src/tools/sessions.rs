//! Finding one's way among the sessions of one's agent.

use haft_core::SessionId;
use haft_core::session::Returned;
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_store::ListedSession;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{plain, taken};
use super::{artifacts, checkpoint, context_budget};
use crate::chronicle::{self, EventId, FeedEvent, Run, RunId, feed};
use crate::hands::Hands;
use crate::setup;
use crate::sight::{Current, Lineage, Sight, Viewer};

/// How much of a log is read before the first event that is wanted, so that what calls are named
/// in it is known.
const LEAD: u64 = 512;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    session_id: Option<String>,
    include_current: Option<bool>,
    limit: Option<usize>,
    active_minutes: Option<u64>,
    lineage: Option<Lineage>,
    has_outcome: Option<bool>,
    promotion_ready: Option<bool>,
    outcome_status: Option<String>,
    outcome_trend: Option<String>,
    status: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WantedEvents {
    session_id: Option<String>,
    after_event_id: Option<String>,
    before_event_id: Option<String>,
    around_event_id: Option<String>,
    wake_id: Option<String>,
    before_limit: Option<usize>,
    after_limit: Option<usize>,
    include_processed: Option<bool>,
    limit: Option<usize>,
    types: Option<Vec<String>>,
}

/// A session in a list, with what it is sorted by.
struct Listed {
    value: Value,
    rank: (bool, bool, bool, u8, bool, i64),
}

/// What every view of a session says of it.
pub(super) async fn summary(
    viewer: &Viewer,
    sight: &Sight,
    own: &Sight,
) -> Result<Value, ToolError> {
    let session = sight.listed.session;
    let setup = setup::recorded(viewer, session).await?;
    let own_print = setup::fingerprint(viewer, viewer.own.session).await?;
    let print = setup.as_ref().and_then(|setup| setup["fingerprint"].as_str());
    let contract = setup.as_ref().map(|setup| setup["resourceContract"]["fingerprint"].clone());
    let (goal, own_goal) = (sight.goal(), own.goal());
    let same_goal = match (&goal, &own_goal) {
        (Some((one, _)), Some((other, _))) => one.goal.title() == other.goal.title(),
        _ => false,
    };
    let evaluation = sight.assessment().evaluation;
    let waiting = sight.waiting();
    Ok(json!({
        "sessionId": session,
        "agentId": viewer.agent(),
        "parentSessionId": sight.listed.parent,
        "relationToCurrent": viewer.relation(&sight.listed),
        "isCurrent": session == viewer.own.session,
        "childCount": viewer.n_children(session).await?,
        "setupMatchesCurrent": print.is_some() && print == own_print.as_deref(),
        "outcomeMatchesCurrent": same_goal,
        "agentSetupFingerprint": print,
        "resourceContractFingerprint": contract.and_then(|print| print.as_str().map(str::to_owned)).unwrap_or_default(),
        "status": sight.status(),
        "createdAt": sight.listed.created_at.to_string(),
        "updatedAt": sight.listed.updated_at.to_string(),
        "lastActivityAt": sight.last_activity().to_string(),
        "stopReason": sight.stop_reason(),
        "requiresAction": waiting.is_some(),
        "pendingActionKind": waiting.as_ref().map(|waiting| waiting.kind),
        "pendingActionToolName": waiting.as_ref().map(|waiting| &waiting.tool),
        "latestSummary": sight.latest_summary(),
        "hasOutcome": goal.is_some(),
        "outcomeStatus": evaluation.status,
        "outcomeTrend": evaluation.trend,
        "outcomeTrendSummary": evaluation.trend_summary,
        "promotionReady": evaluation.promotion_ready,
        "nextOutcomeStep": evaluation.gate_step(),
    }))
}

impl Wanted {
    fn takes(&self, summary: &Value, sight: &Sight, now: i64) -> bool {
        let same = |wanted: &Option<String>, member: &str| {
            wanted.as_deref().is_none_or(|wanted| summary[member] == wanted)
        };
        let flag = |wanted: Option<bool>, member: &str| {
            wanted.is_none_or(|wanted| summary[member] == wanted)
        };
        let recent = self.active_minutes.is_none_or(|minutes| {
            let window = i64::try_from(minutes.saturating_mul(60_000)).unwrap_or(i64::MAX);
            sight.last_activity().ms() >= now.saturating_sub(window)
        });
        same(&self.status, "status")
            && same(&self.outcome_status, "outcomeStatus")
            && same(&self.outcome_trend, "outcomeTrend")
            && flag(self.has_outcome, "hasOutcome")
            && flag(self.promotion_ready, "promotionReady")
            && recent
    }

    async fn listed(
        &self,
        viewer: &Viewer,
        sessions: Vec<ListedSession>,
        now: i64,
    ) -> Result<Vec<Value>, ToolError> {
        let own = viewer.look(viewer.own.clone()).await?;
        let mut found = Vec::new();
        for listed in sessions {
            let sight = viewer.look(listed).await?;
            let value = summary(viewer, &sight, &own).await?;
            if self.takes(&value, &sight, now) {
                let trend = match value["outcomeTrend"].as_str() {
                    Some("improving") => 3,
                    Some("first_iteration") => 2,
                    Some("stable") => 1,
                    _ => 0,
                };
                let holds = |member: &str| value[member] == true;
                let rank = (
                    holds("setupMatchesCurrent"),
                    holds("outcomeMatchesCurrent"),
                    holds("requiresAction"),
                    trend,
                    !value["relationToCurrent"].is_null(),
                    sight.last_activity().ms(),
                );
                found.push(Listed { value, rank });
            }
        }
        found.sort_by_key(|one| std::cmp::Reverse(one.rank));
        found.truncate(self.limit.unwrap_or(10));
        Ok(found.into_iter().map(|one| one.value).collect())
    }
}

pub(super) async fn list(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    setup::record(&context, &viewer).await?;
    let current = Current::included(wanted.include_current.unwrap_or(true));
    let kin = viewer.kin(wanted.lineage, current).await?;
    let sessions = wanted.listed(&viewer, kin, context.now().ms()).await?;
    let agent = viewer.agent();
    Ok(plain(json!({ "agentId": agent, "count": sessions.len(), "sessions": sessions })))
}

pub(super) async fn list_children(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let parent = viewer.session(wanted.session_id.as_deref()).await?.session;
    let children = viewer.children(parent).await?;
    let sessions = wanted.listed(&viewer, children, context.now().ms()).await?;
    Ok(plain(json!({ "parentSessionId": parent, "count": sessions.len(), "sessions": sessions })))
}

pub(super) async fn snapshot(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    artifacts::write(&context).await?;
    let sight = viewer.look(viewer.session(wanted.session_id.as_deref()).await?).await?;
    Ok(plain(snapshot_of(&viewer, &sight, &context).await?))
}

pub(super) async fn snapshot_of(
    viewer: &Viewer,
    sight: &Sight,
    context: &ToolContext,
) -> Result<Value, ToolError> {
    let own = viewer.look(viewer.own.clone()).await?;
    let mut answer = summary(viewer, sight, &own).await?;
    let assessment = sight.assessment();
    let checkpoint = checkpoint::of(sight);
    let waiting = sight.waiting();
    let of_kind = |kind: &str| {
        let waiting = waiting.as_ref().filter(|waiting| waiting.kind == kind);
        waiting.map_or(Value::Null, |waiting| waiting.value.clone())
    };
    let open = sight.open();
    let hand = Hands::of(context).await.ok();
    let more = json!({
        "environmentId": open.and_then(|open| Some(open.config.agent.as_ref()?.environment.as_ref()?.id.clone())).unwrap_or_else(|| "local-default".to_owned()),
        "turns": open.map_or(0, |open| open.turn),
        "pendingToolConfirmationRequest": of_kind("tool_confirmation"),
        "pendingCustomToolRequest": of_kind("custom_tool"),
        "resourceCount": hand.as_deref().map_or(0, |hand| hand.workspace().mounts.roots().count()),
        "pendingEventCount": open.map_or(0, |open| open.inbox.len()),
        "checkpointUpdatedAt": checkpoint["updatedAt"],
        "lastWakeId": checkpoint["lastWakeId"],
        "activeOutcome": checkpoint["activeOutcome"],
        "outcomeGrade": assessment.grade,
        "outcomeEvaluation": assessment.evaluation,
        "outcomeEvaluationHistoryCount": assessment.n_evaluated,
        "outcomeEvaluationLatestIteration": assessment.history.last().map(|latest| latest.iteration),
        "eventCursor": checkpoint["eventCursor"],
        "artifactPaths": artifacts::paths(hand.as_deref()),
        "shellState": checkpoint::shell_state(viewer, context, sight.listed.session).await.unwrap_or(Value::Null),
    });
    if let (Value::Object(answer), Value::Object(more)) = (&mut answer, more) {
        answer.extend(more);
    }
    Ok(answer)
}

pub(super) async fn describe_context(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let sight = viewer.look(viewer.session(wanted.session_id.as_deref()).await?).await?;
    Ok(plain(context_budget::of(&sight, &context)))
}

/// The part of a log that a request is about, told in document 002's words.
async fn told(
    viewer: &Viewer,
    session: SessionId,
    wanted: &WantedEvents,
) -> Result<Vec<FeedEvent>, ToolError> {
    let loaded = viewer.store().load(session).await?;
    let head = loaded.map_or(0, |loaded| loaded.head.seq);
    let anchor = [&wanted.around_event_id, &wanted.before_event_id, &wanted.after_event_id]
        .into_iter()
        .flatten()
        .next();
    let anchor: Option<EventId> =
        anchor.map(|id| id.parse()).transpose().map_err(ToolError::invalid)?;
    let most = 4 * LEAD;
    let after = match (anchor, &wanted.wake_id) {
        (Some(anchor), _) if wanted.after_event_id.is_some() => anchor.seq.saturating_sub(LEAD),
        (Some(anchor), _) => anchor.seq.saturating_sub(2 * LEAD),
        // A wake is found from the beginning of what can be read at once.
        (None, _) => head.saturating_sub(2 * most),
    };
    let log = chronicle::read(viewer.store(), session, after, 2 * most).await?;
    Ok(feed(&log))
}

impl WantedEvents {
    fn sliced(&self, mut events: Vec<FeedEvent>) -> Result<Vec<FeedEvent>, ToolError> {
        let id = |text: &Option<String>| {
            text.as_deref().map(str::parse::<EventId>).transpose().map_err(ToolError::invalid)
        };
        if let Some(types) = &self.types {
            events.retain(|event| types.iter().any(|kind| kind == event.kind));
        }
        if let Some(wake) = &self.wake_id {
            let wake: RunId = wake.parse().map_err(ToolError::invalid)?;
            events.retain(|event| event.run == Some(wake));
        }
        if self.include_processed == Some(false) {
            events.retain(|event| event.is_pending);
        }
        let limit = self.limit.unwrap_or(20);
        if let Some(around) = id(&self.around_event_id)? {
            let at = events.partition_point(|event| event.id < around);
            let from = at.saturating_sub(self.before_limit.unwrap_or(limit / 2));
            let to = (at + 1 + self.after_limit.unwrap_or(limit / 2)).min(events.len());
            return Ok(events.drain(from.min(to)..to).collect());
        }
        if let Some(after) = id(&self.after_event_id)? {
            events.retain(|event| event.id > after);
            events.truncate(limit);
            return Ok(events);
        }
        if let Some(before) = id(&self.before_event_id)? {
            events.retain(|event| event.id < before);
        }
        let skipped = events.len().saturating_sub(limit);
        Ok(events.drain(skipped..).collect())
    }
}

pub(super) async fn events(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: WantedEvents = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let events = wanted.sliced(told(&viewer, session, &wanted).await?)?;
    let events: Vec<Value> = events.iter().map(FeedEvent::value).collect();
    Ok(plain(json!({ "sessionId": session, "count": events.len(), "events": events })))
}

pub(super) async fn trace(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let mut wanted: WantedEvents = taken(arguments)?;
    wanted.limit = Some(wanted.limit.unwrap_or(usize::MAX));
    let wake = wanted.wake_id.clone().unwrap_or_default();
    let viewer = Viewer::of(&context).await?;
    let session = viewer.session(wanted.session_id.as_deref()).await?.session;
    let events = told(&viewer, session, &wanted).await?;
    let known: RunId = wake.parse().map_err(ToolError::invalid)?;
    if !events.iter().any(|event| event.run == Some(known)) {
        return Err(ToolError::invalid(format!(
            "the session has no wake `{wake}` in what can be read at once; `session_list_traces` lists them"
        )));
    }
    let events: Vec<Value> = wanted.sliced(events)?.iter().map(FeedEvent::value).collect();
    Ok(plain(
        json!({ "sessionId": session, "wakeId": wake, "count": events.len(), "events": events }),
    ))
}

pub(super) async fn list_traces(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Wanted = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let sight = viewer.look(viewer.session(wanted.session_id.as_deref()).await?).await?;
    let traces = traces_of(&sight, wanted.limit.unwrap_or(8));
    let session = sight.listed.session;
    Ok(plain(json!({ "sessionId": session, "count": traces.len(), "traces": traces })))
}

/// The newest wakes, newest first.
pub(super) fn traces_of(sight: &Sight, limit: usize) -> Vec<Value> {
    let events = feed(&sight.log);
    let told = |run: &Run| {
        let of_run: Vec<&FeedEvent> =
            events.iter().filter(|event| event.run == Some(run.id)).collect();
        let mut types: Vec<&str> = of_run.iter().map(|event| event.kind).collect();
        types.sort_unstable();
        types.dedup();
        json!({
            "wakeId": run.id,
            "startedAt": run.started_at.to_string(),
            "updatedAt": run.updated_at.to_string(),
            "elapsedMs": run.updated_at.since(run.started_at).0,
            "eventCount": of_run.len(),
            "eventTypes": types,
            "latestSummary": run.summary(),
        })
    };
    sight.runs.iter().rev().take(limit).map(told).collect()
}
