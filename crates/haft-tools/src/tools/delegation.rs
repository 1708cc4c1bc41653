//! Giving work to another session, of the same agent or of one of its roster, and waiting for it.

use std::collections::HashSet;
use std::time::Duration;

use haft_core::session::{Event, Goal, Phase, Returned, State};
use haft_core::{ContentBlock, Output, SessionId, Timestamp};
use haft_runtime::{Delegated, Role, ToolArguments, ToolContext, ToolError, Until};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{plain, taken};
use super::sessions;
use crate::chronicle::{self, EventId, Run, Told};
use crate::sight::{Sight, Viewer};

/// How long a child is waited for.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// How many runs are waited for unless said.
const CYCLES: u64 = 3;
/// How far back the beginning of the call itself is looked for.
const OWN_LOG: u64 = 512;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Work {
    message: String,
    title: Option<String>,
    detail: Option<String>,
    #[serde(default)]
    success_criteria: Vec<String>,
    agent: Option<String>,
    #[serde(default)]
    wait: bool,
}

impl Work {
    fn goal(&self) -> Result<Option<Goal>, ToolError> {
        let Some(title) = &self.title else {
            return match self.detail.is_some() || !self.success_criteria.is_empty() {
                true => Err(ToolError::invalid(
                    "`detail` and `successCriteria` belong to an outcome: give it a `title`",
                )),
                false => Ok(None),
            };
        };
        let goal = Goal::new(title, self.detail.as_deref(), &self.success_criteria);
        goal.map(Some).map_err(|error| ToolError::invalid(error.to_string()))
    }
}

pub(super) fn delegate(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<Delegated, ToolError> {
    let work: Work = taken(arguments.clone())?;
    let (goal, parent) = (work.goal()?, context.session());
    let has_goal = goal.is_some();
    let told = move |child: SessionId| Output::of_value(opened(parent, child, has_goal));
    Ok(Delegated {
        role: work.agent.map_or(Role::Same, Role::Colleague),
        task: vec![ContentBlock::Text { text: work.message }],
        goal,
        until: if work.wait { Until::Word } else { Until::Opening(Box::new(told)) },
    })
}

/// What there is to say of a child that has just been opened.
fn opened(parent: SessionId, child: SessionId, has_goal: bool) -> Value {
    // The log begins with its opening; then come the goal, if there is one, and the message.
    let seeded = (2..).take(1 + usize::from(has_goal));
    let seeded: Vec<String> = seeded.map(|seq| EventId::first(seq).to_string()).collect();
    json!({
        "parentSessionId": parent,
        "childSession": {
            "sessionId": child,
            "parentSessionId": parent,
            "relationToCurrent": "child",
            "childCount": 0,
            "status": "running",
            "requiresAction": false,
            "hasOutcome": has_goal,
            "outcomeStatus": if has_goal { "not_ready" } else { "missing_outcome" },
            "promotionReady": false,
        },
        "seededEventIds": seeded,
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Watched {
    session_id: String,
    max_cycles: Option<u64>,
}

/// Why a child is waited for no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nothing goes on in it before someone speaks, or its time comes.
    Idle,
    MaxCycles,
    OutOfTime,
}

impl Stop {
    const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::MaxCycles => "max_cycles",
            Self::OutOfTime => "out_of_time",
        }
    }
}

pub(super) async fn run_child(
    arguments: ToolArguments,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let wanted: Watched = taken(arguments)?;
    let viewer = Viewer::of(&context).await?;
    let child = viewer.child(&wanted.session_id).await?;
    let since = began(&viewer, &context).await?;
    let most = wanted.max_cycles.unwrap_or(CYCLES);
    let stop = watch(&viewer, &context, child.session, since, most).await?;
    let (sight, own) = (viewer.look(child).await?, viewer.look(viewer.own.clone()).await?);
    let ended: Vec<&Run> = sight.runs.iter().filter(|run| run.ended_since(since)).collect();
    Ok(plain(json!({
        "parentSessionId": viewer.own.session,
        "childSession": sessions::summary(&viewer, &sight, &own).await?,
        "executedCycles": ended.len(),
        "loopStopReason": stop.name(),
        "childStopReason": sight.stop_reason(),
        "response": response(&sight),
        "queuedWakeIds": sight.open().map(|open| open.wakes.iter().map(|wake| wake.id).collect::<Vec<_>>()).unwrap_or_default(),
        "processedEventIds": processed(&sight.log, &ended),
    })))
}

/// When the call was first entered: an attempt after a crash counts from there too.
async fn began(viewer: &Viewer, context: &ToolContext) -> Result<Timestamp, ToolError> {
    let (store, own) = (viewer.store(), viewer.own.session);
    let head = store.load(own).await?.map_or(0, |loaded| loaded.head.seq);
    let log = chronicle::read(store, own, head.saturating_sub(OWN_LOG), OWN_LOG).await?;
    let started = log.iter().find_map(|told| match &told.event {
        Event::CallStarted { call, .. } if *call == context.call() => Some(told.at),
        _ => None,
    });
    Ok(started.unwrap_or_else(|| context.now()))
}

async fn watch(
    viewer: &Viewer,
    context: &ToolContext,
    child: SessionId,
    since: Timestamp,
    most: u64,
) -> Result<Stop, ToolError> {
    let deadline = Instant::now() + PATIENCE;
    let (mut wait, mut seq, mut n_ended) = (LOOK_FIRST, 0, 0);
    loop {
        let Some(loaded) = viewer.store().load(child).await? else { return Ok(Stop::Idle) };
        if rests(&loaded.state) {
            return Ok(Stop::Idle);
        }
        let new = chronicle::read(viewer.store(), child, seq, loaded.head.seq - seq).await?;
        n_ended += new.iter().filter(|told| ends_run(told) && told.at >= since).count() as u64;
        seq = loaded.head.seq;
        if n_ended >= most {
            return Ok(Stop::MaxCycles);
        }
        if Instant::now() >= deadline {
            return Ok(Stop::OutOfTime);
        }
        tokio::select! {
            () = context.stop().cancelled() => return Err(ToolError::cancelled()),
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(LOOK_MAX),
        }
    }
}

fn ends_run(told: &Told) -> bool {
    matches!(told.event, Event::TurnEnded { .. })
}

/// Whether a session goes on only when someone speaks or a time comes.
fn rests(state: &State) -> bool {
    let Some(open) = state.as_open() else { return true };
    let is_called = !open.inbox.is_empty() || !open.due.is_empty();
    let idle = open.activity == haft_core::session::Activity::Idle && !is_called;
    let mut at_work = open
        .calls()
        .filter(|call| call.phase.is_open() && !matches!(call.phase, Phase::Waiting(_)));
    idle || (open.waiting().next().is_some() && at_work.next().is_none())
}

/// The last thing that it said.
fn response(sight: &Sight) -> Option<&str> {
    let said = sight.runs.iter().rev().flat_map(|run| run.answers.iter().rev());
    said.map(String::as_str).find(|said| !said.is_empty())
}

/// The messages that some runs took up.
fn processed(log: &[Told], runs: &[&Run]) -> Vec<String> {
    let of_runs =
        |told: &&Told| runs.iter().any(|run| (run.first_seq..=run.last_seq).contains(&told.seq));
    let taken: HashSet<_> = log
        .iter()
        .filter(of_runs)
        .filter_map(|told| match &told.event {
            Event::TurnStarted { messages, .. } => Some(messages),
            _ => None,
        })
        .flatten()
        .collect();
    let messages = log.iter().filter(|told| match &told.event {
        Event::MessageReceived { message, .. } => taken.contains(message),
        _ => false,
    });
    messages.map(|told| EventId::first(told.seq).to_string()).collect()
}
