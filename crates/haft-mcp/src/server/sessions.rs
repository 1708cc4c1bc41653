//! The sessions in which clients' calls are made.
//!
//! Where a session serves one call at a time, calls of many clients are committed together and
//! none waits behind another's; when its call is over it is free for the next of the same
//! principal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::SessionId;
use haft_core::session::Config;
use haft_runtime::{Haft, InputError, Live, Tap};

use super::settings::SessionUse;
use crate::principal::Principal;

/// How many sessions are kept for a principal's next calls.
const IDLE_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Sessions {
    session_use: SessionUse,
    idle: Idle,
    /// Has sessions forgotten that are deleted.
    _forgets: Tap,
}

type Idle = Arc<Mutex<HashMap<Principal, Vec<SessionId>>>>;

impl Sessions {
    pub(super) fn new(session_use: SessionUse, haft: &Haft) -> Self {
        let idle = Idle::default();
        let kept = Arc::clone(&idle);
        let forgets = haft.live().tap(move |live| {
            if let Live::Erased { session } = live {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.values_mut().for_each(|idle| idle.retain(|one| one != session));
            }
        });
        Self { session_use, idle, _forgets: forgets }
    }

    pub(super) async fn take(
        &self,
        haft: &Haft,
        principal: &Principal,
        config: &Config,
    ) -> Result<SessionId, InputError> {
        let idle = self.lock().get_mut(principal).and_then(|idle| match self.session_use {
            SessionUse::Many => idle.pop(),
            SessionUse::One => idle.first().copied(),
        });
        if let Some(session) = idle {
            return Ok(session);
        }
        let Principal { actor, tenant } = principal.clone();
        let opened = haft.open(tenant, config.clone(), actor).await?;
        if self.session_use == SessionUse::Many {
            return Ok(opened);
        }
        // Whoever opened one first has opened the one.
        let mut sessions = self.lock();
        let one = sessions.entry(principal.clone()).or_default();
        if one.is_empty() {
            one.push(opened);
        }
        Ok(one.first().copied().unwrap_or(opened))
    }

    pub(super) fn put_back(&self, principal: &Principal, session: SessionId) {
        let mut sessions = self.lock();
        if !sessions.contains_key(principal) {
            sessions.insert(principal.clone(), Vec::new());
        }
        let Some(idle) = sessions.get_mut(principal) else { return };
        let takes = self.session_use == SessionUse::Many && idle.len() < IDLE_MAX;
        if takes && !idle.contains(&session) {
            idle.push(session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Principal, Vec<SessionId>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
