//! `evolve`: the state after an event. The same function runs live and in revival.

mod call;

use std::sync::Arc;

use super::child::Hears;
use super::config::Driver;
use super::event::Event;
use super::goal::ActiveGoal;
use super::spend::Spent;
use super::state::{Activity, Open, RunClock, State, Stopping};
use super::usage::Usage;
use super::wake::FollowUp;
use crate::time::{Millis, Timestamp};

/// An event that cannot follow the state: the log is damaged, or the machine is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event `{event}` cannot follow: {why}")]
pub struct Corrupt {
    event: &'static str,
    why: &'static str,
}

type Evolved = Result<(), &'static str>;

/// Returns the state after an event that happened at `at`.
///
/// # Errors
///
/// When the event cannot follow the state.
pub fn evolve(mut state: State, at: Timestamp, event: &Event) -> Result<State, Corrupt> {
    let evolved = match (&mut state, event) {
        (State::Unopened, Event::SessionOpened { session, config, by, parent }) => {
            return Ok(State::Open(Open {
                session: *session,
                opened_by: by.clone(),
                config: Arc::clone(config),
                activity: Activity::Idle,
                stopping: Stopping::No,
                turn: 0,
                turns_in_run: 0,
                calls_in_run: 0,
                misuse: None,
                calls: Vec::new(),
                recent: Vec::new(),
                inbox: Vec::new(),
                heard: Vec::new(),
                advertised: None,
                grants: Vec::new(),
                goal: None,
                tokens_in_run: 0,
                retries_in_run: 0,
                spent: Spent::default(),
                clock: None,
                summary: None,
                wakes: Vec::new(),
                due: Vec::new(),
                follow_ups: 0,
                parent: *parent,
                owed: None,
                abandoned: Vec::new(),
                reported: Vec::new(),
            }));
        }
        (State::Open(open), Event::SessionEnded {}) => {
            return Ok(State::Ended { session: open.session });
        }
        (State::Open(open), event) => apply(open, at, event),
        (State::Unopened, _) => Err("the session is not open"),
        (State::Ended { .. }, _) => Err("the session has ended"),
    };
    match evolved {
        Ok(()) => Ok(state),
        Err(why) => Err(Corrupt { event: event.name(), why }),
    }
}

/// Counts the time since the latest event towards the run, unless the session only waited.
fn tick(open: &mut Open, at: Timestamp) {
    if open.activity == Activity::Idle {
        return;
    }
    let only_waited = open.only_waits();
    let clock = open.clock.get_or_insert(RunClock { at, worked: Millis(0) });
    if !only_waited {
        clock.worked = Millis(clock.worked.0.saturating_add(at.since(clock.at).0));
    }
    clock.at = at;
}

fn spend_tokens(open: &mut Open, usage: Option<Usage>) {
    let spent = usage.map_or(0, |usage| usage.total());
    open.tokens_in_run = open.tokens_in_run.saturating_add(spent);
}

fn apply(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    tick(open, at);
    match event {
        Event::SessionOpened { .. } | Event::SessionEnded {} => Err("the session is open already"),
        Event::SessionReconfigured { .. }
        | Event::SessionInterrupted { .. }
        | Event::SessionEnding { .. }
        | Event::MessageReceived { .. }
        | Event::ChildStopped { .. }
        | Event::ParentTold { .. }
        | Event::ChildReported { .. }
        | Event::GoalSet { .. }
        | Event::GrantAdded { .. }
        | Event::GrantRevoked { .. } => apply_to_session(open, at, event),
        Event::TurnStarted { .. }
        | Event::TurnRetried { .. }
        | Event::TurnAnswered { .. }
        | Event::TurnEnded { .. }
        | Event::ContextSummarised { .. }
        | Event::LoopDirected { .. } => apply_to_turn(open, at, event),
        Event::WakeQueued { .. } | Event::WakeFellDue { .. } | Event::WakeCancelled { .. } => {
            apply_to_wake(open, event)
        }
        Event::LearningCaptured { .. }
        | Event::ProviderResultIgnored { .. }
        | Event::SessionRestored { .. } => Ok(()),
        Event::CallProposed { .. }
        | Event::CallRejected { .. }
        | Event::CallAdmitted { .. }
        | Event::CallPreviewing { .. }
        | Event::CallSuspended { .. }
        | Event::CallEndorsed { .. }
        | Event::CallResolved { .. }
        | Event::CallQueued { .. }
        | Event::CallStarted { .. }
        | Event::CallRetryScheduled { .. }
        | Event::CallInterrupted { .. }
        | Event::CallVerified { .. }
        | Event::CallCancelling { .. }
        | Event::CallRedefined { .. }
        | Event::CallBarred { .. }
        | Event::CallDelegated { .. }
        | Event::CallFinished { .. } => call::apply(open, at, event),
    }
}

fn apply_to_session(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    match event {
        Event::SessionReconfigured { config, .. } => open.config = Arc::clone(config),
        Event::SessionInterrupted { .. } => {
            if open.activity != Activity::Idle && open.stopping == Stopping::No {
                open.stopping = Stopping::Turn;
            }
        }
        Event::SessionEnding { .. } => open.stopping = Stopping::Session,
        Event::MessageReceived { message, .. } => open.hear(*message),
        Event::ChildStopped { child } => open.abandoned.retain(|abandoned| abandoned != child),
        Event::ParentTold { turn } => {
            open.owed.take_if(|owed| *owed <= *turn);
        }
        Event::ChildReported { report } => open.hear_report(report),
        Event::GoalSet { goal, by } => {
            let (goal, by) = (goal.clone(), by.clone());
            open.goal = Some(Arc::new(ActiveGoal { goal, by, at }));
        }
        Event::GrantAdded { grant } => open.grants.push(grant.clone()),
        Event::GrantRevoked { grant, .. } => open.grants.retain(|held| held.id != *grant),
        _ => return Err("it does not change the session"),
    }
    Ok(())
}

fn apply_to_turn(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    match event {
        Event::TurnStarted { turn, messages, wakes } => {
            open.inbox.retain(|message| !messages.contains(message));
            open.due.retain(|wake| !wakes.contains(&wake.id));
            if !messages.is_empty() {
                open.follow_ups = 0;
            }
            turn_started(open, *turn)?;
            tick(open, at);
            Ok(())
        }
        Event::TurnRetried { turn, attempt, .. } => {
            open.activity = Activity::Thinking { attempt: *attempt };
            current_turn(open, *turn)
        }
        Event::TurnAnswered { turn, advertised, usage, .. } => {
            open.activity = Activity::Acting;
            spend_tokens(open, *usage);
            if let Some(names) = advertised {
                open.advertised = Some(Arc::new(names.iter().cloned().collect()));
            }
            current_turn(open, *turn)
        }
        Event::TurnEnded { turn, .. } => turn_ended(open, *turn),
        Event::ContextSummarised { summary } => {
            spend_tokens(open, summary.usage);
            open.summary = Some(Arc::clone(summary));
            Ok(())
        }
        Event::LoopDirected { follow_up, .. } => {
            open.follow_ups += u32::from(*follow_up == FollowUp::Queued);
            Ok(())
        }
        _ => Err("it does not move a turn"),
    }
}

fn turn_started(open: &mut Open, turn: u32) -> Evolved {
    if open.turn.checked_add(1) != Some(turn) {
        return Err("the turns are out of order");
    }
    open.turn = turn;
    open.misuse = None;
    open.turns_in_run += 1;
    while let Some(place) = open.calls.iter().position(|call| !call.phase.is_open()) {
        open.forget(place);
    }
    open.activity = match open.config.driver {
        Driver::Model => Activity::Thinking { attempt: 1 },
        Driver::Caller => Activity::Acting,
    };
    Ok(())
}

fn turn_ended(open: &mut Open, turn: u32) -> Evolved {
    current_turn(open, turn)?;
    if open.calls.iter().any(|call| call.phase.is_open()) {
        return Err("a call of the turn has no outcome");
    }
    open.activity = Activity::Idle;
    open.turns_in_run = 0;
    open.calls_in_run = 0;
    open.tokens_in_run = 0;
    open.retries_in_run = 0;
    open.spent.end_run();
    open.clock = None;
    open.owed = open.parent.filter(|parent| parent.hears == Hears::All).map(|_| turn);
    if open.stopping == Stopping::Turn {
        open.stopping = Stopping::No;
    }
    Ok(())
}

fn current_turn(open: &Open, turn: u32) -> Evolved {
    if turn == open.turn { Ok(()) } else { Err("it belongs to another turn") }
}

fn apply_to_wake(open: &mut Open, event: &Event) -> Evolved {
    match event {
        Event::WakeQueued { wake } => {
            open.wakes.push(wake.clone());
            Ok(())
        }
        Event::WakeFellDue { wake } => {
            let place = open.wakes.iter().position(|queued| queued.id == *wake);
            let wake = open.wakes.remove(place.ok_or("no such wake is queued")?);
            open.due.push(wake);
            Ok(())
        }
        Event::WakeCancelled { wake, .. } => {
            open.wakes.retain(|queued| queued.id != *wake);
            open.due.retain(|due| due.id != *wake);
            Ok(())
        }
        _ => Err("it does not move a wake"),
    }
}
