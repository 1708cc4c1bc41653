//! Whose sessions may call the tools of mounted servers.
//!
//! A node has one registry for all of its tenants. A mounted server acts with its owner's
//! secrets, so nobody else's session gets through to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::SessionId;
use haft_runtime::ToolError;
use haft_store::{Store, Tenant};

/// How many sessions are remembered.
const REMEMBERED_MAX: usize = 4096;

/// The sessions of one tenant; a clone shares what is known about them.
#[derive(Clone)]
pub(super) struct Sessions(Arc<Shared>);

struct Shared {
    store: Store,
    tenant: Tenant,
    /// Which sessions are the tenant's: that never changes. Ids are ordered by time.
    known: Mutex<BTreeMap<SessionId, bool>>,
}

impl Sessions {
    pub(super) fn of(store: Store, tenant: Tenant) -> Self {
        Self(Arc::new(Shared { store, tenant, known: Mutex::default() }))
    }

    /// Returns whose they are.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.0.tenant
    }

    /// Refuses a session of somebody else.
    pub(super) async fn require(&self, session: SessionId) -> Result<(), ToolError> {
        let known = self.known().get(&session).copied();
        let is_theirs = match known {
            Some(known) => known,
            None => {
                let loaded = self.0.store.load(session).await?;
                let is_theirs = loaded.is_some_and(|loaded| loaded.tenant == self.0.tenant);
                let mut known = self.known();
                known.insert(session, is_theirs);
                if known.len() > REMEMBERED_MAX {
                    known.pop_first();
                }
                is_theirs
            }
        };
        match is_theirs {
            true => Ok(()),
            false => Err(ToolError::new("the server of this tool is mounted for another tenant")),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, bool>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
