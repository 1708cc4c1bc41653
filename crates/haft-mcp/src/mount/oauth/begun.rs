//! The authorizations that people were sent away for: sealed in the store, so that they may come
//! back to another node, or after a restart. Each is good for one answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use haft_core::{Actor, Digest, Millis, Timestamp, ToolName};
use haft_runtime::Clock;
use haft_store::{Erased, Erasure, Error, Expected, Page, Place, Put, PutError, Which};
use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, StateStore, StoredAuthorizationState,
};
use serde::{Deserialize, Serialize};

use super::tokens::Safe;

/// Where they are kept.
const SPACE: &str = "mcp-authorizations";
/// How long a person may take.
const MAX_AGE: Millis = Millis::from_secs(10 * 60);
/// How many that nobody came back from are forgotten when another one begins.
const FORGOTTEN_AT_ONCE: u32 = 100;

/// An authorization that a person was sent away for.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// The mount that it is for.
    pub(crate) server: ToolName,
    /// Where that was.
    pub(super) url: String,
    /// What the person brings back, which nobody else can know, and what shows who asked.
    pub(super) state: StoredAuthorizationState,
    pub(super) client: Client,
    /// Whom the person was sent to.
    pub(super) metadata: AuthorizationMetadata,
    /// The words with which the server wanted it.
    pub(super) challenge: Option<String>,
    /// Where the person comes back to.
    pub(super) back_to: String,
    pub(super) by: Actor,
}

/// Who this node is to whoever gives tokens.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
}

/// Those of one tenant; a clone shares them.
#[derive(Clone)]
pub(crate) struct Authorizations(Arc<Shared>);

struct Shared {
    safe: Safe,
    /// Without a key they are kept in this process only.
    here: Mutex<BTreeMap<String, (Timestamp, Begun)>>,
}

/// One that waits for its answer.
#[derive(Clone)]
pub(crate) struct Awaited {
    authorizations: Authorizations,
    key: String,
    version: u64,
    pub(crate) begun: Begun,
}

impl Authorizations {
    pub(crate) fn new(safe: Safe) -> Self {
        Self(Arc::new(Shared { safe, here: Mutex::default() }))
    }

    pub(super) async fn keep(&self, begun: Begun) -> Result<(), String> {
        let (name, now) = (key(&begun.state.csrf_token), Clock::System.now());
        let Some(sealing) = &self.0.safe.key else {
            let mut here = self.here();
            here.retain(|_, (at, _)| !is_over(*at, now));
            here.insert(name, (now, begun));
            return Ok(());
        };
        self.forget_old(now).await.map_err(|error| error.to_string())?;
        let text = serde_json::to_vec(&begun).map_err(|error| error.to_string())?;
        let body = sealing.seal_secret(&self.bound_to(&name), &text);
        let body = Some(body.map_err(|error| error.to_string())?);
        let place = self.place(&name).map_err(|error| error.to_string())?;
        let put = Put { place, expected: Expected::Absent, body };
        let put = self.0.safe.store.put_versions(vec![put], &begun.by, now).await;
        put.map(drop).map_err(|error| error.to_string())
    }

    /// Finds the one that a person came back from, by what they bring.
    pub(crate) async fn find(&self, state: &str) -> Result<Option<Awaited>, Error> {
        let (name, now) = (key(state), Clock::System.now());
        let Some(sealing) = &self.0.safe.key else {
            let found = self.here().get(&name).filter(|(at, _)| !is_over(*at, now)).cloned();
            return Ok(found.map(|(_, begun)| self.awaited(name, 0, begun)));
        };
        let found = self.0.safe.store.version(&self.place(&name)?, Which::Latest).await?;
        let Some(found) = found.filter(|found| !is_over(found.info.at, now)) else {
            return Ok(None);
        };
        let opened =
            found.body.and_then(|body| sealing.open_secret(&self.bound_to(&name), &body).ok());
        let begun = opened.and_then(|opened| serde_json::from_slice(&opened).ok());
        Ok(begun.map(|begun| self.awaited(name, found.info.number, begun)))
    }

    fn awaited(&self, key: String, version: u64, begun: Begun) -> Awaited {
        Awaited { authorizations: self.clone(), key, version, begun }
    }

    /// Takes one away, if nobody was first; returns whether that was so.
    async fn take(&self, key: &str, version: u64) -> Result<bool, Error> {
        if self.0.safe.key.is_none() {
            return Ok(self.here().remove(key).is_some());
        }
        let (place, expected) = (self.place(key)?, Expected::Version(version));
        let erasure = Erasure { place: place.clone(), versions: Erased::Earlier };
        let put = Put { place, expected, body: None };
        let (store, by) = (&self.0.safe.store, Actor::system());
        match store.erase(vec![erasure], vec![put], &by, Clock::System.now()).await {
            Ok(_) => Ok(true),
            Err(PutError::Moved { .. }) => Ok(false),
            Err(PutError::Store(error)) => Err(error),
        }
    }

    async fn forget_old(&self, now: Timestamp) -> Result<(), Error> {
        let Safe { store, tenant, .. } = &self.0.safe;
        let kept = store.keys(tenant, SPACE, &Page::first(FORGOTTEN_AT_ONCE)).await?;
        for (key, info) in kept.into_iter().filter(|(_, info)| is_over(info.at, now)) {
            self.take(&key, info.number).await?;
        }
        Ok(())
    }

    fn place(&self, key: &str) -> Result<Place, Error> {
        Place::new(self.0.safe.tenant.clone(), SPACE, key)
    }

    /// What one is sealed under: nobody makes another tenant's, or another answer's, out of it.
    fn bound_to(&self, key: &str) -> String {
        format!("{SPACE}/{}/{key}", self.0.safe.tenant.as_str())
    }

    fn here(&self) -> MutexGuard<'_, BTreeMap<String, (Timestamp, Begun)>> {
        self.0.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever reads the store learns nothing with which a person could come back.
fn key(state: &str) -> String {
    Digest::of_bytes(state.as_bytes()).to_string()
}

fn is_over(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) > MAX_AGE
}

/// As `rmcp` goes about it: it looks whether the answer is the right one's, takes the
/// authorization, and only then uses the code.
#[async_trait]
impl StateStore for Awaited {
    async fn save(&self, _: &str, _: StoredAuthorizationState) -> Result<(), AuthError> {
        Err(AuthError::InternalError("an authorization begins only once".to_owned()))
    }

    async fn load(&self, _: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        Ok(Some(self.begun.state.clone()))
    }

    async fn delete(&self, _: &str) -> Result<(), AuthError> {
        match self.authorizations.take(&self.key, self.version).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let message = "another answer was first: begin it again if that came to nothing";
                Err(AuthError::AuthorizationFailed(message.to_owned()))
            }
            Err(error) => Err(AuthError::InternalError(error.to_string())),
        }
    }
}
