//! The connections to one mounted server: the node's own, and one for each credential that
//! sessions bring, so that nobody's calls go out over another's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::SessionId;
use haft_runtime::ToolError;
use tokio::time::Instant;

use super::declared::is_secret_header;
use super::desk::Desk;
use super::link::{Admission, Bounds, Link};
use super::oauth::OAuth;
use super::setting::{Credential, Secrets, Setting, VaultEntry};
use super::{MountConfig, Peer};
use crate::questions::Questions;

/// How long the connection of a credential is kept that no call needs.
const IDLE_MAX: Duration = Duration::from_secs(60);

pub(super) struct Links {
    own: Arc<Link>,
    peer: Peer,
    bounds: Bounds,
    secrets: Secrets,
    questions: Questions,
    brought: Mutex<BTreeMap<VaultEntry, Brought>>,
}

/// The connection of a credential. What is under way over it keeps it when it is forgotten here.
struct Brought {
    version: u64,
    link: Arc<Link>,
    used_at: Instant,
}

impl Links {
    pub(super) fn new(
        own: Link,
        config: &MountConfig,
        secrets: Secrets,
        questions: Questions,
    ) -> Self {
        let (peer, bounds) = (config.peer.clone(), config.bounds());
        let (own, brought) = (Arc::new(own), Mutex::default());
        Self { own, peer, bounds, secrets, questions, brought }
    }

    /// Returns the node's own.
    pub(super) fn own(&self) -> &Arc<Link> {
        &self.own
    }

    /// Returns the one that a session's next call goes over.
    pub(super) async fn of(self: &Arc<Self>, session: SessionId) -> Result<Arc<Link>, ToolError> {
        let Peer::Http { url, headers, .. } = &self.peer else { return Ok(Arc::clone(&self.own)) };
        match self.secrets.credential(session, url).await? {
            Some(credential) => Ok(self.with(credential, url, headers)),
            None => Ok(Arc::clone(&self.own)),
        }
    }

    fn with(
        self: &Arc<Self>,
        credential: Credential,
        url: &str,
        headers: &BTreeMap<String, Setting>,
    ) -> Arc<Link> {
        let Credential { entry, version } = credential;
        let mut brought = self.lock();
        // Whoever looked it up a moment earlier is not given an older secret for that.
        if let Some(known) = brought.get_mut(&entry).filter(|known| known.version >= version) {
            known.used_at = Instant::now();
            return Arc::clone(&known.link);
        }
        let mut headers = open_ones(headers);
        headers.insert("Authorization".to_owned(), Setting::bearer(entry.clone()));
        let peer = Peer::Http { url: url.to_owned(), headers, oauth: OAuth::default() };
        let desk = Arc::new(Desk::new(self.questions.clone()));
        let admission = Admission::Brought(entry.clone());
        let link = Link::new(peer, self.bounds, desk, self.secrets.clone(), admission);
        let link = Arc::new(link);
        let (shared, used_at) = (Arc::clone(&link), Instant::now());
        brought.insert(entry.clone(), Brought { version, link: shared, used_at });
        drop(brought);
        self.forget_when_idle(entry, version);
        link
    }

    fn forget_when_idle(self: &Arc<Self>, entry: VaultEntry, version: u64) {
        let links = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_MAX).await;
                let Some(links) = links.upgrade() else { return };
                let mut brought = links.lock();
                match brought.get(&entry).filter(|known| known.version == version) {
                    Some(known) if known.used_at.elapsed() < IDLE_MAX => {}
                    Some(_) => {
                        brought.remove(&entry);
                        return;
                    }
                    None => return,
                }
            }
        });
    }

    pub(super) async fn close(&self) {
        self.lock().clear();
        self.own.close().await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VaultEntry, Brought>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a mount sends that says nothing about who it is.
fn open_ones(headers: &BTreeMap<String, Setting>) -> BTreeMap<String, Setting> {
    let is_open =
        |(name, value): &(&String, &Setting)| value.secret().is_none() && !is_secret_header(name);
    let open = headers.iter().filter(is_open);
    open.map(|(name, value)| (name.clone(), value.clone())).collect()
}
