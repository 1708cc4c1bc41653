//! Calls whose tool changed while they waited.

use super::Draft;
use crate::outcome::{ErrorClass, Failure};
use crate::session::event::Event;
use crate::session::input::{Fit, ToolChange, ToolChanged};
use crate::session::refusal::{Refusal, Stale};
use crate::session::state::Phase;
use crate::session::suspension::{SuspendReason, SuspensionKind};

impl Draft {
    pub(super) fn change_tool(&mut self, changed: ToolChanged) -> Result<(), Refusal> {
        let id = changed.call;
        let call = self.call(id)?;
        let kind = match &call.phase {
            Phase::Waiting(suspension) => suspension.kind,
            Phase::Settled { at, .. } => {
                return Err(Refusal::Stale(Stale::Finished { at: *at }));
            }
            Phase::Proposed
            | Phase::Previewing
            | Phase::Ready { .. }
            | Phase::Running { .. }
            | Phase::Verifying { .. }
            | Phase::Cancelling { .. }
            | Phase::AtProvider { .. } => return Err(Refusal::Stale(Stale::NotAwaiting)),
        };
        let tool = call.contract.tool.clone();
        match changed.change {
            ToolChange::Gone if kind == SuspensionKind::Settlement => Ok(()),
            ToolChange::Gone => {
                let message = format!("not run: `{tool}` was removed while the call waited");
                self.fail(id, Failure::new(ErrorClass::UnknownTool, message))
            }
            ToolChange::Redefined { fit: Fit::Misfit { message }, .. }
                if kind != SuspensionKind::Settlement =>
            {
                let message = format!("not run: `{tool}` changed while the call waited: {message}");
                self.fail(id, Failure::new(ErrorClass::InvalidArgs, message))
            }
            ToolChange::Redefined { contract, changes, .. } => {
                self.emit(Event::CallRedefined { call: id, contract, changes })?;
                match kind {
                    SuspensionKind::Approval => self.ask(id, SuspendReason::Redefined),
                    SuspensionKind::Elicitation
                    | SuspensionKind::ClientExec
                    | SuspensionKind::Settlement => Ok(()),
                }
            }
        }
    }
}
