//! The tokens that were given for a mounted server: sealed in the store, so that neither a restart
//! nor another node asks a person again.

use std::sync::Arc;

use haft_core::{Actor, ToolName};
use haft_http::token_endpoint::GivenToken;
use haft_runtime::{Clock, SealingKey};
use haft_store::{Erased, Erasure, Expected, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::mount::desk::Desk;

/// Where they are kept.
const SPACE: &str = "mcp-tokens";
/// How long before its end a token is no longer used: a request takes a while to arrive.
const LAST_SECONDS: u64 = 30;

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
    pub(super) credentials: Credentials,
    pub(super) client_secret: Option<String>,
}

/// The tokens that a client has, and for what.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Credentials {
    pub(super) client_id: String,
    /// `None` if only the client is known.
    pub(super) token_response: Option<TokenResponse>,
    #[serde(default)]
    pub(super) granted_scopes: Vec<String>,
    /// When the tokens came, in seconds since 1970.
    #[serde(default)]
    token_received_at: Option<u64>,
    /// Who gave them.
    #[serde(default)]
    pub(super) issuer: Option<String>,
}

/// What a token endpoint gave.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    #[serde(default = "bearer")]
    token_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

fn bearer() -> String {
    "bearer".to_owned()
}

impl Credentials {
    /// What was given just now. A token endpoint that does not say for what means what was asked.
    pub(super) fn given(
        given: GivenToken,
        client_id: &str,
        asked_scopes: Vec<String>,
        issuer: Option<String>,
    ) -> Self {
        let named = given.scope.as_deref().map(|scope| scope.split_whitespace());
        let named = named.map(|scopes| scopes.map(str::to_owned).collect());
        let GivenToken { access_token, refresh_token, expires_in, scope } = given;
        let token_type = bearer();
        Self {
            client_id: client_id.to_owned(),
            token_response: Some(TokenResponse {
                access_token,
                token_type,
                expires_in,
                refresh_token,
                scope,
            }),
            granted_scopes: named.unwrap_or(asked_scopes),
            token_received_at: Some(now()),
            issuer,
        }
    }

    /// What is kept of a client whose id is good everywhere, for another authorization server.
    pub(super) fn client_only(client_id: String, issuer: Option<String>) -> Self {
        let (token_response, token_received_at) = (None, None);
        Self { client_id, token_response, granted_scopes: Vec::new(), token_received_at, issuer }
    }

    pub(super) fn access_token(&self) -> Option<&str> {
        self.token_response.as_ref().map(|given| given.access_token.as_str())
    }

    /// Returns whether the access token is over, or nearly; one of which that is unknown is not.
    pub(super) fn is_over(&self) -> bool {
        let expires_in = self.token_response.as_ref().and_then(|given| given.expires_in);
        let (Some(good_for), Some(since)) = (expires_in, self.token_received_at) else {
            return false;
        };
        since.saturating_add(good_for) < now().saturating_add(LAST_SECONDS)
    }
}

/// The seconds since 1970.
pub(super) fn now() -> u64 {
    u64::try_from(Clock::System.now().ms() / 1000).unwrap_or(0)
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
        self.seen().await?;
        Ok(self.0.known.lock().await.is_some())
    }

    /// Reads them anew, and returns what whoever replaces them has seen.
    async fn seen(&self) -> Result<Expected, String> {
        let (seen, found) = self.kept().await?;
        if let Some(found) = found {
            self.keep_quiet(&found);
            *self.0.known.lock().await = Some(found);
        }
        Ok(seen)
    }

    /// Waits until nobody else refreshes them, and reads the latest that there are.
    pub(super) async fn refreshing(&self) -> Result<Refreshing, String> {
        let guard = Arc::clone(&self.0.refreshing).lock_owned().await;
        Ok(Refreshing { seen: self.seen().await?, _guard: guard })
    }

    /// Keeps tokens that somebody has just agreed to, or that take the place of some that are of
    /// no use; none of them, if there are no others.
    pub(super) async fn replace(&self, granted: Option<Granted>) -> Result<(), String> {
        self.keep(granted, Over::Whatever).await
    }

    /// Keeps tokens that were refreshed, unless others were put there meanwhile: a person may have
    /// agreed to more. Then those are known from here on.
    pub(super) async fn refreshed(
        &self,
        granted: Granted,
        refreshing: &Refreshing,
    ) -> Result<(), String> {
        self.keep(Some(granted), Over::Seen(refreshing.seen)).await
    }

    async fn kept(&self) -> Result<(Expected, Option<Granted>), String> {
        let Some(key) = &self.0.safe.key else { return Ok((Expected::Anything, None)) };
        let found = self.0.safe.store.version(&self.place()?, Which::Latest).await;
        let Some(found) = found.map_err(trouble)? else { return Ok((Expected::Absent, None)) };
        // What does not open was given for another address, or sealed under another key.
        let opened = found.body.and_then(|body| key.open_secret(&self.0.bound_to, &body).ok());
        let granted = opened.and_then(|opened| serde_json::from_slice(&opened).ok());
        Ok((Expected::Version(found.info.number), granted))
    }

    async fn keep(&self, granted: Option<Granted>, over: Over) -> Result<(), String> {
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
    async fn put(&self, body: Option<Vec<u8>>, over: Over) -> Result<Written, String> {
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
        let given = granted.credentials.token_response.iter();
        let tokens = given.flat_map(|given| {
            std::iter::once(given.access_token.clone()).chain(given.refresh_token.clone())
        });
        let secrets: Vec<String> = tokens.chain(granted.client_secret.clone()).collect();
        self.0.desk.keep_quiet_about_tokens(secrets);
    }

    fn place(&self) -> Result<Place, String> {
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

/// A refresh that is under way: no other one of this process is.
pub(super) struct Refreshing {
    /// What was read when it began.
    seen: Expected,
    _guard: OwnedMutexGuard<()>,
}

fn trouble(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it was kept when `rmcp` wrote it.
    const KEPT: &str = r#"{
        "credentials": {
            "client_id": "haft-here",
            "token_response": {
                "access_token": "a-1", "token_type": "bearer", "expires_in": 3600,
                "refresh_token": "r-1", "scope": "read write", "vendor": {"x": 1}
            },
            "granted_scopes": ["read", "write"], "token_received_at": 1700000000,
            "issuer": "https://auth.example"
        },
        "client_secret": null
    }"#;

    #[test]
    fn what_earlier_versions_kept_is_read() {
        let kept: Granted = serde_json::from_str(KEPT).unwrap();
        let credentials = &kept.credentials;
        assert_eq!(credentials.access_token(), Some("a-1"));
        assert_eq!(
            credentials.token_response.as_ref().unwrap().refresh_token.as_deref(),
            Some("r-1")
        );
        assert_eq!(credentials.granted_scopes, ["read", "write"]);
        assert_eq!(credentials.issuer.as_deref(), Some("https://auth.example"));
        assert!(credentials.is_over());
        let written: serde_json::Value = serde_json::to_value(&kept).unwrap();
        assert_eq!(written["credentials"]["token_response"]["scope"], "read write");
    }

    #[test]
    fn a_token_is_over_a_little_before_its_end() {
        let given = |expires_in| {
            let (access_token, refresh_token, scope) = ("a".to_owned(), None, None);
            let given = GivenToken { access_token, refresh_token, expires_in, scope };
            Credentials::given(given, "me", vec!["read".to_owned()], None)
        };
        assert!(given(Some(1)).is_over() && given(Some(25)).is_over());
        assert!(!given(Some(3600)).is_over() && !given(None).is_over());
        assert_eq!(given(None).granted_scopes, ["read"], "what was asked for");
    }
}
