//! After every input: start what may start, and end or continue the turn when nothing is open.

use super::Draft;
use super::resolve::not_known;
use crate::id::CallId;
use crate::outcome::LoopEffect;
use crate::session::admission::Basis;
use crate::session::config::Driver;
use crate::session::effect::Effect;
use crate::session::event::{Event, TurnEnding};
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Call, Open, Phase, State, Stopping};
use crate::time::Timestamp;
use crate::tool::Concurrency;

impl Draft {
    pub(super) fn advance(&mut self) -> Result<(), Refusal> {
        self.start_ready_calls()?;
        self.close_turn()?;
        self.open_turn()?;
        let State::Open(open) = &self.state else { return Ok(()) };
        if open.stopping == Stopping::Session && open.activity == Activity::Idle {
            return self.emit(Event::SessionEnded {});
        }
        Ok(())
    }

    fn start_ready_calls(&mut self) -> Result<(), Refusal> {
        let State::Open(open) = &self.state else { return Ok(()) };
        for call in startable(open, self.now) {
            self.start(call)?;
        }
        Ok(())
    }

    fn start(&mut self, id: CallId) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let Phase::Ready { permit, cause, .. } = &call.phase else { return Ok(()) };
        let (attempt, digest, cause) = (call.attempts + 1, permit.digest, *cause);
        let fingerprint = match permit.basis {
            Basis::Approval { fingerprint, .. } => fingerprint,
            Basis::Policy | Basis::Grant(_) => None,
        };
        self.emit(Event::CallStarted { call: id, attempt, digest, cause })?;
        self.effects.push(Effect::Execute { call: id, attempt, digest, fingerprint });
        Ok(())
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
            let messages = open.inbox.clone();
            self.emit(Event::TurnStarted { turn: turn + 1, messages })?;
            self.effects.push(Effect::RunModel { turn: turn + 1, attempt: 1 });
            return Ok(());
        };
        for call in self.calls_where(|call| call.phase.is_open()) {
            self.fail(call, not_known("the run ended before the provider told"))?;
        }
        self.emit(Event::TurnEnded { turn, ending })
    }

    fn open_turn(&mut self) -> Result<(), Refusal> {
        let State::Open(open) = &self.state else { return Ok(()) };
        let waiting = open.config.driver == Driver::Model && !open.inbox.is_empty();
        if !waiting || open.activity != Activity::Idle || open.stopping != Stopping::No {
            return Ok(());
        }
        let (turn, messages) = (open.turn + 1, open.inbox.clone());
        self.emit(Event::TurnStarted { turn, messages })?;
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
        let Phase::Ready { due, .. } = &call.phase else { continue };
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
    matches!(phase, Phase::Running { .. } | Phase::Cancelling { .. } | Phase::Verifying { .. })
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
    let said_its_last_word = open.calls().next().is_none() && !rejected_any(events);
    if said_its_last_word {
        return Some(TurnEnding::Completed);
    }
    let limits = &open.config.limits;
    if open.turns_in_run >= limits.turns_per_run {
        return Some(TurnEnding::Limit { limit: "turns_per_run".to_owned() });
    }
    if open.calls_in_run >= limits.calls_per_run {
        return Some(TurnEnding::Limit { limit: "calls_per_run".to_owned() });
    }
    None
}

/// Rejected calls are not kept in the state, but the model must hear of them. A turn without
/// any kept call closes within the very decision that answered it, so they are among its events.
fn rejected_any(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::CallRejected { .. }))
}
