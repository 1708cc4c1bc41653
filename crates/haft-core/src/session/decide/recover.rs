//! Revival: what was running in a process that is gone.
//!
//! Nothing is silently run twice, and nothing silently dropped. A call that was started is run
//! again if it only looks or is recognised by its key, settled by its verify hook if it has one,
//! and otherwise parked for a person.

use super::Draft;
use super::resolve::not_known;
use crate::digest::Digest;
use crate::id::CallId;
use crate::outcome::{ErrorClass, Failure};
use crate::session::effect::Effect;
use crate::session::event::{Event, RecoveryPlan};
use crate::session::input::ModelFailed;
use crate::session::refusal::Refusal;
use crate::session::state::{Activity, Phase, Stopping};
use crate::session::suspension::{Preview, SuspendReason, SuspensionKind};
use crate::tool::Recovery;

/// A call that keeps killing its process is not run for ever.
const RECOVERIES_MAX: u32 = 3;

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
            Phase::Running { attempt, .. } => self.recover_attempt(id, attempt),
            Phase::Cancelling { .. } => {
                self.fail(id, not_known("its process ended while it was being stopped"))
            }
            Phase::Verifying { attempt, .. } => self.recover_attempt(id, attempt),
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

    fn recover_attempt(&mut self, id: CallId, attempt: u32) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let recovery = call.contract.recovery;
        let plan = if self.require_open()?.stopping != Stopping::No {
            RecoveryPlan::Report
        } else if call.recoveries >= RECOVERIES_MAX {
            RecoveryPlan::Ask
        } else {
            match recovery {
                Recovery::Rerun | Recovery::RerunKeyed => RecoveryPlan::Rerun,
                Recovery::Verify => RecoveryPlan::Verify,
                Recovery::Ask => RecoveryPlan::Ask,
            }
        };
        self.emit(Event::CallInterrupted { call: id, attempt, plan })?;
        match plan {
            RecoveryPlan::Rerun => Ok(()),
            RecoveryPlan::Verify => {
                self.effects.push(Effect::Verify { call: id, attempt });
                Ok(())
            }
            RecoveryPlan::Ask => {
                self.suspend(id, SuspensionKind::Settlement, SuspendReason::InDoubt, None)
            }
            RecoveryPlan::Report if recovery == Recovery::Rerun => {
                self.fail(id, Failure::new(ErrorClass::Cancelled, "[cancelled]"))
            }
            RecoveryPlan::Report => {
                self.fail(id, not_known("its process ended after the session was stopped"))
            }
        }
    }
}
