//! Previews, attempts and retries: what comes back from running things.

use serde_json::Value;

use super::Draft;
use crate::id::CallId;
use crate::json::{DEPTH_MAX, is_deeper_than};
use crate::outcome::{CallResult, ContentBlock, ErrorClass, Failure, Outcome, Output, Provenance};
use crate::session::admission::{Approved, Basis};
use crate::session::effect::Effect;
use crate::session::event::{Event, VerifyFinding};
use crate::session::input::{
    AttemptEnded, AttemptReport, EffectUnknown, Previewed, RetryDue, Returned, Verification,
    Verified,
};
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::{Call, OnAbsent, Phase, Stopping};
use crate::session::suspension::{Preview, SuspendReason, SuspensionKind};
use crate::time::{Millis, Timestamp};

impl Draft {
    pub(super) fn take_preview(&mut self, previewed: Previewed) -> Result<(), Refusal> {
        let call = self.call(previewed.call)?;
        let Phase::Previewing { reason } = call.phase else {
            return Err(Refusal::Stale(Stale::OtherAttempt));
        };
        let kind = SuspensionKind::Approval;
        self.suspend(previewed.call, kind, reason, Some(previewed.preview))?;
        self.apply_grants()
    }

    pub(super) fn take_attempt(&mut self, ended: AttemptEnded) -> Result<(), Refusal> {
        let call = self.call(ended.call)?;
        let current = match &call.phase {
            Phase::Running { attempt, .. } | Phase::Cancelling { attempt, .. } => Some(*attempt),
            // The process was not dead but slow: its word settles the doubt better than a guess.
            Phase::Waiting(wait) if wait.kind == SuspensionKind::Settlement => Some(call.attempts),
            Phase::Settled { at, .. } => {
                return Err(Refusal::Stale(Stale::Finished { at: *at }));
            }
            Phase::Proposed
            | Phase::Previewing { .. }
            | Phase::Waiting(_)
            | Phase::Ready { .. }
            | Phase::Verifying { .. }
            | Phase::AtProvider { .. } => None,
        };
        if current != Some(ended.attempt) {
            return Err(Refusal::Stale(Stale::OtherAttempt));
        }
        match ended.report {
            AttemptReport::Returned(returned) => {
                self.take_return(ended.call, ended.attempt, bounded(returned))
            }
            AttemptReport::WorldMoved { preview } => self.ask_again(ended.call, preview),
            AttemptReport::Delegated(delegation) => {
                self.delegate(ended.call, ended.attempt, *delegation)
            }
            AttemptReport::EffectUnknown(unknown) => {
                self.take_unknown(ended.call, ended.attempt, shallow(unknown))
            }
        }
    }

    /// Takes in that nobody can say whether an attempt took effect. A tool that declares a retry
    /// is tried again as it declares; everything else goes the way of a crash.
    fn take_unknown(
        &mut self,
        id: CallId,
        attempt: u32,
        unknown: EffectUnknown,
    ) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let wait = match &call.phase {
            // It waits for a person already, who learns nothing from this.
            Phase::Waiting(_) => return Ok(()),
            Phase::Running { .. } if self.may_try_again()? => {
                call.contract.retry.wait_after(attempt, unknown.failure.class)
            }
            _ => None,
        };
        match wait {
            Some(wait) => self.retry_after(wait, id, attempt, unknown.failure),
            None => self.interrupt_attempt(id, attempt, Some(unknown)),
        }
    }

    fn retry_after(
        &mut self,
        wait: Millis,
        call: CallId,
        attempt: u32,
        failure: Failure,
    ) -> Result<(), Refusal> {
        let due = self.now + wait;
        self.effects.push(Effect::ScheduleRetry { call, due });
        self.emit(Event::CallRetryScheduled { call, attempt, failure, due })
    }

    fn take_return(&mut self, id: CallId, attempt: u32, returned: Returned) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let runs = matches!(call.phase, Phase::Running { .. });
        let wait = match &returned.result {
            CallResult::Err(failure) if runs && self.may_try_again()? => {
                call.contract.retry.wait_after(attempt, failure.class)
            }
            CallResult::Ok(_) | CallResult::Err(_) => None,
        };
        match (wait, returned.result) {
            (Some(wait), CallResult::Err(failure)) => self.retry_after(wait, id, attempt, failure),
            (_, result) => self.finish(id, Returned { result, ..returned }, None),
        }
    }

    pub(super) fn may_try_again(&self) -> Result<bool, Refusal> {
        let open = self.require_open()?;
        let most = open.config.limits.retries_per_run;
        Ok(open.stopping == Stopping::No && most.is_none_or(|most| open.retries_in_run < most))
    }

    /// What would run is not what the approver was shown: the world moved, or they edited the
    /// arguments. So they see the difference. Someone who has meanwhile stopped the session is
    /// not asked.
    fn ask_again(&mut self, id: CallId, preview: Preview) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let reason = match &call.phase {
            Phase::Running { permit, .. } => match permit.basis {
                Basis::Approval { arguments: Approved::Shown, .. } => {
                    Some(SuspendReason::WorldMoved)
                }
                Basis::Approval { arguments: Approved::Edited, .. } => Some(SuspendReason::Edited),
                Basis::Policy | Basis::Grant(_) => None,
            },
            _ => None,
        };
        let asks = self.require_open()?.stopping == Stopping::No;
        if let Some(reason) = reason.filter(|_| asks) {
            return self.suspend(id, SuspensionKind::Approval, reason, Some(preview));
        }
        let message = "not run: what it would change is not what was approved";
        self.fail(id, Failure::new(ErrorClass::Cancelled, message))
    }

    pub(super) fn take_retry(&mut self, due: &RetryDue) -> Result<(), Refusal> {
        match &self.call(due.call)?.phase {
            Phase::Ready { due: Some(at), .. } if *at > self.now => {
                Err(Refusal::NotDue { due: *at })
            }
            Phase::Ready { .. } => Ok(()),
            Phase::Settled { at, .. } => Err(Refusal::Stale(Stale::Finished { at: *at })),
            Phase::Proposed
            | Phase::Previewing { .. }
            | Phase::Waiting(_)
            | Phase::Running { .. }
            | Phase::Verifying { .. }
            | Phase::Cancelling { .. }
            | Phase::AtProvider { .. } => Err(Refusal::Stale(Stale::OtherAttempt)),
        }
    }

    pub(super) fn take_verification(&mut self, verified: Verified) -> Result<(), Refusal> {
        let Verified { call: id, attempt, verdict } = verified;
        let on_absent = match self.call(id)?.phase {
            Phase::Verifying { attempt: current, on_absent, .. } if current == attempt => on_absent,
            _ => return Err(Refusal::Stale(Stale::OtherAttempt)),
        };
        let finding = match &verdict {
            Verification::Applied(_) | Verification::Withheld(_) => VerifyFinding::Applied,
            Verification::Absent => VerifyFinding::Absent,
            Verification::Unknown => VerifyFinding::Unknown,
        };
        self.emit(Event::CallVerified { call: id, attempt, finding })?;
        match verdict {
            Verification::Applied(output) => {
                self.finish(id, bounded(Returned::from(CallResult::Ok(output))), None)
            }
            Verification::Withheld(failure) => {
                self.finish(id, bounded(Returned::from(CallResult::Err(failure))), None)
            }
            Verification::Absent if on_absent == OnAbsent::RunAgain => Ok(()),
            Verification::Absent if on_absent == OnAbsent::Cancel => {
                let message = "[cancelled] its tool has checked that it did not take effect";
                self.fail(id, Failure::new(ErrorClass::Cancelled, message))
            }
            Verification::Absent | Verification::Unknown => {
                self.suspend(id, SuspensionKind::Settlement, SuspendReason::InDoubt, None)
            }
        }
    }

    /// Gives a call its outcome.
    pub(super) fn finish(
        &mut self,
        id: CallId,
        returned: Returned,
        provider_meta: Option<Value>,
    ) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let outcome = Outcome {
            call: id,
            tool: call.contract.tool.clone(),
            attempt: call.attempts,
            started_at: started_at(call, self.now),
            finished_at: self.now,
            result: returned.result,
            directives: returned.directives,
            provenance: Provenance::of(&call.contract),
            provider_meta,
            extra: returned.extra,
        };
        self.emit(Event::CallFinished { outcome })
    }
}

fn started_at(call: &Call, now: Timestamp) -> Timestamp {
    match &call.phase {
        Phase::Running { started_at, .. }
        | Phase::Verifying { started_at, .. }
        | Phase::Cancelling { started_at, .. } => *started_at,
        Phase::AtProvider { since } => *since,
        Phase::Waiting(suspension) => suspension.since,
        Phase::Proposed
        | Phase::Previewing { .. }
        | Phase::Ready { .. }
        | Phase::Settled { .. } => now,
    }
}

/// What is nested too deeply could be written to the log and never read back, so it is not kept.
pub(super) fn bounded(returned: Returned) -> Returned {
    if returned.is_deeper_than(DEPTH_MAX) {
        let message = format!(
            "it ran, but its result is nested deeper than {DEPTH_MAX} levels and was not kept"
        );
        return Returned::from(CallResult::Err(Failure::new(ErrorClass::ToolError, message)));
    }
    returned
}

/// As [`bounded`], for what an attempt had produced before it ended.
fn shallow(mut unknown: EffectUnknown) -> EffectUnknown {
    unknown.failure.partial.take_if(|partial| is_deeper_than(partial, DEPTH_MAX));
    unknown
}

/// What stands for a result that nobody has.
pub(super) fn said_to_have_happened() -> Output {
    let text = "A person confirms that this call took effect; its result is not known.";
    Output { content: vec![ContentBlock::Text { text: text.to_owned() }], ..Output::default() }
}
