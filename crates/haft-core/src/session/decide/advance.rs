//! After every input: start what may start, and end or continue the turn when nothing is open.

use std::cmp::Reverse;

use super::Draft;
use super::resolve::not_known;
use crate::id::CallId;
use crate::name::ToolName;
use crate::outcome::{ErrorClass, Failure, LoopEffect};
use crate::session::admission::Basis;
use crate::session::config::Driver;
use crate::session::effect::Effect;
use crate::session::event::{Event, TurnEnding};
use crate::session::input::SlotTaken;
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::{Activity, Call, Open, Phase, State, Stopping};
use crate::time::Timestamp;
use crate::tool::{Concurrency, Executor};

impl Draft {
    pub(super) fn advance(&mut self) -> Result<(), Refusal> {
        self.start_ready_calls()?;
        self.ring()?;
        self.close_turn()?;
        self.open_turn()?;
        self.run_errands();
        let State::Open(open) = &self.state else { return Ok(()) };
        if open.stopping == Stopping::Session && open.activity == Activity::Idle {
            return self.emit(Event::SessionEnded {});
        }
        Ok(())
    }

    fn start_ready_calls(&mut self) -> Result<(), Refusal> {
        let State::Open(open) = &self.state else { return Ok(()) };
        for call in startable(open, self.now) {
            match self.call(call)?.contract.pools.is_empty() {
                true => self.start(call)?,
                false => self.queue_call(call)?,
            }
        }
        Ok(())
    }

    /// Has a call wait for room in its pools, which are beyond the session.
    fn queue_call(&mut self, id: CallId) -> Result<(), Refusal> {
        let tool = &self.call(id)?.contract.tool;
        if let Some(failure) = self.no_longer_exposed(tool)? {
            return self.fail(id, failure);
        }
        self.emit(Event::CallQueued { call: id })?;
        self.effects.push(Effect::Queue { call: id });
        Ok(())
    }

    pub(super) fn take_slot(&mut self, taken: &SlotTaken) -> Result<(), Refusal> {
        match &self.call(taken.call)?.phase {
            phase if phase.is_queued() => self.start(taken.call),
            Phase::Settled { at, .. } => Err(Refusal::Stale(Stale::Finished { at: *at })),
            _ => Err(Refusal::Stale(Stale::OtherAttempt)),
        }
    }

    fn start(&mut self, id: CallId) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let Phase::Ready { permit, cause, .. } = &call.phase else { return Ok(()) };
        if let Some(failure) = self.no_longer_exposed(&call.contract.tool)? {
            return self.fail(id, failure);
        }
        let (attempt, digest, cause) = (call.attempts + 1, permit.digest, *cause);
        let fingerprint = match permit.basis {
            Basis::Approval { fingerprint, .. } => fingerprint,
            Basis::Policy | Basis::Grant(_) => None,
        };
        self.emit(Event::CallStarted { call: id, attempt, digest, cause })?;
        self.effects.push(Effect::Execute { call: id, attempt, digest, fingerprint });
        Ok(())
    }

    /// A tool that the session has lost meanwhile does not run, whoever had permitted it.
    pub(super) fn no_longer_exposed(&self, tool: &ToolName) -> Result<Option<Failure>, Refusal> {
        let permitted = self.require_open()?.config.exposure.permits(tool);
        let message = "not permitted: the session may not use this tool any more";
        Ok((!permitted).then(|| Failure::new(ErrorClass::Policy, message)))
    }

    /// Ends the turn when every call has its outcome. Calls at the provider do not hold it up:
    /// only the model's next answer can bring their results.
    fn close_turn(&mut self) -> Result<(), Refusal> {
        let State::Open(open) = &self.state else { return Ok(()) };
        let held_up = |phase: &Phase| phase.is_open() && !matches!(phase, Phase::AtProvider { .. });
        if open.activity != Activity::Acting || open.calls().any(|call| held_up(&call.phase)) {
            return Ok(());
        }
        let turn = open.turn;
        let Some(ending) = ending(open, self.events.as_slice()) else {
            return self.start_turn();
        };
        for call in self.calls_where(|call| call.phase.is_open()) {
            self.fail(call, not_known("the run ended before the provider told"))?;
        }
        self.emit(Event::TurnEnded { turn, ending })
    }

    fn open_turn(&mut self) -> Result<(), Refusal> {
        let State::Open(open) = &self.state else { return Ok(()) };
        let called = !open.inbox.is_empty() || !open.due.is_empty();
        let waiting = open.config.driver == Driver::Model && called;
        if !waiting || open.activity != Activity::Idle || open.stopping != Stopping::No {
            return Ok(());
        }
        self.start_turn()
    }

    /// Asks the model, with whatever has been said meanwhile.
    pub(super) fn start_turn(&mut self) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let (turn, messages) = (open.turn.saturating_add(1), open.inbox.clone());
        let mut due: Vec<_> = open.due.iter().map(|wake| (wake.priority, wake.id)).collect();
        due.sort_by_key(|(priority, _)| Reverse(*priority));
        let wakes = due.into_iter().map(|(_, id)| id).collect();
        self.emit(Event::TurnStarted { turn, messages, wakes })?;
        self.effects.push(Effect::RunModel { turn, attempt: 1 });
        Ok(())
    }
}

/// Returns the calls that may start beside what runs, in the order of proposal.
///
/// An exclusive call is a barrier: it waits for what runs, and what comes after it waits too. A
/// call that waits for a person holds nobody up.
fn startable(open: &Open, now: Timestamp) -> Vec<CallId> {
    let mut running = open.calls().filter(|call| occupies(&call.phase)).count();
    let exclusive =
        |call: &&Call| occupies(&call.phase) && call.contract.concurrency == Concurrency::Exclusive;
    if open.calls().any(|call| exclusive(&call)) {
        return Vec::new();
    }
    let mut starting = Vec::new();
    for call in open.calls() {
        let Phase::Ready { due, queued_at: None, .. } = &call.phase else { continue };
        if due.is_some_and(|due| due > now) {
            continue;
        }
        let alone = call.contract.concurrency == Concurrency::Exclusive;
        if running >= open.config.limits.parallel.max(1) as usize || (alone && running > 0) {
            break;
        }
        starting.push(call.id);
        running += 1;
        if alone {
            break;
        }
    }
    starting
}

fn occupies(phase: &Phase) -> bool {
    phase.is_queued()
        || matches!(
            phase,
            Phase::Running { .. } | Phase::Cancelling { .. } | Phase::Verifying { .. }
        )
}

/// Returns why the turn ends the run, or `None` when the model goes on.
fn ending(open: &Open, events: &[Event]) -> Option<TurnEnding> {
    if open.stopping != Stopping::No {
        return Some(TurnEnding::Interrupted);
    }
    let ends = |phase: &Phase| matches!(phase, Phase::Settled { effect: LoopEffect::End, .. });
    if open.calls().any(|call| ends(&call.phase)) {
        return Some(TurnEnding::Terminal);
    }
    if open.config.driver == Driver::Caller {
        return Some(TurnEnding::Settled);
    }
    if let Some(message) = &open.misuse {
        let failure = Failure::new(ErrorClass::InvalidArgs, message.clone());
        return Some(TurnEnding::Failed { failure });
    }
    if !has_something_to_hear(open, events) {
        return Some(TurnEnding::Completed);
    }
    reached_limit(open).map(|limit| TurnEnding::Limit { limit: limit.to_owned() })
}

/// Returns the limit that lets the run not go on. What the turn has begun has ended by now.
fn reached_limit(open: &Open) -> Option<&'static str> {
    let limits = &open.config.limits;
    if open.turns_in_run >= limits.turns_per_run {
        Some("turns_per_run")
    } else if open.calls_in_run >= limits.calls_per_run {
        Some("calls_per_run")
    } else if limits.tokens_per_run.is_some_and(|max| open.tokens_in_run >= max) {
        Some("tokens_per_run")
    } else if limits.time_per_run.is_some_and(|max| open.worked() >= max) {
        Some("time_per_run")
    } else {
        None
    }
}

/// Returns whether the turn gave something that the model has not heard. What its provider ran
/// it knows, unless the result is still to come. Rejected calls are not kept in the state; a turn
/// without any kept call closes within the very decision that answered it, so they are among its
/// events.
fn has_something_to_hear(open: &Open, events: &[Event]) -> bool {
    let unheard =
        |call: &Call| call.contract.executor != Executor::Provider || call.phase.is_open();
    open.calls().any(unheard)
        || events.iter().any(|event| matches!(event, Event::CallRejected { .. }))
}
