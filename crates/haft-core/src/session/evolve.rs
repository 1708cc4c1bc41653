//! `evolve`: the state after an event. The same function runs live and in revival.

use std::sync::Arc;

use super::admission::{Basis, Permit};
use super::config::{Driver, MisuseRule};
use super::event::{Event, RecoveryPlan, StartCause, VerifyFinding};
use super::state::{Activity, Call, DecidedBy, Open, Phase, RECENT_MAX, RunClock, State, Stopping};
use super::suspension::{Decided, DecidedKind, Suspension, SuspensionKind};
use super::usage::Usage;
use super::wake::FollowUp;
use crate::actor::Actor;
use crate::digest::Digest;
use crate::id::{CallId, ResolutionId, SessionId};
use crate::outcome::{CallResult, Outcome};
use crate::permission::GrantUse;
use crate::time::{Millis, Timestamp};
use crate::tool::Executor;

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
                tokens_in_run: 0,
                clock: None,
                summary: None,
                wakes: Vec::new(),
                due: Vec::new(),
                follow_ups: 0,
                parent: *parent,
                owed: None,
                abandoned: Vec::new(),
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
        Event::SessionReconfigured { config, .. } => {
            open.config = Arc::clone(config);
            Ok(())
        }
        Event::SessionInterrupted { .. } => {
            if open.activity != Activity::Idle && open.stopping == Stopping::No {
                open.stopping = Stopping::Turn;
            }
            Ok(())
        }
        Event::SessionEnding { .. } => {
            open.stopping = Stopping::Session;
            Ok(())
        }
        Event::MessageReceived { message, .. } => {
            open.hear(*message);
            Ok(())
        }
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
        Event::TurnRetried { turn, attempt } => {
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
        Event::WakeQueued { .. } | Event::WakeFellDue { .. } | Event::WakeCancelled { .. } => {
            apply_to_wake(open, event)
        }
        Event::LearningCaptured { .. } => Ok(()),
        Event::ChildStopped { child } => {
            open.abandoned.retain(|abandoned| abandoned != child);
            Ok(())
        }
        Event::ParentTold { turn } => {
            open.owed.take_if(|owed| *owed <= *turn);
            Ok(())
        }
        Event::GrantAdded { grant } => {
            open.grants.push(grant.clone());
            Ok(())
        }
        Event::GrantRevoked { grant, .. } => {
            open.grants.retain(|held| held.id != *grant);
            Ok(())
        }
        Event::ProviderResultIgnored { .. } => Ok(()),
        Event::CallProposed { call, provider_id, contract, arguments, .. } => {
            open.calls_in_run = open.calls_in_run.saturating_add(1);
            open.calls.push(Arc::new(Call::proposed(*call, provider_id, contract, arguments)));
            Ok(())
        }
        Event::CallRejected { name, rejection, .. } => {
            open.calls_in_run = open.calls_in_run.saturating_add(1);
            if open.config.on_misuse == MisuseRule::Fail && rejection.reason.is_misuse() {
                open.misuse = Some(format!("it asked for `{name}`: {}", rejection.message));
            }
            Ok(())
        }
        Event::CallAdmitted { .. }
        | Event::CallPreviewing { .. }
        | Event::CallSuspended { .. }
        | Event::CallResolved { .. }
        | Event::CallStarted { .. }
        | Event::CallRetryScheduled { .. }
        | Event::CallInterrupted { .. }
        | Event::CallVerified { .. }
        | Event::CallCancelling { .. }
        | Event::CallRedefined { .. }
        | Event::CallBarred { .. }
        | Event::CallDelegated { .. }
        | Event::CallFinished { .. } => apply_to_call(open, at, event),
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
    open.clock = None;
    open.owed = open.parent.map(|_| turn);
    if open.stopping == Stopping::Turn {
        open.stopping = Stopping::No;
    }
    Ok(())
}

fn current_turn(open: &Open, turn: u32) -> Evolved {
    if turn == open.turn { Ok(()) } else { Err("it belongs to another turn") }
}

fn apply_to_call(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    match event {
        Event::CallAdmitted { call, permit } => {
            if let Basis::Grant(used) = &permit.basis {
                spend(open, used);
            }
            let call = find(open, *call)?;
            let permit = permit.clone();
            call.phase = match call.phase {
                Phase::Proposed => Phase::Ready { permit, cause: StartCause::First, due: None },
                _ => return Err("the call was admitted before"),
            };
            Ok(())
        }
        Event::CallPreviewing { call, reason } => {
            let call = find(open, *call)?;
            call.recoveries += u32::from(matches!(call.phase, Phase::Previewing { .. }));
            call.phase = Phase::Previewing { reason: *reason };
            Ok(())
        }
        Event::CallSuspended { .. } => suspended(open, at, event),
        Event::CallResolved { call, round, resolution, by, decision } => {
            if let Decided::Granted { used } = decision {
                spend(open, used);
            }
            resolved(find(open, *call)?, at, *round, *resolution, by, decision)
        }
        Event::CallStarted { call, attempt, digest, .. } => {
            started(find(open, *call)?, at, *attempt, *digest)
        }
        Event::CallRetryScheduled { call, due, .. } => {
            let call = find(open, *call)?;
            let Phase::Running { permit, .. } = &call.phase else { return Err("it does not run") };
            let (permit, due) = (permit.clone(), Some(*due));
            call.phase = Phase::Ready { permit, cause: StartCause::Retry, due };
            Ok(())
        }
        Event::CallInterrupted { call, plan, .. } => interrupted(find(open, *call)?, *plan),
        Event::CallVerified { call, finding, .. } => verified(find(open, *call)?, *finding),
        Event::CallCancelling { call, .. } => cancelling(find(open, *call)?),
        Event::CallRedefined { call, contract, .. } => {
            find(open, *call)?.contract = Arc::clone(contract);
            Ok(())
        }
        Event::CallDelegated { call, delegation, .. } => {
            let call = find(open, *call)?;
            if !matches!(call.phase, Phase::Running { .. }) {
                return Err("it does not run");
            }
            call.child = Some(Arc::clone(delegation));
            Ok(())
        }
        Event::CallBarred { call, why } => {
            find(open, *call)?.barred = Some(why.clone());
            Ok(())
        }
        Event::CallFinished { outcome } => finished(open, outcome),
        Event::SessionOpened { .. }
        | Event::SessionReconfigured { .. }
        | Event::SessionInterrupted { .. }
        | Event::SessionEnding { .. }
        | Event::SessionEnded {}
        | Event::MessageReceived { .. }
        | Event::TurnStarted { .. }
        | Event::TurnRetried { .. }
        | Event::TurnAnswered { .. }
        | Event::TurnEnded { .. }
        | Event::ContextSummarised { .. }
        | Event::LoopDirected { .. }
        | Event::WakeQueued { .. }
        | Event::WakeFellDue { .. }
        | Event::WakeCancelled { .. }
        | Event::LearningCaptured { .. }
        | Event::ChildStopped { .. }
        | Event::ParentTold { .. }
        | Event::CallProposed { .. }
        | Event::CallRejected { .. }
        | Event::ProviderResultIgnored { .. }
        | Event::GrantAdded { .. }
        | Event::GrantRevoked { .. } => Err("it does not move a call"),
    }
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

fn find(open: &mut Open, id: CallId) -> Result<&mut Call, &'static str> {
    open.call_mut(id).ok_or("no such call in this turn")
}

fn spend(open: &mut Open, used: &GrantUse) {
    if let Some(held) = open.grants.iter_mut().find(|held| held.id == used.grant) {
        held.consume(used);
    }
    open.grants.retain(|held| !held.is_used_up());
}

fn suspended(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    let Event::CallSuspended { call, round, kind, expires_at, reason, preview } = event else {
        return Err("it is no suspension");
    };
    let call = find(open, *call)?;
    let (permit, since) = match &call.phase {
        Phase::Ready { permit, .. } => (Some(permit.clone()), at),
        Phase::Running { permit, started_at, .. } | Phase::Verifying { permit, started_at, .. } => {
            (Some(permit.clone()), *started_at)
        }
        Phase::Proposed | Phase::Previewing { .. } => (None, at),
        Phase::Waiting(suspension) => (suspension.permit.clone(), at),
        Phase::Cancelling { .. } | Phase::AtProvider { .. } | Phase::Settled { .. } => {
            return Err("it cannot wait any more");
        }
    };
    call.rounds = *round;
    call.phase = Phase::Waiting(Suspension {
        kind: *kind,
        round: *round,
        expires_at: *expires_at,
        reason: *reason,
        permit,
        fingerprint: preview.as_ref().map(|preview| preview.fingerprint),
        since,
    });
    Ok(())
}

fn resolved(
    call: &mut Call,
    at: Timestamp,
    round: u32,
    resolution: Option<ResolutionId>,
    by: &Actor,
    decision: &Decided,
) -> Evolved {
    let Phase::Waiting(suspension) = &call.phase else { return Err("it does not wait") };
    if suspension.round != round {
        return Err("it waits for another round");
    }
    let ready = |permit, cause| Some(Phase::Ready { permit, cause, due: None });
    let next = match decision {
        Decided::Approve { arguments, .. } => {
            if let Some(arguments) = arguments {
                call.arguments = arguments.clone();
            }
            let fingerprint = suspension.fingerprint;
            let basis = Basis::Approval { by: by.clone(), at, fingerprint };
            ready(Permit { digest: call.arguments.digest(), basis }, StartCause::First)
        }
        Decided::Granted { used } => {
            let basis = Basis::Grant(*used);
            ready(Permit { digest: call.arguments.digest(), basis }, StartCause::First)
        }
        Decided::RunAgain => {
            let permit = suspension.permit.clone().ok_or("nothing let it run before")?;
            ready(permit, StartCause::Settled)
        }
        Decided::Deny { .. }
        | Decided::Answer { .. }
        | Decided::Result { .. }
        | Decided::Happened { .. }
        | Decided::GiveUp
        | Decided::Expired
        | Decided::ClientGone => None,
    };
    call.decided.push(DecidedBy { resolution, by: by.clone(), kind: decision.kind(), at });
    if let Some(next) = next {
        call.phase = next;
    }
    Ok(())
}

fn started(call: &mut Call, at: Timestamp, attempt: u32, digest: Digest) -> Evolved {
    let Phase::Ready { permit, .. } = &call.phase else { return Err("nothing lets it run") };
    if permit.digest != digest || call.arguments.digest() != digest {
        return Err("the arguments are not those that were permitted");
    }
    let permit = permit.clone();
    call.attempts = attempt;
    call.phase = match call.contract.executor {
        Executor::Provider => Phase::AtProvider { since: at },
        Executor::Server | Executor::Human | Executor::Client => {
            Phase::Running { permit, attempt, started_at: at }
        }
    };
    Ok(())
}

fn cancelling(call: &mut Call) -> Evolved {
    let Phase::Running { attempt, started_at, .. } = call.phase else {
        return Err("it does not run");
    };
    call.phase = Phase::Cancelling { attempt, started_at };
    Ok(())
}

fn interrupted(call: &mut Call, plan: RecoveryPlan) -> Evolved {
    let (Phase::Running { permit, attempt, started_at }
    | Phase::Verifying { permit, attempt, started_at }) = &call.phase
    else {
        return Err("it does not run");
    };
    let (permit, attempt, started_at) = (permit.clone(), *attempt, *started_at);
    call.recoveries += 1;
    match plan {
        RecoveryPlan::Rerun => {
            call.phase = Phase::Ready { permit, cause: StartCause::Recovery, due: None };
        }
        RecoveryPlan::Verify => call.phase = Phase::Verifying { permit, attempt, started_at },
        RecoveryPlan::Ask | RecoveryPlan::Report => {}
    }
    Ok(())
}

fn verified(call: &mut Call, finding: VerifyFinding) -> Evolved {
    let Phase::Verifying { permit, .. } = &call.phase else { return Err("nothing is verified") };
    match finding {
        VerifyFinding::Absent => {
            let permit = permit.clone();
            call.phase = Phase::Ready { permit, cause: StartCause::Settled, due: None };
        }
        VerifyFinding::Applied | VerifyFinding::Unknown => {}
    }
    Ok(())
}

/// A program's turn stays open as long as anything waits, so its settled calls must not pile up.
fn forget_oldest(open: &mut Open) {
    let settled = |call: &Arc<Call>| !call.phase.is_open();
    if open.calls.iter().filter(|call| settled(call)).count() > RECENT_MAX
        && let Some(place) = open.calls.iter().position(settled)
    {
        open.forget(place);
    }
}

/// Returns the child of a call that ends without the child's own word.
fn abandoned_child(call: &Call) -> Option<SessionId> {
    let waits = matches!(&call.phase, Phase::Waiting(wait) if wait.kind == SuspensionKind::Child);
    let told = call.decided.last().is_some_and(|decided| decided.kind == DecidedKind::Result);
    call.child.as_ref().filter(|_| waits && !told).map(|delegation| delegation.child)
}

fn finished(open: &mut Open, outcome: &Outcome) -> Evolved {
    let effect = outcome.loop_effect();
    let call = find(open, outcome.call)?;
    if !call.phase.is_open() {
        return Err("the call has its outcome already");
    }
    let failed = match &outcome.result {
        CallResult::Ok(_) => None,
        CallResult::Err(failure) => Some(failure.class),
    };
    let abandoned = abandoned_child(call);
    call.phase = Phase::Settled { at: outcome.finished_at, effect, failed };
    open.abandoned.extend(abandoned);
    if open.config.driver == Driver::Caller {
        forget_oldest(open);
    }
    Ok(())
}
