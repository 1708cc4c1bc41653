//! Interrupting, cancelling, ending: every open call gets its outcome.

use super::Draft;
use super::resolve::not_known;
use super::session::refuse_agent;
use crate::actor::Actor;
use crate::id::CallId;
use crate::outcome::{ErrorClass, Failure};
use crate::session::effect::Effect;
use crate::session::event::{Event, InterruptCause, StartCause, TurnEnding};
use crate::session::input::{CallCancelled, Ended, Interrupted};
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::{Activity, Phase, Stopping};
use crate::session::suspension::SuspensionKind;
use crate::tool::{InterruptBehavior, Mutates};

impl Draft {
    pub(super) fn interrupt(&mut self, interrupted: Interrupted) -> Result<(), Refusal> {
        self.require_open()?;
        refuse_agent(&interrupted.by, "interrupt itself")?;
        self.cancel_wakes(&interrupted.by)?;
        self.stop_turn(interrupted.by, interrupted.note, InterruptCause::Asked)
    }

    /// Stops what is under way; the session goes on with what comes next.
    pub(super) fn stop_turn(
        &mut self,
        by: Actor,
        note: Option<String>,
        cause: InterruptCause,
    ) -> Result<(), Refusal> {
        self.emit(Event::SessionInterrupted { by, note, cause })?;
        self.stop_calls(match cause {
            InterruptCause::Asked => "[cancelled]",
            InterruptCause::Message => "[cancelled] withdrawn because of a new message",
        })
    }

    pub(super) fn end_session(&mut self, ended: Ended) -> Result<(), Refusal> {
        let open = self.require_open()?;
        if open.stopping == Stopping::Session {
            return Err(Refusal::Ended);
        }
        refuse_agent(&ended.by, "end the session")?;
        self.emit(Event::SessionEnding { by: ended.by, note: ended.note })?;
        self.stop_calls("[cancelled] the session ends")
    }

    pub(super) fn cancel_call(&mut self, cancelled: &CallCancelled) -> Result<(), Refusal> {
        refuse_agent(&cancelled.by, "cancel a call")?;
        let call = self.call(cancelled.call)?;
        if let Phase::Settled { at, .. } = &call.phase {
            return Err(Refusal::Stale(Stale::Finished { at: *at }));
        }
        let runs = matches!(call.phase, Phase::Running { .. });
        if runs && call.contract.interrupt == InterruptBehavior::Block {
            return Err(Refusal::NotCancellable);
        }
        let by = &cancelled.by;
        let message = match &cancelled.note {
            Some(note) => format!("[cancelled] by {by}: {note}"),
            None => format!("[cancelled] by {by}"),
        };
        self.stop_call(cancelled.call, &message)
    }

    /// That a call is being stopped, or is settled, and that the model is not waited for any more is
    /// in the state: the owner acts upon it when it is woken, and if there is none, whoever takes
    /// the session over finds out that it was.
    pub(super) fn leave_stopping_to_the_owner(&mut self) {
        let open = self.state.as_open();
        let tells = |call: CallId| {
            let call = open.and_then(|open| open.call(call));
            call.is_none_or(|call| {
                matches!(call.phase, Phase::Cancelling { .. } | Phase::Settled { .. })
            })
        };
        self.effects.retain(|effect| match effect {
            Effect::AbortModel { .. } => false,
            Effect::Cancel { call, .. } => !tells(*call),
            _ => true,
        });
    }

    /// Someone else may have recorded that a call is to stop.
    pub(super) fn stop_again(&mut self) -> Result<(), Refusal> {
        self.require_open()?;
        for call in self.calls_where(|call| call.phase.is_open()) {
            if let Phase::Cancelling { attempt, .. } = self.call(call)?.phase {
                self.effects.push(Effect::Cancel { call, attempt });
            }
        }
        Ok(())
    }

    fn stop_calls(&mut self, message: &str) -> Result<(), Refusal> {
        let open = self.require_open()?;
        let (activity, turn) = (open.activity, open.turn);
        if let Activity::Thinking { .. } = activity {
            self.effects.push(Effect::AbortModel { turn });
        }
        for call in self.calls_where(|call| call.phase.is_open()) {
            self.stop_call(call, message)?;
        }
        if let Activity::Thinking { .. } = activity {
            self.emit(Event::TurnEnded { turn, ending: TurnEnding::Interrupted })?;
        }
        Ok(())
    }

    /// Stops one call as far as it can be stopped. A running call is asked to stop, or left to
    /// finish when its tool declares that; either way its outcome is what it then reports.
    fn stop_call(&mut self, id: CallId, message: &str) -> Result<(), Refusal> {
        let call = self.call(id)?;
        match &call.phase {
            Phase::Running { attempt, .. } => {
                let attempt = *attempt;
                match call.contract.interrupt {
                    InterruptBehavior::Block => Ok(()),
                    InterruptBehavior::Cancel => {
                        self.effects.push(Effect::Cancel { call: id, attempt });
                        self.emit(Event::CallCancelling { call: id, attempt })
                    }
                }
            }
            Phase::Waiting(suspension) if suspension.kind == SuspensionKind::Settlement => {
                self.fail(id, not_known("it was stopped before anyone settled it"))
            }
            Phase::Verifying { attempt, .. } => {
                self.effects.push(Effect::Cancel { call: id, attempt: *attempt });
                self.fail(id, not_known("it was stopped before that was found out"))
            }
            Phase::Previewing { .. } => {
                self.effects.push(Effect::Cancel { call: id, attempt: call.attempts });
                self.fail(id, Failure::new(ErrorClass::Cancelled, message))
            }
            Phase::Ready { cause: StartCause::Retry | StartCause::Recovery, .. }
                if call.contract.mutates != Mutates::None =>
            {
                self.fail(id, not_known("an earlier attempt may have; it was not tried again"))
            }
            Phase::Proposed
            | Phase::Waiting(_)
            | Phase::Ready { .. }
            | Phase::AtProvider { .. } => {
                self.fail(id, Failure::new(ErrorClass::Cancelled, message))
            }
            Phase::Cancelling { .. } | Phase::Settled { .. } => Ok(()),
        }
    }
}
