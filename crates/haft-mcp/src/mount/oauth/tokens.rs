//! The tokens that were given for a mounted server: sealed in the store, so that neither a restart
//! nor another node asks a person again.

use std::sync::Arc;

use async_trait::async_trait;
use haft_core::{Actor, ToolName};
use haft_runtime::{Clock, SealingKey};
use haft_store::{Erased, Erasure, Expected, Place, Put, PutError, Store, Tenant, Which};
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::mount::desk::Desk;

/// Where they are kept.
const SPACE: &str = "mcp-tokens";

/// What tokens are kept in.
#[derive(Clone)]
pub(crate) struct Safe {
    pub(crate) store: Store,
    pub(crate) tenant: Tenant,
    /// Without one they are kept in this process only.
    pub(crate) key: Option<SealingKey>,
}

/// The tokens for one server; a clone shares them.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<Shared>);

struct Shared {
    safe: Safe,
    server: ToolName,
    /// What they are sealed under. The address is in it: whatever else is mounted under the name
    /// one day gets no token of this one.
    bound_to: String,
    desk: Arc<Desk>,
    known: Mutex<Option<Granted>>,
    /// Held by whoever refreshes them: a refresh token may be good for one use.
    refreshing: Arc<Mutex<()>>,
}

/// What was given, and to which client.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) credentials: StoredCredentials,
    pub(super) client_secret: Option<String>,
}

impl Tokens {
    pub(crate) fn new(safe: Safe, server: ToolName, url: &str, desk: Arc<Desk>) -> Self {
        let bound_to = format!("mcp/{server}/{url}");
        let (known, refreshing) = (Mutex::default(), Arc::default());
        Self(Arc::new(Shared { safe, server, bound_to, desk, known, refreshing }))
    }

    /// Returns the mount that they are for.
    pub(super) fn server(&self) -> &ToolName {
        &self.0.server
    }

    pub(super) async fn known(&self) -> Option<Granted> {
        self.0.known.lock().await.clone()
    }

    /// Reads them anew, and returns whether there are any: another node may have got others.
    pub(super) async fn look(&self) -> Result<bool, String> {
        self.seen().await.map_err(|error| error.to_string())?;
        Ok(self.0.known.lock().await.is_some())
    }

    /// Reads them anew, and returns what whoever replaces them has seen.
    async fn seen(&self) -> Result<Expected, AuthError> {
        let (seen, found) = self.kept().await?;
        if let Some(found) = found {
            self.keep_quiet(&found);
            *self.0.known.lock().await = Some(found);
        }
        Ok(seen)
    }

    /// Remembers the secret of the client that the next tokens are given to.
    pub(super) fn of_client(&self, secret: Option<String>) -> OfClient {
        OfClient { tokens: self.clone(), secret, refreshed: Mutex::default() }
    }

    async fn kept(&self) -> Result<(Expected, Option<Granted>), AuthError> {
        let Some(key) = &self.0.safe.key else { return Ok((Expected::Anything, None)) };
        let found = self.0.safe.store.version(&self.place()?, Which::Latest).await;
        let Some(found) = found.map_err(trouble)? else { return Ok((Expected::Absent, None)) };
        // What does not open was given for another address, or sealed under another key.
        let opened = found.body.and_then(|body| key.open_secret(&self.0.bound_to, &body).ok());
        let granted = opened.and_then(|opened| serde_json::from_slice(&opened).ok());
        Ok((Expected::Version(found.info.number), granted))
    }

    /// Keeps what was given in place of what was seen. Where others were put there meanwhile, those
    /// are taken if `over` is what was refreshed: a person may have agreed to more.
    async fn keep(&self, granted: Option<Granted>, over: Over) -> Result<(), AuthError> {
        if let Some(granted) = &granted {
            self.keep_quiet(granted);
        }
        if let Some(key) = &self.0.safe.key {
            let body = granted.as_ref().map(|granted| {
                let text = serde_json::to_vec(granted).map_err(trouble)?;
                key.seal_secret(&self.0.bound_to, &text).map_err(trouble)
            });
            if self.put(body.transpose()?, over).await? == Written::Others {
                return self.seen().await.map(drop);
            }
        }
        *self.0.known.lock().await = granted;
        Ok(())
    }

    /// Tokens that others took the place of are erased: nobody may use them any more.
    async fn put(&self, body: Option<Vec<u8>>, over: Over) -> Result<Written, AuthError> {
        let (store, place) = (&self.0.safe.store, self.place()?);
        loop {
            let expected = match over {
                Over::Seen(expected) => expected,
                Over::Whatever => self.kept().await?.0,
            };
            let put = Put { place: place.clone(), expected, body: body.clone() };
            let earlier = Erasure { place: place.clone(), versions: Erased::Earlier };
            let (by, now) = (Actor::system(), Clock::System.now());
            match (store.erase(vec![earlier], vec![put], &by, now).await, over) {
                (Ok(_), _) => return Ok(Written::These),
                (Err(PutError::Moved { .. }), Over::Seen(_)) => return Ok(Written::Others),
                (Err(PutError::Moved { .. }), Over::Whatever) => {}
                (Err(PutError::Store(error)), _) => return Err(trouble(error)),
            }
        }
    }

    /// No server that says its token again gets it into a log.
    fn keep_quiet(&self, granted: &Granted) {
        let given = serde_json::to_value(&granted.credentials.token_response).unwrap_or_default();
        let tokens = ["access_token", "refresh_token"].map(|name| given[name].clone());
        let tokens = tokens.iter().filter_map(Value::as_str).map(str::to_owned);
        let secrets: Vec<String> = tokens.chain(granted.client_secret.clone()).collect();
        self.0.desk.keep_quiet_about_tokens(secrets);
    }

    fn place(&self) -> Result<Place, AuthError> {
        Place::new(self.0.safe.tenant.clone(), SPACE, self.0.server.as_str()).map_err(trouble)
    }
}

/// What tokens are put in the place of.
#[derive(Clone, Copy)]
enum Over {
    /// What was refreshed.
    Seen(Expected),
    /// Whatever is there: somebody has just agreed to these, or they are of no use.
    Whatever,
}

/// Whose tokens are there now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    These,
    Others,
}

/// Tokens as `rmcp` keeps them, of one client.
pub(super) struct OfClient {
    tokens: Tokens,
    secret: Option<String>,
    /// What was seen by the refresh that is under way.
    refreshed: Mutex<Option<Expected>>,
}

#[async_trait]
impl CredentialStore for OfClient {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.tokens.known().await.map(|granted| granted.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let client_secret = self.secret.clone();
        let over = self.refreshed.lock().await.take().map_or(Over::Whatever, Over::Seen);
        self.tokens.keep(Some(Granted { credentials, client_secret }), over).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.keep(None, Over::Whatever).await
    }

    /// One refresh at a time, of the latest tokens that there are.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let guard = Arc::clone(&self.tokens.0.refreshing).lock_owned().await;
        *self.refreshed.lock().await = Some(self.tokens.seen().await?);
        Ok(Some(CredentialRefreshGuard::new(guard)))
    }
}

fn trouble(error: impl std::fmt::Display) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
