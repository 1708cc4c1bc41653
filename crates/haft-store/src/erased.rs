//! Sessions that were erased: what is kept of them, and how it is chained.

use haft_core::journal::Head;
use haft_core::{Actor, CallId, Digest, SessionId, Timestamp};

use crate::error::Error;
use crate::name::Tenant;
use crate::page::Page;
use crate::session::VerifyError;
use crate::store::Store;

/// How many erasures are read at once.
const CHUNK: u32 = 500;

/// What is kept of a session whose content was erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedSession {
    /// Its place among all that were erased, from 1.
    pub number: u64,
    /// The session.
    pub session: SessionId,
    /// Whose it was.
    pub tenant: Tenant,
    /// Where its log ended: a copy that someone kept can be checked against this.
    pub head: Head,
    /// Who had it erased.
    pub by: Actor,
    /// When it was erased.
    pub at: Timestamp,
    /// The hash of all of this and of the erasure before it.
    pub hash: Digest,
}

impl ErasedSession {
    /// Checks that it follows the erasure with which the chain ended so far; returns where the chain
    /// ends with it.
    pub(crate) fn follows(&self, head: Head) -> Result<Head, VerifyError> {
        let expected = head.seq + 1;
        if self.number != expected {
            return Err(VerifyError::Erasure { number: expected });
        }
        if self.chained(head.hash, &written(&self.by)?) != self.hash {
            return Err(VerifyError::Erasure { number: self.number });
        }
        Ok(Head { seq: self.number, hash: self.hash })
    }

    /// Returns the hash that it has after the erasure before it.
    pub(crate) fn chained(&self, previous: Digest, author: &str) -> Digest {
        Digest::of_parts(&[
            previous.as_bytes(),
            &self.number.to_be_bytes(),
            &self.session.bits().to_be_bytes(),
            self.tenant.as_str().as_bytes(),
            &self.head.seq.to_be_bytes(),
            self.head.hash.as_bytes(),
            author.as_bytes(),
            &self.at.ms().to_be_bytes(),
        ])
    }
}

/// A session that is to be erased once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureRequest {
    /// The session.
    pub session: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// Who wants it erased.
    pub by: Actor,
    /// Since when they want it.
    pub at: Timestamp,
}

/// Why a session was not erased. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EraseError {
    /// It has not ended, so something may still be written to it.
    #[error("the session has not ended")]
    NotEnded,
    /// There is no such session.
    #[error("no such session")]
    UnknownSession,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

#[haft_macros::boxed]
impl Store {
    /// Checks that the erasures are those that were recorded: none was changed, left out or moved.
    /// Returns where their chain ends.
    ///
    /// # Errors
    ///
    /// When one was, and which.
    pub async fn verify_erasures(&self) -> Result<Head, VerifyError> {
        let mut head = Head::EMPTY;
        loop {
            let erased = self.erasures(&Page { after: Some(head.seq), limit: CHUNK }).await?;
            for one in &erased {
                head = one.follows(head)?;
            }
            if erased.len() < CHUNK as usize {
                return Ok(head);
            }
        }
    }
}

/// Writes an actor as it is stored.
pub(crate) fn written(by: &Actor) -> Result<String, Error> {
    serde_json::to_string(by).map_err(Error::corrupt)
}

/// Returns the keys under which versions belong to a session and its calls.
pub(crate) fn keys(session: SessionId, calls: &[CallId]) -> Vec<String> {
    let mut keys = vec![session.to_string()];
    keys.extend(calls.iter().map(ToString::to_string));
    keys
}
