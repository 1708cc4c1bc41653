//! What keeps a session going beside its messages: wakes, and the sessions below it.

use haft_core::session::{
    Input, Open, Phase, Reply, SuspensionKind, Wake, WakeCancelled, WakeQueued,
};
use haft_core::{Actor, SessionId, WakeId};
use haft_store::{Page, Pending, PendingFilter};

use super::Haft;
use crate::error::InputError;
use crate::model::WakeWish;

/// How many waits of one session are looked at.
const WAITS_MAX: u32 = 200;

impl Haft {
    /// Has a session go on by itself after a while.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn queue_wake(
        &self,
        session: SessionId,
        by: Actor,
        wish: WakeWish,
    ) -> Result<(WakeId, Reply), InputError> {
        let id = WakeId::from_bits(self.driver.fresh()?);
        let WakeWish { after, reason, note, dedupe_key, priority } = wish;
        let due = self.toolbox.now() + after;
        let wake = Wake { id, due, reason, note, dedupe_key, priority };
        let reply = self.driver.input(session, Input::WakeQueued(WakeQueued { wake, by })).await?;
        Ok((id, reply))
    }

    /// Takes a queued wake back.
    ///
    /// # Errors
    ///
    /// When no such wake is queued.
    pub async fn cancel_wake(
        &self,
        session: SessionId,
        by: Actor,
        wake: WakeId,
    ) -> Result<Reply, InputError> {
        let input = Input::WakeCancelled(WakeCancelled { wake, by });
        self.driver.input(session, input).await
    }

    /// Returns the session at the top, where the people of a sub-agent are.
    ///
    /// # Errors
    ///
    /// When there is no such session.
    pub async fn root(&self, session: SessionId) -> Result<SessionId, InputError> {
        let loaded = self.store().load(session).await?.ok_or(InputError::UnknownSession)?;
        Ok(loaded.state.as_open().map_or(session, Open::root))
    }

    /// Returns what waits for people in a session and in those of its sub-agents at work.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn waits_below(&self, session: SessionId) -> Result<Vec<Pending>, InputError> {
        let (mut found, mut sessions) = (Vec::new(), vec![session]);
        while let Some(session) = sessions.pop() {
            let filter = PendingFilter { session: Some(session), ..PendingFilter::default() };
            found.extend(self.store().pending(&filter, &Page::first(WAITS_MAX)).await?);
            let Some(loaded) = self.store().load(session).await? else { continue };
            let open = loaded.state.as_open();
            sessions.extend(open.into_iter().flat_map(children));
        }
        Ok(found)
    }
}

/// The sub-agents for which a session's calls wait.
fn children(open: &Open) -> impl Iterator<Item = SessionId> {
    open.calls().filter_map(|call| match &call.phase {
        Phase::Waiting(wait) if wait.kind == SuspensionKind::Child => {
            call.child.as_ref().map(|delegation| delegation.child)
        }
        _ => None,
    })
}
