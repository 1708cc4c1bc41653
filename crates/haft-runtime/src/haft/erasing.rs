//! Sessions that are deleted: ended, with all that belong to them, and then erased.

use std::collections::BTreeSet;

use haft_core::session::{Event, Refusal};
use haft_core::{Actor, SessionId};
use haft_store::{EraseError, ErasedSession, ErasureRequest};

use super::Haft;
use crate::error::InputError;

/// How many entries of a log are read at once.
const PAGE: u32 = 512;

/// How far the erasure of a session has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureProgress {
    /// Nothing is left but this.
    Done(ErasedSession),
    /// It has not ended yet: what runs in it is being stopped.
    Stopping,
    /// There was no such session.
    Unknown,
}

#[haft_macros::boxed]
impl Haft {
    /// Returns the sessions that belong to a session: those of its sub-agents, and those in which
    /// calls of any of them were taken back.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn belonging(&self, session: SessionId) -> Result<Vec<SessionId>, InputError> {
        let mut found = BTreeSet::new();
        let mut unseen = vec![session];
        while let Some(session) = unseen.pop() {
            let mut more = self.below(session).await?;
            more.extend(self.undoing(session).await?);
            unseen.extend(more.into_iter().filter(|one| found.insert(*one)));
        }
        found.remove(&session);
        Ok(found.into_iter().collect())
    }

    /// Returns the sessions in which calls of a session were taken back.
    async fn undoing(&self, session: SessionId) -> Result<Vec<SessionId>, InputError> {
        let Some(loaded) = self.store().load(session).await? else { return Ok(Vec::new()) };
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let entries = self.store().entries(session, after, PAGE).await?;
            for entry in &entries {
                // An entry that cannot be read names no call that anybody could have taken back.
                let Ok(Event::CallFinished { outcome }) = entry.event() else { continue };
                found.extend(self.undo_session(&loaded.tenant, outcome.call).await?);
            }
            match entries.last() {
                Some(last) if entries.len() == PAGE as usize => after = last.seq,
                _ => return Ok(found),
            }
        }
    }

    /// Wants a session erased, along with all that belong to it. It is kept that this is wanted, so
    /// that any node can finish it; returns what is to be finished, the session itself last.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn request_erasure(
        &self,
        wanted: ErasureRequest,
    ) -> Result<Vec<ErasureRequest>, InputError> {
        let mut requests = Vec::new();
        for session in self.belonging(wanted.session).await? {
            requests.push(ErasureRequest { session, ..wanted.clone() });
        }
        requests.push(wanted);
        for request in &requests {
            self.store().request_erasure(request).await?;
        }
        Ok(requests)
    }

    /// Ends a session that is to be erased, and erases it once it has ended.
    ///
    /// # Errors
    ///
    /// When the store has trouble.
    pub async fn finish_erasure(
        &self,
        request: &ErasureRequest,
    ) -> Result<ErasureProgress, InputError> {
        let now = self.toolbox.now();
        match self.store().erase_session(request, now).await {
            Ok(erased) => return Ok(ErasureProgress::Done(erased)),
            Err(EraseError::UnknownSession) => return Ok(ErasureProgress::Unknown),
            Err(EraseError::Store(error)) => return Err(error.into()),
            Err(EraseError::NotEnded) => {}
        }
        match self.end(request.session, Actor::system(), Some("deleted".to_owned())).await {
            Ok(_) | Err(InputError::Refused(Refusal::Ended)) => {}
            Err(InputError::UnknownSession) => return Ok(ErasureProgress::Unknown),
            Err(InputError::OwnedElsewhere { .. }) => return Ok(ErasureProgress::Stopping),
            Err(error) => return Err(error),
        }
        match self.store().erase_session(request, now).await {
            Ok(erased) => Ok(ErasureProgress::Done(erased)),
            Err(EraseError::NotEnded) => Ok(ErasureProgress::Stopping),
            Err(EraseError::UnknownSession) => Ok(ErasureProgress::Unknown),
            Err(EraseError::Store(error)) => Err(error.into()),
        }
    }
}
