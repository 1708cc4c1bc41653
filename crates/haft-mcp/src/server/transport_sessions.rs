//! Whom a transport session belongs to.
//!
//! rmcp finds a session of the earlier revision by the id in a header and by nothing else, so
//! whoever learned that id could read what the session is told, cancel its calls and end it. Here
//! a session answers only to the credential that began it; for everyone else it does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderName};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::principal::{CredentialId, Principal};

/// The header that names a transport session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// How many owners are remembered before those of ended sessions are looked for.
const PRUNED_FROM: usize = 64;

/// Who began a transport session, and with which credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionOwner {
    principal: Principal,
    credential: Option<CredentialId>,
}

impl SessionOwner {
    pub(super) fn new(principal: Principal, credential: Option<CredentialId>) -> Self {
        Self { principal, credential }
    }
}

/// The owners of the transport sessions that are open.
pub(super) struct TransportSessions {
    manager: Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
}

struct Owners {
    by_session: HashMap<String, SessionOwner>,
    /// How many there may be before the ended ones are taken out.
    pruned_at: usize,
}

impl TransportSessions {
    pub(super) fn of(manager: Arc<LocalSessionManager>) -> Self {
        let owners = Owners { by_session: HashMap::new(), pruned_at: PRUNED_FROM };
        Self { manager, owners: Mutex::new(owners) }
    }

    /// Returns whether a request may go on: it names no session, or one of its own.
    pub(super) fn lets_in(&self, headers: &HeaderMap, owner: &SessionOwner) -> bool {
        let mut named = headers.get_all(SESSION).iter();
        let Some(first) = named.next() else { return true };
        let is_one = named.next().is_none();
        let known = first.to_str().ok().filter(|_| is_one);
        known.is_some_and(|id| self.lock().by_session.get(id) == Some(owner))
    }

    /// Remembers who began a session, before anyone is told its id.
    pub(super) async fn began(&self, answered: &HeaderMap, owner: &SessionOwner) {
        let id = answered.get(SESSION).and_then(|id| id.to_str().ok());
        let Some(id) = id else { return };
        let is_full = {
            let mut owners = self.lock();
            // An answer within a session names it too.
            owners.by_session.entry(id.to_owned()).or_insert_with(|| owner.clone());
            owners.by_session.len() > owners.pruned_at
        };
        if is_full {
            self.prune().await;
        }
    }

    async fn prune(&self) {
        let open = self.manager.sessions.read().await;
        let mut owners = self.lock();
        owners.by_session.retain(|id, _| open.contains_key(id.as_str()));
        owners.pruned_at = (owners.by_session.len() * 2).max(PRUNED_FROM);
    }

    fn lock(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
