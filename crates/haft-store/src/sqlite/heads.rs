//! What the writer knows about the sessions it wrote to last, so that an append need not look.
//!
//! The directory is this process's alone and one thread writes, so what it wrote is what is there.
//! What a batch that was undone has left here is wrong: whoever undoes it forgets everything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::SessionId;

use crate::append::Found;

/// As many as are likely to be at work at once; beyond it, everything is forgotten and read anew.
const KNOWN_MAX: usize = 4_096;

/// A session's row, as far as an append needs it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) key: i64,
    /// The place of its last append.
    pub(super) tail: Option<i64>,
    pub(super) found: Found,
}

/// The rows that are known. A clone shares them.
#[derive(Debug, Clone, Default)]
pub(super) struct Heads(Arc<Mutex<HashMap<SessionId, Stored>>>);

impl Heads {
    pub(super) fn get(&self, session: SessionId) -> Option<Stored> {
        self.lock().get(&session).copied()
    }

    pub(super) fn put(&self, session: SessionId, stored: Stored) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(session, stored);
    }

    pub(super) fn forget(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    /// A panic while it is held cannot leave a row half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Stored>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
