//! Which keys are being used right now, so that what they hold open ends with them.
//!
//! Every request takes a hold of its key before the key is looked up, and keeps it until the last
//! byte of its answer. Whoever takes the key's power away ends its holds: on this node at once, on
//! the others when they next look ([`LOOK_EVERY`]), one read for all keys and streams together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::Timestamp;
use tokio_util::sync::CancellationToken;

/// How often a node that has requests under way looks whether keys were revoked elsewhere, and
/// whether one has expired.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The keys in use; a clone is the same.
#[derive(Clone, Default)]
pub(crate) struct KeyHolds(Arc<Mutex<HashMap<String, InUse>>>);

struct InUse {
    ended: CancellationToken,
    expires_at: Option<Timestamp>,
    n_holds: usize,
}

impl KeyHolds {
    /// Takes a hold of a key, by its name.
    pub(crate) fn hold(&self, key: &str) -> KeyHold {
        let mut all = self.lock();
        let in_use = all.entry(key.to_owned()).or_insert_with(|| InUse {
            ended: CancellationToken::new(),
            expires_at: None,
            n_holds: 0,
        });
        in_use.n_holds += 1;
        KeyHold { holds: self.clone(), key: key.to_owned(), ended: in_use.ended.clone() }
    }

    /// Returns whether nobody uses any key.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the names of the keys in use.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Ends what a key holds open.
    pub(crate) fn end(&self, key: &str) {
        let mut all = self.lock();
        if let Some(in_use) = all.remove(key) {
            in_use.ended.cancel();
        }
    }

    /// Ends what keys hold open that have expired.
    pub(crate) fn end_expired(&self, now: Timestamp) {
        self.lock().retain(|_, in_use| {
            let is_good = in_use.expires_at.is_none_or(|at| now < at);
            if !is_good {
                in_use.ended.cancel();
            }
            is_good
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, InUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request's hold of its key.
pub(crate) struct KeyHold {
    holds: KeyHolds,
    key: String,
    ended: CancellationToken,
}

impl KeyHold {
    /// The name of the key, which opens nothing.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Cancelled when the key has lost its power.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Has the hold end when the key does.
    pub(crate) fn until(&self, expires_at: Option<Timestamp>) {
        if let Some(in_use) = self.holds.lock().get_mut(&self.key) {
            in_use.expires_at = expires_at;
        }
    }
}

impl std::fmt::Debug for KeyHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyHold").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        let mut all = self.holds.lock();
        // Those of a key that was ended are counted nowhere any more.
        if self.ended.is_cancelled() {
            return;
        }
        let Some(in_use) = all.get_mut(&self.key) else { return };
        in_use.n_holds -= 1;
        if in_use.n_holds == 0 {
            all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_holds_open_ends_with_it() {
        let holds = KeyHolds::default();
        let (one, two, other) = (holds.hold("a"), holds.hold("a"), holds.hold("b"));
        drop(one);
        holds.end("a");
        assert!(two.ended().is_cancelled() && !other.ended().is_cancelled());
        // The key may be used again before the last of its old holds is gone.
        let again = holds.hold("a");
        drop(two);
        assert!(!again.ended().is_cancelled());
        assert_eq!(holds.names().len(), 2);
        other.until(Some(Timestamp::from_ms(5)));
        holds.end_expired(Timestamp::from_ms(4));
        assert!(!other.ended().is_cancelled());
        holds.end_expired(Timestamp::from_ms(5));
        assert!(other.ended().is_cancelled());
        drop((again, other));
        assert!(holds.is_empty());
    }
}
