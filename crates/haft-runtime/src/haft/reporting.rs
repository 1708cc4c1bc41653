//! What code that runs elsewhere says about an attempt that nobody waits for any more.

use haft_core::session::{
    AttemptEnded, AttemptReport, Input, Phase, Refusal, Reply, Returned, Stale, SuspensionKind,
};
use haft_core::{CallId, SessionId};

use super::Haft;
use crate::error::InputError;

#[haft_macros::boxed]
impl Haft {
    /// Takes in what an attempt gave after Haft stopped waiting for it: its lease lapsed, or the
    /// node that had started it died. It settles the call if that is in doubt about this very
    /// attempt. The result is masked, held against the tool's schema and bounded like any other.
    ///
    /// # Errors
    ///
    /// - [`Refusal::Stale`] when the call is over or another attempt was made: nothing is recorded.
    /// - [`Refusal::NeedsOwner`] when the session has not noticed yet that the attempt was
    ///   interrupted; say it again a little later.
    pub async fn report_attempt(
        &self,
        session: SessionId,
        call: CallId,
        attempt: u32,
        returned: Returned,
    ) -> Result<Reply, InputError> {
        let loaded = self.store().load(session).await?.ok_or(InputError::UnknownSession)?;
        let stale = |why| InputError::Refused(Refusal::Stale(why));
        let open = loaded.state.as_open().ok_or_else(|| stale(Stale::NotAwaiting))?;
        let known = open.call(call).ok_or_else(|| stale(Stale::Unknown))?;
        if known.attempts != attempt {
            return Err(stale(Stale::OtherAttempt));
        }
        match &known.phase {
            Phase::Waiting(wait) if wait.kind == SuspensionKind::Settlement => {}
            Phase::Running { .. } | Phase::Cancelling { .. } | Phase::Verifying { .. } => {
                return Err(InputError::Refused(Refusal::NeedsOwner));
            }
            Phase::Settled { at, .. } => return Err(stale(Stale::Finished { at: *at })),
            _ => return Err(stale(Stale::OtherAttempt)),
        }
        let registered = self.registry().get(known.contract.tool.as_str());
        let returned = match registered {
            Some(registered) => {
                let by = open.opened_by.clone();
                self.taken_in(open, known, &registered, &by, returned).await
            }
            // A call in doubt outlives its tool.
            None => self.toolbox.clean(returned),
        };
        let report = AttemptReport::Returned(returned);
        let input = Input::AttemptEnded(AttemptEnded { call, attempt, report });
        self.driver.record(session, input).await
    }
}
