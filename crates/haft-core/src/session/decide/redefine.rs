//! Calls whose tool changed while they had not run.

use std::sync::Arc;

use super::Draft;
use crate::id::CallId;
use crate::outcome::{ErrorClass, Failure};
use crate::permission::{Question, Verdict};
use crate::session::admission::Basis;
use crate::session::event::Event;
use crate::session::input::{ToolChange, ToolChanged};
use crate::session::refusal::{Refusal, Stale};
use crate::session::resolution::Fit;
use crate::session::state::{Call, Phase};
use crate::session::suspension::{SuspendReason, SuspensionKind};
use crate::tool::{Contract, Executor};

impl Draft {
    pub(super) fn change_tool(&mut self, changed: ToolChanged) -> Result<(), Refusal> {
        let ToolChanged { call: id, change } = changed;
        let call = self.call(id)?;
        match &call.phase {
            Phase::Waiting(wait) if wait.kind == SuspensionKind::Settlement => {
                self.change_tool_in_doubt(id, change)
            }
            // The child does the work as it was given to it.
            Phase::Waiting(wait) if wait.kind == SuspensionKind::Child => {
                Err(Refusal::Stale(Stale::NotAwaiting))
            }
            Phase::Waiting(_) | Phase::Previewing { .. } | Phase::Ready { .. } => {
                self.change_tool_not_run(id, change)
            }
            Phase::Settled { at, .. } => Err(Refusal::Stale(Stale::Finished { at: *at })),
            Phase::Proposed
            | Phase::Running { .. }
            | Phase::Verifying { .. }
            | Phase::Cancelling { .. }
            | Phase::AtProvider { .. } => Err(Refusal::Stale(Stale::NotAwaiting)),
        }
    }

    /// The question is about the past and stays open; only whether it may run again changes.
    fn change_tool_in_doubt(&mut self, id: CallId, change: ToolChange) -> Result<(), Refusal> {
        let why = match change {
            ToolChange::Gone => "its tool was removed".to_owned(),
            ToolChange::Redefined { fit: Fit::Misfit { message }, .. } => {
                format!("its tool changed: {message}")
            }
            ToolChange::Redefined { contract, changes, .. } => {
                let call = self.call(id)?;
                if is_run_the_same_way(&call.contract, &contract) {
                    return self.emit(Event::CallRedefined { call: id, contract, changes });
                }
                format!("its tool is run in another way by now: {changes}")
            }
        };
        self.emit(Event::CallBarred { call: id, why })
    }

    /// A call that has not run is asked about again, or closed with a reason.
    fn change_tool_not_run(&mut self, id: CallId, change: ToolChange) -> Result<(), Refusal> {
        let call = self.call(id)?;
        let tool = &call.contract.tool;
        match change {
            ToolChange::Gone => {
                let message = format!("not run: `{tool}` was removed while the call waited");
                self.fail(id, Failure::new(ErrorClass::UnknownTool, message))
            }
            ToolChange::Redefined { fit: Fit::Misfit { message }, .. } => {
                let message = format!("not run: `{tool}` changed while the call waited: {message}");
                self.fail(id, Failure::new(ErrorClass::InvalidArgs, message))
            }
            ToolChange::Redefined { contract, changes, .. } => {
                let asks = rests_on_a_person(call) || self.would_ask(call, &contract)?;
                let same = is_run_the_same_way(&call.contract, &contract);
                if !asks && !same {
                    let message = format!("not run: `{tool}` changed while the call waited");
                    return self.fail(id, Failure::new(ErrorClass::InvalidArgs, message));
                }
                let askable = matches!(contract.executor, Executor::Server | Executor::Client);
                self.emit(Event::CallRedefined { call: id, contract, changes })?;
                if asks && askable { self.ask(id, SuspendReason::Redefined) } else { Ok(()) }
            }
        }
    }

    /// Returns whether a call of the tool as it is now would be asked about. What rules and
    /// environment say of it is not known here, and is heard when a person has answered.
    fn would_ask(&self, call: &Call, contract: &Contract) -> Result<bool, Refusal> {
        let open = self.require_open()?;
        let question = Question {
            contract,
            arguments: &call.arguments,
            level: open.config.level,
            profile: open.config.profile,
            exposure: &open.config.exposure,
            reports: &[],
            grants: open.grants(),
            now: self.now,
        };
        Ok(question.derive().decision == Verdict::Ask)
    }
}

/// Returns whether a person's yes lets the call run, or is waited for: it was, or would be, about
/// another tool.
fn rests_on_a_person(call: &Call) -> bool {
    match &call.phase {
        Phase::Waiting(wait) => wait.kind == SuspensionKind::Approval,
        Phase::Previewing { .. } => true,
        Phase::Ready { permit, .. } => match permit.basis {
            Basis::Approval { .. } | Basis::Grant(_) => true,
            Basis::Policy => false,
        },
        Phase::Proposed
        | Phase::Running { .. }
        | Phase::Verifying { .. }
        | Phase::Cancelling { .. }
        | Phase::AtProvider { .. }
        | Phase::Settled { .. } => false,
    }
}

/// Returns whether the same hands run the tool as before. If not, a wait for those hands, and
/// the trust in what they return, would be about another tool.
fn is_run_the_same_way(old: &Arc<Contract>, new: &Arc<Contract>) -> bool {
    old.executor == new.executor && old.ownership == new.ownership
}
