//! What an event does to a call.

use std::sync::Arc;

use super::Evolved;
use crate::actor::Actor;
use crate::digest::Digest;
use crate::id::{CallId, ResolutionId, SessionId};
use crate::outcome::{CallResult, Outcome};
use crate::permission::GrantUse;
use crate::session::admission::{Approved, Basis, Permit};
use crate::session::child::Delegation;
use crate::session::config::{Driver, MisuseRule};
use crate::session::event::{Event, RecoveryPlan, StartCause, VerifyFinding};
use crate::session::state::{Call, DecidedBy, OnAbsent, Open, Phase, RECENT_MAX};
use crate::session::suspension::{Decided, DecidedKind, Suspension, SuspensionKind};
use crate::time::Timestamp;
use crate::tool::Executor;

pub(super) fn apply(open: &mut Open, at: Timestamp, event: &Event) -> Evolved {
    match event {
        Event::CallProposed { call, provider_id, contract, arguments, .. } => {
            open.calls_in_run = open.calls_in_run.saturating_add(1);
            open.calls.push(Arc::new(Call::proposed(*call, provider_id, contract, arguments)));
            count_spending(open, *call)
        }
        Event::CallRejected { name, rejection, .. } => {
            open.calls_in_run = open.calls_in_run.saturating_add(1);
            if open.config.on_misuse == MisuseRule::Fail && rejection.reason.is_misuse() {
                open.misuse = Some(format!("it asked for `{name}`: {}", rejection.message));
            }
            Ok(())
        }
        Event::CallAdmitted { call, permit } => admitted(open, *call, permit),
        Event::CallPreviewing { call, reason } => {
            let call = find(open, *call)?;
            call.recoveries += u32::from(matches!(call.phase, Phase::Previewing { .. }));
            call.phase = Phase::Previewing { reason: *reason };
            Ok(())
        }
        Event::CallSuspended { .. } => suspended(open, at, event),
        Event::CallEndorsed { call, round, resolution, by, .. } => {
            endorsed(find(open, *call)?, at, *round, *resolution, by)
        }
        Event::CallResolved { call, round, resolution, by, decision } => {
            if let Decided::Granted { used } = decision {
                spend(open, used);
            }
            resolved(find(open, *call)?, at, *round, *resolution, by, decision)?;
            count_spending(open, *call)
        }
        Event::CallQueued { call } => queued(find(open, *call)?, at),
        Event::CallStarted { call, attempt, digest, .. } => {
            started(find(open, *call)?, at, *attempt, *digest)
        }
        Event::CallRetryScheduled { call, due, .. } => {
            open.retries_in_run = open.retries_in_run.saturating_add(1);
            retry(find(open, *call)?, *due)
        }
        Event::CallInterrupted { call, plan, failure, may_still_run, .. } => {
            let repeats = failure.is_some() && *plan == RecoveryPlan::Rerun;
            open.retries_in_run = open.retries_in_run.saturating_add(u32::from(repeats));
            let call = find(open, *call)?;
            // A verification that was cut short leaves open what the attempt left open.
            if let Some(failure) = failure {
                call.in_doubt_because = Some(failure.message.clone());
            }
            interrupted(call, *plan, *may_still_run)
        }
        Event::CallVerified { call, finding, .. } => verified(find(open, *call)?, *finding),
        Event::CallCancelling { call, .. } => cancelling(find(open, *call)?),
        Event::CallRedefined { call, contract, .. } => {
            find(open, *call)?.contract = Arc::clone(contract);
            count_spending(open, *call)
        }
        Event::CallDelegated { call, delegation, .. } => delegated(open, *call, delegation),
        Event::CallBarred { call, why } => {
            find(open, *call)?.barred = Some(why.clone());
            Ok(())
        }
        Event::CallFinished { outcome } => finished(open, outcome),
        _ => Err("it does not move a call"),
    }
}

fn find(open: &mut Open, id: CallId) -> Result<&mut Call, &'static str> {
    open.call_mut(id).ok_or("no such call in this turn")
}

fn place(open: &Open, id: CallId) -> Result<usize, &'static str> {
    open.calls.iter().position(|call| call.id == id).ok_or("no such call in this turn")
}

fn count_spending(open: &mut Open, call: CallId) -> Evolved {
    let place = place(open, call)?;
    open.count_spending(place);
    Ok(())
}

fn admitted(open: &mut Open, call: CallId, permit: &Permit) -> Evolved {
    if let Basis::Grant(used) = &permit.basis {
        spend(open, used);
    }
    let call = find(open, call)?;
    let permit = permit.clone();
    call.phase = match call.phase {
        Phase::Proposed => Phase::ready(permit, StartCause::First),
        _ => return Err("the call was admitted before"),
    };
    Ok(())
}

fn retry(call: &mut Call, due: Timestamp) -> Evolved {
    let Phase::Running { permit, .. } = &call.phase else { return Err("it does not run") };
    let (permit, due) = (permit.clone(), Some(due));
    call.phase = Phase::Ready { permit, cause: StartCause::Retry, due, queued_at: None };
    Ok(())
}

fn delegated(open: &mut Open, call: CallId, delegation: &Arc<Delegation>) -> Evolved {
    let call = find(open, call)?;
    if !matches!(call.phase, Phase::Running { .. }) {
        return Err("it does not run");
    }
    call.child = Some(Arc::clone(delegation));
    open.count_child(&delegation.config.limits);
    Ok(())
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
        Phase::Cancelling { permit, started_at, .. } => (permit.clone(), *started_at),
        Phase::Waiting(suspension) => (suspension.permit.clone(), at),
        Phase::AtProvider { .. } | Phase::Settled { .. } => return Err("it cannot wait any more"),
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
        endorsed: Vec::new(),
    });
    Ok(())
}

fn endorsed(
    call: &mut Call,
    at: Timestamp,
    round: u32,
    resolution: ResolutionId,
    by: &Actor,
) -> Evolved {
    let Phase::Waiting(suspension) = &mut call.phase else { return Err("it does not wait") };
    if suspension.round != round {
        return Err("it waits for another round");
    }
    let (resolution, by, kind) = (Some(resolution), by.clone(), DecidedKind::Approve);
    suspension.endorsed.push(DecidedBy { resolution, by, kind, at });
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
    let ready = |permit, cause| Some(Phase::ready(permit, cause));
    let next = match decision {
        Decided::Approve { arguments, .. } => {
            if suspension.endorsed.len() + 1 < call.contract.gate.n_approvals() {
                return Err("it needs another person's yes");
            }
            let approved = match arguments {
                Some(edited) => {
                    call.arguments = edited.clone();
                    Approved::Edited
                }
                None => Approved::Shown,
            };
            let (by, fingerprint) = (by.clone(), suspension.fingerprint);
            let basis = Basis::Approval { by, at, fingerprint, arguments: approved };
            ready(Permit { digest: call.arguments.digest(), basis }, StartCause::First)
        }
        Decided::Granted { used } => {
            let basis = Basis::Grant(*used);
            ready(Permit { digest: call.arguments.digest(), basis }, StartCause::First)
        }
        Decided::RunAgain => match suspension.permit.clone() {
            Some(permit) => ready(permit, StartCause::Settled),
            // In the backup nobody had approved it yet, so it is asked about.
            None => Some(Phase::Proposed),
        },
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

fn queued(call: &mut Call, at: Timestamp) -> Evolved {
    match &mut call.phase {
        Phase::Ready { queued_at: queued @ None, .. } => {
            *queued = Some(at);
            Ok(())
        }
        Phase::Ready { .. } => Err("it is queued already"),
        _ => Err("nothing lets it run"),
    }
}

fn started(call: &mut Call, at: Timestamp, attempt: u32, digest: Digest) -> Evolved {
    let Phase::Ready { permit, .. } = &call.phase else { return Err("nothing lets it run") };
    if permit.digest != digest || call.arguments.digest() != digest {
        return Err("the arguments are not those that were permitted");
    }
    let permit = permit.clone();
    call.attempts = attempt;
    call.in_doubt_because = None;
    call.phase = match call.contract.executor {
        Executor::Provider => Phase::AtProvider { since: at },
        Executor::Server | Executor::Human | Executor::Client => {
            Phase::Running { permit, attempt, started_at: at }
        }
    };
    Ok(())
}

fn cancelling(call: &mut Call) -> Evolved {
    let Phase::Running { permit, attempt, started_at } = &call.phase else {
        return Err("it does not run");
    };
    let (permit, attempt, started_at) = (Some(permit.clone()), *attempt, *started_at);
    call.phase = Phase::Cancelling { attempt, started_at, permit };
    Ok(())
}

fn interrupted(call: &mut Call, plan: RecoveryPlan, may_still_run: bool) -> Evolved {
    let (Phase::Running { attempt, started_at, .. }
    | Phase::Verifying { attempt, started_at, .. }
    | Phase::Cancelling { attempt, started_at, .. }) = &call.phase
    else {
        return Err("it does not run");
    };
    let (attempt, started_at) = (*attempt, *started_at);
    let permit = call.phase.permit().cloned();
    let on_absent = match call.phase {
        Phase::Verifying { on_absent, .. } => on_absent,
        _ if may_still_run => OnAbsent::Ask,
        Phase::Cancelling { .. } => OnAbsent::Cancel,
        _ => OnAbsent::RunAgain,
    };
    call.recoveries += 1;
    let permitted = || permit.ok_or("nothing lets it run");
    match plan {
        RecoveryPlan::Rerun => {
            let permit = permitted()?;
            call.phase = Phase::ready(permit, StartCause::Recovery);
        }
        RecoveryPlan::Verify => {
            let permit = permitted()?;
            call.phase = Phase::Verifying { permit, attempt, started_at, on_absent };
        }
        RecoveryPlan::Ask | RecoveryPlan::Report => {}
    }
    Ok(())
}

fn verified(call: &mut Call, finding: VerifyFinding) -> Evolved {
    let Phase::Verifying { permit, on_absent, .. } = &call.phase else {
        return Err("nothing is verified");
    };
    if finding == VerifyFinding::Absent && *on_absent == OnAbsent::RunAgain {
        let permit = permit.clone();
        call.phase = Phase::ready(permit, StartCause::Settled);
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
    let place = place(open, outcome.call)?;
    open.settle_spending(place);
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
