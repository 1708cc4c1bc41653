//! A store that was put back from a backup: what was open then may have happened since.
//!
//! Nobody knows what went on between the backup and now. So nothing that could have an effect goes
//! on by itself: a call that was open is in doubt, and a run in which the model would be asked next
//! is over until someone speaks. A call that only looks is repeated like after a crash.

use super::Draft;
use super::resolve::not_known;
use crate::actor::Actor;
use crate::id::{CallId, WakeId};
use crate::outcome::{ErrorClass, Failure};
use crate::session::config::Driver;
use crate::session::event::{Event, InterruptCause, RecoveryPlan, TurnEnding};
use crate::session::input::Restored;
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Call, Phase, Stopping};
use crate::session::suspension::{SuspendReason, SuspensionKind};
use crate::tool::{Mutates, Recovery};

const NOTE: &str = "the store was restored from a backup; what happened since is not known";

impl Draft {
    pub(super) fn restore(&mut self, restored: Restored) -> Result<(), Refusal> {
        self.require_open()?;
        let Restored { by, backed_up_at } = restored;
        self.emit(Event::SessionRestored { by: by.clone(), backed_up_at })?;
        if self.require_open()?.stopping == Stopping::No {
            for call in self.calls_where(|call| call.phase.is_open()) {
                self.restore_call(call)?;
            }
        }
        self.end_restored_run(&by)?;
        self.cancel_missed_wakes(&by)
    }

    fn restore_call(&mut self, id: CallId) -> Result<(), Refusal> {
        let call = self.call(id)?;
        match &call.phase {
            Phase::Running { .. } | Phase::Verifying { .. } | Phase::Ready { .. }
                if only_looks(call) =>
            {
                Ok(())
            }
            Phase::Running { attempt, .. } | Phase::Verifying { attempt, .. } => {
                let (attempt, plan) = (*attempt, RecoveryPlan::Ask);
                self.emit(Event::CallInterrupted {
                    call: id,
                    attempt,
                    plan,
                    failure: None,
                    may_still_run: false,
                })?;
                self.doubt(id, SuspensionKind::Settlement)
            }
            Phase::Waiting(wait) if wait.kind == SuspensionKind::Elicitation => {
                self.doubt(id, SuspensionKind::Elicitation)
            }
            Phase::Waiting(wait) if wait.kind == SuspensionKind::ClientExec && only_looks(call) => {
                self.doubt(id, SuspensionKind::ClientExec)
            }
            Phase::Waiting(_) | Phase::Previewing { .. } | Phase::Ready { .. } => {
                self.doubt(id, SuspensionKind::Settlement)
            }
            Phase::Proposed
            | Phase::Cancelling { .. }
            | Phase::AtProvider { .. }
            | Phase::Settled { .. } => Ok(()),
        }
    }

    /// Waits anew, so that whoever decides knows why, and has the whole time for it.
    fn doubt(&mut self, id: CallId, kind: SuspensionKind) -> Result<(), Refusal> {
        self.suspend(id, kind, SuspendReason::Restored, None)
    }

    /// Ends a run in which the model would be asked next without anybody having said so.
    fn end_restored_run(&mut self, by: &Actor) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let called = !open.inbox.is_empty() || !open.due.is_empty();
        match open.activity {
            _ if open.config.driver == Driver::Caller => return Ok(()),
            Activity::Idle if !called => return Ok(()),
            // Whoever is asked decides that it goes on.
            Activity::Acting if open.waiting().next().is_some() => return Ok(()),
            Activity::Thinking { .. } | Activity::Acting => {}
            Activity::Idle => {
                let (turn, messages) = (open.turn.saturating_add(1), open.inbox.clone());
                let wakes = open.due.iter().map(|wake| wake.id).collect();
                self.emit(Event::TurnStarted { turn, messages, wakes })?;
            }
        }
        let (note, cause) = (Some(NOTE.to_owned()), InterruptCause::Asked);
        self.emit(Event::SessionInterrupted { by: by.clone(), note, cause })?;
        for call in self.calls_where(|call| call.phase.is_open()) {
            self.stop_restored(call)?;
        }
        // What a process may have been running ends when the session is revived, and the turn with it.
        if !self.calls_where(|call| call.phase.is_open()).is_empty() {
            return Ok(());
        }
        let turn = self.require_open()?.turn;
        self.emit(Event::TurnEnded { turn, ending: TurnEnding::Interrupted })
    }

    /// Ends a call of a run that is over, unless a process may have been running it.
    fn stop_restored(&mut self, id: CallId) -> Result<(), Refusal> {
        match self.call(id)?.phase {
            Phase::Running { .. } | Phase::Verifying { .. } | Phase::Cancelling { .. } => Ok(()),
            Phase::AtProvider { .. } => self.fail(id, not_known(NOTE)),
            Phase::Proposed
            | Phase::Previewing { .. }
            | Phase::Waiting(_)
            | Phase::Ready { .. }
            | Phase::Settled { .. } => {
                let message = format!("[cancelled] {NOTE}");
                self.fail(id, Failure::new(ErrorClass::Cancelled, message))
            }
        }
    }

    /// A wake whose time has passed was probably answered before the store was put back.
    fn cancel_missed_wakes(&mut self, by: &Actor) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let passed = open.wakes.iter().filter(|wake| wake.due <= self.now);
        let missed: Vec<WakeId> = passed.chain(&open.due).map(|wake| wake.id).collect();
        for wake in missed {
            self.emit(Event::WakeCancelled { wake, by: by.clone() })?;
        }
        Ok(())
    }
}

/// Returns whether a call changes nothing, so that running it once more is harmless however much
/// time has passed. A key, or that repeating changes nothing, is no such promise: keys are
/// forgotten, and others may have changed the same thing since.
fn only_looks(call: &Call) -> bool {
    call.contract.mutates == Mutates::None && call.contract.recovery == Recovery::Rerun
}
