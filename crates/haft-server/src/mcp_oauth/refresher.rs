//! Gets access tokens anew for credentials whose vault's keeper said how.
//!
//! A refresh token may be good for one use, on whatever node: one node at a time asks for a
//! credential, and the others take what that one was given.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft_core::{Actor, Millis, Timestamp};
use haft_http::token_endpoint::{GivenToken, TokenError};
use haft_http::{NoRootsError, Reach, Trust};
use haft_runtime::{Clock, Haft, SealingKey};
use haft_store::{Expected, Place, Put, PutError, Store, Tenant, Which};
use serde_json::Value;
use tokio::time::Instant;

use super::said::Said;
use super::{Held, Refresh};
use crate::error::Error;
use crate::objects::{Object, Objects};
use crate::routes::v1::vault_credentials::{self, Credential};
use crate::secrets::{sealed_in, written};

/// For how long a credential is left to the node that claimed it. More than asking takes.
const HOLD: Millis = Millis::from_secs(40);
/// How often it is looked whether another node is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long another node is waited for.
const PATIENCE: Duration = Duration::from_secs(50);
/// For how long it is tried to write what was given: what was sent for it may be used up.
const KEEP_FOR: Duration = Duration::from_secs(300);
/// How long the store is left alone after trouble, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Gets access tokens anew for a tenant's credentials; a clone shares what it knows.
#[derive(Clone)]
pub(crate) struct Refresher(Arc<Shared>);

struct Shared {
    store: Store,
    objects: Objects,
    tenant: Tenant,
    sealing: Sealing,
    reach: Reach,
    trust: OnceLock<Result<Trust, NoRootsError>>,
}

/// What seals and opens.
pub(crate) enum Sealing {
    /// A key.
    Key(SealingKey),
    /// The key of a node that runs.
    Node(Haft),
}

impl Sealing {
    fn open(&self, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let opened = match self {
            Self::Key(key) => key.open_secret(name, sealed),
            Self::Node(haft) => haft.open_secret(name, sealed),
        };
        opened.ok()
    }

    fn seal(&self, name: &str, secret: &[u8]) -> Result<Vec<u8>, Error> {
        let sealed = match self {
            Self::Key(key) => key.seal_secret(name, secret),
            Self::Node(haft) => haft.seal_secret(name, secret),
        };
        sealed.map_err(Error::internal)
    }
}

/// Why there is no other access token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unrefreshed {
    /// It was archived or deleted, or does not open.
    #[error("it is gone")]
    Gone,
    /// Nobody said how.
    #[error("it cannot be refreshed")]
    Never,
    /// The token endpoint does not want to.
    #[error("{}", refused(said.status(), code.as_deref()))]
    Refused {
        /// The code of the error.
        code: Option<String>,
        /// The whole answer.
        said: Said,
    },
    /// Nobody answered.
    #[error("the token endpoint cannot be asked: {0}")]
    Unanswered(String),
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

fn refused(status: u16, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("the token endpoint refused with `{code}`"),
        None => format!("the token endpoint refused with the status {status}"),
    }
}

impl From<TokenError> for Unrefreshed {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused { code, reply } => Self::Refused { code, said: Said(reply) },
            TokenError::Unanswered(why) => Self::Unanswered(why),
        }
    }
}

impl From<haft_store::Error> for Unrefreshed {
    fn from(error: haft_store::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What one node has for a while: nobody else asks for that credential.
struct Claim {
    place: Place,
    number: u64,
}

/// What a token endpoint gave, and for what.
struct Answered {
    sent: Held,
    given: GivenToken,
    at: Timestamp,
}

impl Refresher {
    pub(crate) fn new(store: Store, tenant: Tenant, sealing: Sealing, reach: Reach) -> Self {
        let objects = Objects::new(store.clone());
        let trust = OnceLock::new();
        Self(Arc::new(Shared { store, objects, tenant, sealing, reach, trust }))
    }

    /// Whose certificates are trusted.
    pub(crate) fn trust(&self) -> &Result<Trust, NoRootsError> {
        self.0.trust.get_or_init(Trust::of_the_system)
    }

    /// Opens what is sealed of a credential.
    pub(crate) fn opened(&self, credential: &Object) -> Option<Held> {
        let opened = self.0.sealing.open(&credential.id, &sealed_in(credential)?)?;
        Held::read(credential.members.get("auth")?, opened)
    }

    /// Returns the version of a credential with another access token than the one that was seen,
    /// after getting one if there is none.
    pub(crate) async fn another(
        &self,
        vault: &str,
        id: &str,
        seen: &str,
    ) -> Result<u64, Unrefreshed> {
        let began = Instant::now();
        loop {
            let (credential, held) = self.current(vault, id).await?;
            if held.access_token != seen {
                return Ok(credential.number);
            }
            if !can_refresh(&credential) {
                return Err(Unrefreshed::Never);
            }
            if let Some(claim) = self.claim(vault, id).await? {
                return self.asked(claim, vault, id, seen).await;
            }
            if began.elapsed() > PATIENCE {
                let why = "another node is at it, and takes too long".to_owned();
                return Err(Unrefreshed::Unanswered(why));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Asks in a task of its own: whoever no longer waits for the answer does not lose it, when
    /// what was sent for it is used up.
    async fn asked(
        &self,
        mut claim: Claim,
        vault: &str,
        id: &str,
        seen: &str,
    ) -> Result<u64, Unrefreshed> {
        let (this, seen) = (self.clone(), seen.to_owned());
        let (vault, id) = (vault.to_owned(), id.to_owned());
        let asking = tokio::spawn(async move {
            let asked = this.ask(&mut claim, &vault, &id, &seen).await;
            this.release(claim).await;
            asked
        });
        let broken = |error: tokio::task::JoinError| Unrefreshed::Unanswered(error.to_string());
        let late = |_| Unrefreshed::Unanswered("the store does not take what was given".to_owned());
        tokio::time::timeout(PATIENCE, asking).await.map_err(late)?.map_err(broken)?
    }

    /// Reads a credential as it is now, and what is sealed of it.
    pub(crate) async fn current(
        &self,
        vault: &str,
        id: &str,
    ) -> Result<(Object, Held), Unrefreshed> {
        let space = vault_credentials::space(vault);
        let found = self.0.objects.find_in(&self.0.tenant, &space, id, Which::Latest).await?;
        let found = found.map(Credential).filter(Credential::is_current);
        let credential = found.ok_or(Unrefreshed::Gone)?.0;
        let held = self.opened(&credential).ok_or(Unrefreshed::Gone)?;
        Ok((credential, held))
    }

    /// Asks the token endpoint, if nobody else has done so in the meantime.
    async fn ask(
        &self,
        claim: &mut Claim,
        vault: &str,
        id: &str,
        seen: &str,
    ) -> Result<u64, Unrefreshed> {
        let (credential, held) = self.current(vault, id).await?;
        if held.access_token != seen {
            return Ok(credential.number);
        }
        let refresh = credential.members.get("auth").and_then(Refresh::of);
        let (Some(refresh), Some(sent)) = (refresh, held.refresh.clone()) else {
            return Err(Unrefreshed::Never);
        };
        let given = refresh.request(&sent).send(self.0.reach, self.trust()).await?;
        self.keep(claim, vault, id, &Answered { sent: held, given, at: Clock::System.now() }).await
    }

    /// Writes what was given, also when the store has trouble for a while.
    async fn keep(
        &self,
        claim: &mut Claim,
        vault: &str,
        id: &str,
        answered: &Answered,
    ) -> Result<u64, Unrefreshed> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.try_to_keep(vault, id, answered).await {
                Err(Unrefreshed::Store(error)) if error.is_conflict() => {}
                Err(Unrefreshed::Store(_)) if began.elapsed() < KEEP_FOR => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                    self.hold_on(claim).await;
                }
                kept => return kept,
            }
        }
    }

    async fn try_to_keep(
        &self,
        vault: &str,
        id: &str,
        Answered { sent, given, at }: &Answered,
    ) -> Result<u64, Unrefreshed> {
        let (Object { number, mut members, .. }, held) = self.current(vault, id).await?;
        let next = held.after(sent, given);
        if next == held {
            return Ok(number);
        }
        if let (true, Some(auth)) =
            (next.access_token != held.access_token, members.get_mut("auth"))
        {
            let expires_at = given.expires_in.map(|seconds| *at + Millis::from_secs(seconds));
            auth["expires_at"] = expires_at.map(|at| at.to_string()).into();
        }
        let sealed = self.0.sealing.seal(id, next.text()?.as_bytes())?;
        members.insert("sealed".to_owned(), written(&sealed));
        let place = Place::new(self.0.tenant.clone(), &vault_credentials::space(vault), id)?;
        let (expected, by) = (Expected::Version(number), Actor::system());
        Ok(self.0.objects.replace(place, expected, &members, &by, *at).await?)
    }

    /// Claims a credential, unless another node has it.
    async fn claim(&self, vault: &str, id: &str) -> Result<Option<Claim>, Unrefreshed> {
        let (store, now) = (&self.0.store, Clock::System.now());
        let place =
            Place::new(self.0.tenant.clone(), &format!("v1/vaults/{vault}/refreshing"), id)?;
        let expected = match store.version(&place, Which::Latest).await? {
            Some(taken) if taken.body.is_some() && now.since(taken.info.at) < HOLD => {
                return Ok(None);
            }
            Some(before) => Expected::Version(before.info.number),
            None => Expected::Absent,
        };
        let put = Put { place: place.clone(), expected, body: Some(b"{}".to_vec()) };
        match store.put_versions(vec![put], &Actor::system(), now).await {
            Ok(numbers) => Ok(numbers.first().map(|number| Claim { place, number: *number })),
            Err(PutError::Moved { .. }) => Ok(None),
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    /// Claims anew what would lapse. If another node has claimed it meanwhile, or nothing can be
    /// written, what was given is written all the same: the refresh token says whether it counts.
    async fn hold_on(&self, claim: &mut Claim) {
        let expected = Expected::Version(claim.number);
        let put = Put { place: claim.place.clone(), expected, body: Some(b"{}".to_vec()) };
        let (by, now) = (Actor::system(), Clock::System.now());
        if let Ok(numbers) = self.0.store.put_versions(vec![put], &by, now).await {
            claim.number = numbers.first().copied().unwrap_or(claim.number);
        }
    }

    async fn release(&self, claim: Claim) {
        let expected = Expected::Version(claim.number);
        let put = Put { place: claim.place, expected, body: None };
        let (by, now) = (Actor::system(), Clock::System.now());
        if let Err(error) = self.0.store.put_versions(vec![put], &by, now).await {
            tracing::warn!(%error, "a credential stays claimed for a while");
        }
    }
}

/// Whether its vault's keeper said how a credential is refreshed.
pub(crate) fn can_refresh(credential: &Object) -> bool {
    let refresh = credential.members.get("auth").and_then(|auth| auth.get("refresh"));
    refresh.is_some_and(Value::is_object)
}
