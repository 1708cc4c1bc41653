//! Attempts of which nobody knows whether they took effect, and revival, which finds those of a
//! process that is gone.
//!
//! Nothing is silently run twice, and nothing silently dropped. A call that was started is run
//! again if it only looks or is recognised by its key, settled by its verify hook if it has one,
//! and otherwise parked for a person. A call that someone told to stop is not run again.

use super::Draft;
use super::resolve::not_known;
use crate::digest::Digest;
use crate::id::CallId;
use crate::outcome::{ErrorClass, Failure};
use crate::session::effect::Effect;
use crate::session::event::{Event, RecoveryPlan};
use crate::session::input::{EffectUnknown, ModelFailed};
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Call, Phase, Stopping};
use crate::session::suspension::{Preview, SuspendReason, SuspensionKind};
use crate::tool::Recovery;

/// A call that keeps killing its process is not run for ever.
const RECOVERIES_MAX: u32 = 3;

/// How many attempts a call has, the first included, when one ended without a result in a process
/// that goes on. A tool that declares more attempts has those.
const ATTEMPTS_MAX: u32 = 2;

/// Nor is a model asked for ever whose answer does.
const TURN_ATTEMPTS_MAX: u32 = 5;

impl Draft {
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if let Activity::Thinking { attempt } = open.activity {
            let (turn, attempt) = (open.turn, attempt + 1);
            if attempt > TURN_ATTEMPTS_MAX {
                let message = "asking the model ended its process every time";
                let failure = Failure::new(ErrorClass::Internal, message);
                return self.take_model_failure(ModelFailed {
                    turn,
                    attempt: attempt - 1,
                    failure,
                    broke_off: false,
                });
            }
            self.emit(Event::TurnRetried { turn, attempt, failure: None })?;
            self.effects.push(Effect::RunModel { turn, attempt });
        }
        for call in self.calls_where(|call| call.phase.is_open()) {
            self.recover_call(call)?;
        }
        Ok(())
    }

    fn recover_call(&mut self, id: CallId) -> Result<(), Refusal> {
        match self.call(id)?.phase {
            Phase::Running { attempt, .. }
            | Phase::Verifying { attempt, .. }
            | Phase::Cancelling { attempt, .. } => self.interrupt_attempt(id, attempt, None),
            Phase::Previewing { reason } => self.recover_preview(id, reason),
            Phase::Ready { due: Some(due), .. } if due > self.now => {
                self.effects.push(Effect::ScheduleRetry { call: id, due });
                Ok(())
            }
            Phase::Ready { queued_at: Some(_), .. } => {
                self.effects.push(Effect::Queue { call: id });
                Ok(())
            }
            Phase::Waiting(_) => self.recover_child(id),
            Phase::Proposed
            | Phase::Ready { .. }
            | Phase::AtProvider { .. }
            | Phase::Settled { .. } => Ok(()),
        }
    }

    fn recover_preview(&mut self, id: CallId, reason: SuspendReason) -> Result<(), Refusal> {
        if self.call(id)?.recoveries < RECOVERIES_MAX {
            self.effects.push(Effect::Preview { call: id });
            return self.emit(Event::CallPreviewing { call: id, reason });
        }
        let trouble = Some("making the preview ended its process every time".to_owned());
        let preview =
            Preview { fingerprint: Digest::ZERO, targets: Vec::new(), diff: None, trouble };
        self.suspend(id, SuspensionKind::Approval, reason, Some(preview))
    }

    /// Does what can be done about an attempt that ended without a result: so, or with its
    /// process.
    pub(super) fn interrupt_attempt(
        &mut self,
        id: CallId,
        attempt: u32,
        unknown: Option<EffectUnknown>,
    ) -> Result<(), Refusal> {
        let may_still_run = unknown.as_ref().is_some_and(|unknown| unknown.may_still_run);
        let failure = unknown.map(|unknown| unknown.failure);
        let plan = self.recovery_plan(self.call(id)?, failure.as_ref())?;
        let known = what_is_known(self.call(id)?, failure.as_ref());
        self.emit(Event::CallInterrupted { call: id, attempt, plan, failure, may_still_run })?;
        match plan {
            RecoveryPlan::Rerun => Ok(()),
            RecoveryPlan::Verify => {
                self.effects.push(Effect::Verify { call: id, attempt });
                Ok(())
            }
            RecoveryPlan::Ask => {
                self.suspend(id, SuspensionKind::Settlement, SuspendReason::InDoubt, None)
            }
            RecoveryPlan::Report => self.fail(id, known),
        }
    }

    fn recovery_plan(
        &self,
        call: &Call,
        failure: Option<&Failure>,
    ) -> Result<RecoveryPlan, Refusal> {
        if self.require_open()?.stopping != Stopping::No {
            return Ok(RecoveryPlan::Report);
        }
        let was_cancelled = call.phase.was_cancelled();
        let only_reads = call.contract.only_reads();
        let repeats = !was_cancelled
            && call.recoveries < RECOVERIES_MAX
            && match failure {
                None => true,
                Some(failure) => {
                    let most = call.contract.retry.max_attempts.max(ATTEMPTS_MAX);
                    let is_worth_it = !only_reads || may_pass(failure.class);
                    is_worth_it && call.attempts < most && self.may_try_again()?
                }
            };
        let asks_hook = call.recoveries < RECOVERIES_MAX && call.phase.permit().is_some();
        Ok(match call.contract.recovery {
            Recovery::Rerun | Recovery::RerunKeyed if repeats => RecoveryPlan::Rerun,
            Recovery::Verify if asks_hook => RecoveryPlan::Verify,
            Recovery::Rerun if only_reads && (was_cancelled || failure.is_some()) => {
                RecoveryPlan::Report
            }
            Recovery::Rerun | Recovery::RerunKeyed | Recovery::Verify | Recovery::Ask => {
                RecoveryPlan::Ask
            }
        })
    }
}

/// Returns the outcome of a call about which nothing more is done. Only of a tool that reads is it
/// known that nothing has changed.
fn what_is_known(call: &Call, failure: Option<&Failure>) -> Failure {
    let only_reads = call.contract.only_reads();
    match failure {
        Some(failure) if only_reads => failure.clone(),
        None if only_reads => Failure::new(ErrorClass::Cancelled, "[cancelled]"),
        Some(Failure { message, debug, partial, .. }) => {
            let why = format!("{message}; the session was stopped before anyone found out");
            Failure { debug: debug.clone(), partial: partial.clone(), ..not_known(&why) }
        }
        None if call.phase.was_cancelled() => {
            not_known("its process ended while it was being stopped")
        }
        None => not_known("its process ended after the session was stopped"),
    }
}

/// Returns whether what reads may give a result when it is tried once more.
fn may_pass(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Timeout | ErrorClass::Interrupted | ErrorClass::Upstream)
}
