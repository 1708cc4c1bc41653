//! What keeps a session going beside its messages: wakes, and the sessions below it.

use haft_core::session::{Input, Open, Reply, Wake, WakeCancelled, WakeQueued};
use haft_core::{Actor, SessionId, WakeId};
use haft_store::{Page, Pending, PendingFilter, SessionFilter};

use super::Haft;
use crate::error::InputError;
use crate::model::WakeWish;

/// How many sessions or waits are read at once.
const PAGE: u32 = 100;

#[haft_macros::boxed]
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

    /// Returns what waits for people in a session and in those of its sub-agents.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn waits_below(&self, session: SessionId) -> Result<Vec<Pending>, InputError> {
        let mut found = Vec::new();
        for session in std::iter::once(session).chain(self.below(session).await?) {
            found.extend(self.waits_of(session).await?);
        }
        Ok(found)
    }

    async fn waits_of(&self, session: SessionId) -> Result<Vec<Pending>, InputError> {
        let filter = PendingFilter { session: Some(session), ..PendingFilter::default() };
        let (mut found, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let waits = self.store().pending(&filter, &page).await?;
            let is_last = waits.len() < PAGE as usize;
            let last = waits.last().map(Pending::cursor);
            found.extend(waits);
            match last {
                Some(last) if !is_last => page = Page::after(last, PAGE),
                _ => return Ok(found),
            }
        }
    }

    /// Returns the sessions of a session's sub-agents and of theirs, whether or not anyone waits
    /// for them.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn below(&self, session: SessionId) -> Result<Vec<SessionId>, InputError> {
        let (mut found, mut unseen) = (Vec::new(), vec![session]);
        while let Some(session) = unseen.pop() {
            let children = self.children(session).await?;
            found.extend(&children);
            unseen.extend(children);
        }
        Ok(found)
    }

    async fn children(&self, session: SessionId) -> Result<Vec<SessionId>, InputError> {
        let filter = SessionFilter { parent: Some(session), ..SessionFilter::default() };
        let (mut found, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let listed = self.store().sessions(&filter, &page).await?;
            found.extend(listed.iter().map(|listed| listed.session));
            match listed.last() {
                Some(last) if listed.len() == PAGE as usize => {
                    page = Page::after(last.session, PAGE)
                }
                _ => return Ok(found),
            }
        }
    }
}
