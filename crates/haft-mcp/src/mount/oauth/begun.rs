//! The authorizations that people were sent away for: sealed in the store, so that they may come
//! back to another node, or after a restart. Each is good for one answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::{Actor, Digest, Millis, Timestamp, ToolName};
use haft_http::form;
use haft_runtime::Clock;
use haft_store::{Erased, Erasure, Error, Expected, Page, Place, Put, PutError, Which};
use serde::{Deserialize, Serialize};

use super::metadata::AuthorizationServer;
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
    pub(super) state: AuthorizationState,
    pub(super) client: Client,
    /// Whom the person was sent to.
    pub(super) metadata: AuthorizationServer,
    /// What the token is for; where it is left out, the address of the mount.
    #[serde(default)]
    pub(super) resource: Option<String>,
    /// Where the person comes back to.
    pub(super) back_to: String,
    pub(super) by: Actor,
}

/// What only the person and this node know of an authorization, and what its answer is held
/// against.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationState {
    /// Shows that whoever has the code also began this.
    pub(super) pkce_verifier: String,
    /// What the person brings back.
    pub(super) csrf_token: String,
    /// Who may answer, if that is known.
    #[serde(default)]
    pub(super) expected_issuer: Option<String>,
    /// Whether the answer must say who it is from.
    #[serde(default)]
    pub(super) require_issuer: bool,
    /// In seconds since 1970.
    pub(super) created_at: u64,
    #[serde(default)]
    pub(super) requested_scopes: Vec<String>,
}

impl AuthorizationState {
    /// Checks that an answer is from whom the person was sent to (RFC 9207): another one could have
    /// led them here with a code of its own.
    pub(super) fn require_from(&self, issuer: Option<&str>) -> Result<(), String> {
        match (&self.expected_issuer, issuer) {
            (Some(expected), Some(issuer)) if expected == issuer => Ok(()),
            (Some(expected), Some(issuer)) => {
                Err(format!("the answer is from {issuer}, the person was sent to {expected}"))
            }
            (Some(expected), None) if self.require_issuer => {
                Err(format!("the answer does not say that it is from {expected}"))
            }
            (None, Some(issuer)) => {
                Err(format!("the answer is from {issuer}, and nobody knows whether it should be"))
            }
            (None, None) if self.require_issuer => {
                Err("the answer does not say whom it is from".to_owned())
            }
            (_, None) => Ok(()),
        }
    }
}

/// What a person comes back with.
#[derive(Clone)]
pub(crate) struct Returned {
    pub(super) code: String,
    pub(crate) state: String,
    /// Whom it is from.
    pub(super) issuer: Option<String>,
}

impl Returned {
    /// Reads the address that a person was sent back to.
    pub(crate) fn read(url: &str) -> Option<Self> {
        let (_, query) = url.split('#').next()?.split_once('?')?;
        let field = |name: &str| {
            form::decode(query).find(|(found, _)| found == name).map(|(_, value)| value)
        };
        Some(Self { code: field("code")?, state: field("state")?, issuer: field("iss") })
    }
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

impl Awaited {
    /// Takes the authorization for its one answer, before the code is used.
    pub(super) async fn take(&self) -> Result<(), String> {
        match self.authorizations.take(&self.key, self.version).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err("another answer was first: begin it again if that came to nothing".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_comes_back_with_is_in_the_address() {
        let read = Returned::read("http://x/cb?code=a%2Bb&state=s+1&iss=https%3A%2F%2Fi#end");
        let read = read.unwrap();
        assert_eq!((read.code.as_str(), read.state.as_str()), ("a+b", "s 1"));
        assert_eq!(read.issuer.as_deref(), Some("https://i"));
        for other in ["http://x/cb", "http://x/cb?error=access_denied&state=s", "?code=1"] {
            assert!(Returned::read(other).is_none(), "{other}");
        }
    }

    #[test]
    fn an_answer_is_from_whom_the_person_was_sent_to() {
        let state = |expected: Option<&str>, require_issuer| AuthorizationState {
            pkce_verifier: String::new(),
            csrf_token: String::new(),
            expected_issuer: expected.map(str::to_owned),
            require_issuer,
            created_at: 0,
            requested_scopes: Vec::new(),
        };
        let (a, b) = ("https://a.example", "https://b.example");
        assert!(state(Some(a), true).require_from(Some(a)).is_ok());
        assert!(state(Some(a), false).require_from(None).is_ok());
        assert!(state(None, false).require_from(None).is_ok());
        for (expected, require_issuer, from) in [
            (Some(a), false, Some(b)),
            (Some(a), true, None),
            (Some(a), false, Some("https://a.example/")),
            (None, false, Some(a)),
            (None, true, None),
        ] {
            assert!(state(expected, require_issuer).require_from(from).is_err(), "{from:?}");
        }
    }
}
