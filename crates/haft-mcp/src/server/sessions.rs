//! The sessions in which clients' calls are made.
//!
//! A session serves one call at a time, so that calls of many clients are committed together and
//! none waits behind another's; when its call is over it is free for the next of the same
//! principal.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use haft_core::SessionId;
use haft_core::session::Config;
use haft_runtime::{Haft, InputError};

use crate::principal::Principal;

/// How many sessions are kept for a principal's next calls.
const IDLE_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Principal, Vec<SessionId>>>);

impl Sessions {
    pub(super) async fn take(
        &self,
        haft: &Haft,
        principal: &Principal,
        config: &Config,
    ) -> Result<SessionId, InputError> {
        let idle = self.lock().get_mut(principal).and_then(Vec::pop);
        match idle {
            Some(session) => Ok(session),
            None => {
                let Principal { actor, tenant } = principal.clone();
                haft.open(tenant, config.clone(), actor).await
            }
        }
    }

    pub(super) fn put_back(&self, principal: &Principal, session: SessionId) {
        let mut sessions = self.lock();
        let idle = sessions.entry(principal.clone()).or_default();
        if idle.len() < IDLE_MAX && !idle.contains(&session) {
            idle.push(session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Principal, Vec<SessionId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
