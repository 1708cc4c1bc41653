//! API keys: who calls, for whom, and what they may do. Hashed at rest, shown once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use haft_core::{Actor, ActorId, ActorKind, Digest, Millis, Timestamp};
use haft_store::{ErrorKind, Expected, Page, Place, Put, PutError, Store, Tenant, Which};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::key_holds::{KeyHold, KeyHolds, LOOK_EVERY};

/// Where keys are kept: of no tenant that anyone can be.
const TENANT: &str = "haft:server";
const SPACE: &str = "keys";
/// When keys were last used, beside them: a use is no change of a key.
const USES: &str = "keys/used";
/// Where it is counted how often keys were revoked, so that one read tells a node whether any was.
const REVOCATIONS: &str = "keys/revocations";
/// The one key in that space.
const ALL: &str = "all";
/// How exactly it is told when a key was last used: each telling is a version in the store.
const USE_EVERY: Millis = Millis::from_secs(60 * 60);
/// What the name of a key starts with.
const NAME_PREFIX: &str = "key_";
/// How many keys are read at once.
const PAGE: u32 = 500;
/// The tenant of the admin key.
pub(crate) const ADMIN_TENANT: &str = "default";

/// What the holder of a key may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Make keys, and everything else.
    Admin,
    /// End waits: approve, deny, answer, hand in results.
    Approve,
    /// Look.
    Read,
    /// Register the tools of a worker and run their calls.
    Work,
    /// Make agents and environments, open sessions, talk to them.
    Write,
}

/// Who holds a key.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) actor: Actor,
    pub(crate) tenant: Tenant,
    pub(crate) scopes: Vec<Scope>,
    /// What ends with the key.
    pub(crate) hold: KeyHold,
}

/// What a key opens.
#[derive(Debug)]
pub(crate) enum Known {
    /// It is good.
    Holder(Box<Holder>),
    /// It was good until then.
    Expired(Timestamp),
    /// It was taken back then.
    Revoked(Timestamp),
    /// It opens nothing and never did.
    Unknown,
}

/// A key to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Whose data it reaches.
    pub tenant: Tenant,
    /// Who holds it; what they open is theirs.
    pub actor: Actor,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// From when on it opens nothing; `None` for a key that lasts until it is revoked.
    pub expires_at: Option<Timestamp>,
}

/// A key that was just made. It is shown this once.
#[derive(Clone, PartialEq, Eq)]
pub struct FreshKey(String);

impl FreshKey {
    /// Returns the key, to be shown to whoever asked for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for FreshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreshKey(…)")
    }
}

/// Why a key could not be made or looked up.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] haft_store::Error),
    /// The key could not be kept.
    #[error("the key could not be kept: {0}")]
    NotKept(String),
    /// No randomness.
    #[error("the system gives no randomness: {0}")]
    NoRandomness(String),
}

#[derive(Serialize, Deserialize)]
struct Record {
    digest: Digest,
    tenant: String,
    actor: Actor,
    scopes: Vec<Scope>,
    created_at: Timestamp,
    /// Since when it opens nothing any more.
    #[serde(default)]
    revoked_at: Option<Timestamp>,
    /// From when on it opens nothing.
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

impl Record {
    /// Returns what the key opens, if it is not good any more.
    fn ended(&self, now: Timestamp) -> Option<Known> {
        match (self.revoked_at, self.expires_at) {
            (Some(at), _) => Some(Known::Revoked(at)),
            (None, Some(at)) if at <= now => Some(Known::Expired(at)),
            (None, _) => None,
        }
    }
}

/// A key as it is listed: by its name, which opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedKey {
    /// What it is called, from the beginning of its hash.
    pub id: String,
    /// Whose data it reaches.
    pub tenant: String,
    /// Who holds it.
    pub actor: Actor,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, to the hour.
    pub last_used_at: Option<Timestamp>,
    /// Since when it opens nothing any more.
    pub revoked_at: Option<Timestamp>,
    /// From when on it opens nothing, if it does not last until it is revoked.
    pub expires_at: Option<Timestamp>,
}

/// The keys that open this server.
#[derive(Clone)]
pub struct Keys {
    store: Store,
    /// The key that the operator chose, if they did; it is kept nowhere.
    chosen: Option<Digest>,
    /// The uses that this node told the store of.
    told: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    /// The key that this start of the server made for programs beside it; it is kept nowhere here.
    local: Option<Digest>,
    /// The key of the workers that this start of the server runs beside itself.
    worker: Option<Digest>,
    holds: KeyHolds,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

#[haft_macros::boxed]
impl Keys {
    /// The keys of a store, and the admin key that the operator chose.
    pub fn new(store: Store, chosen: Option<&str>) -> Self {
        let chosen = chosen.map(|key| Digest::of_bytes(key.as_bytes()));
        let holds = KeyHolds::default();
        Self { store, chosen, told: Arc::default(), local: None, worker: None, holds }
    }

    /// Also lets in who holds the key of this start.
    pub(crate) fn with_local(self, key: Option<&str>) -> Self {
        Self { local: key.map(|key| Digest::of_bytes(key.as_bytes())), ..self }
    }

    /// Also lets in the workers of this start, to work and nothing else.
    pub(crate) fn with_worker(self, key: Option<&str>) -> Self {
        Self { worker: key.map(|key| Digest::of_bytes(key.as_bytes())), ..self }
    }

    /// Makes the first admin key, if there is no key at all yet.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn first(&self, now: Timestamp) -> Result<Option<FreshKey>, KeyError> {
        if self.chosen.is_some() {
            return Ok(None);
        }
        if !self.store.keys(&kept_by()?, SPACE, &Page::first(1)).await?.is_empty() {
            return Ok(None);
        }
        let tenant = Tenant::new(ADMIN_TENANT).map_err(not_kept)?;
        let (actor, scopes) = (admin(), vec![Scope::Admin]);
        self.create(NewKey { tenant, actor, scopes, expires_at: None }, now).await.map(Some)
    }

    /// Makes a key.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn create(&self, new: NewKey, now: Timestamp) -> Result<FreshKey, KeyError> {
        let mut random = [0u8; 32];
        getrandom::fill(&mut random).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("haft_{hex}");
        let digest = Digest::of_bytes(key.as_bytes());
        let NewKey { tenant, actor, scopes, expires_at } = new;
        let by = actor.clone();
        let record = Record {
            digest,
            tenant: tenant.as_str().to_owned(),
            actor,
            scopes,
            created_at: now,
            revoked_at: None,
            expires_at,
        };
        let put = put(&name_of(&digest), &record, Expected::Absent)?;
        self.store.put_versions(vec![put], &by, now).await.map_err(not_put)?;
        Ok(FreshKey(key))
    }

    /// Returns a key by its name.
    async fn record(&self, name: &str) -> Result<Option<Record>, KeyError> {
        // A text that no place can have is no key's name.
        let Ok(place) = Place::new(kept_by()?, SPACE, name) else { return Ok(None) };
        let found = match self.store.version(&place, Which::Latest).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            // Nobody made it, or it is not what they made: as good as none.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::error!(%error, key = name, "a stored API key is not obeyed");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(body) = found.body else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(not_kept)
    }

    /// Lists the keys that were made for a tenant, revoked ones too, the oldest first; without a
    /// tenant, those of all.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn list(&self, tenant: Option<&Tenant>) -> Result<Vec<ListedKey>, KeyError> {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = Page { after: after.take(), limit: PAGE };
            let names = self.store.keys(&kept_by()?, SPACE, &page).await?;
            for (name, _) in &names {
                let Some(record) = self.record(name).await? else { continue };
                if tenant.is_none_or(|tenant| tenant.as_str() == record.tenant) {
                    listed.push(self.listed(name, record).await?);
                }
            }
            if names.len() < PAGE as usize {
                listed.sort_by_key(|one| one.created_at);
                return Ok(listed);
            }
            after = names.into_iter().next_back().map(|(name, _)| name);
        }
    }

    async fn listed(&self, name: &str, record: Record) -> Result<ListedKey, KeyError> {
        let used = self.store.version(&Place::new(kept_by()?, USES, name)?, Which::Latest).await?;
        let Record { tenant, actor, scopes, created_at, revoked_at, expires_at, .. } = record;
        Ok(ListedKey {
            id: format!("{NAME_PREFIX}{name}"),
            tenant,
            actor,
            scopes,
            created_at,
            last_used_at: used.map(|used| used.info.at),
            revoked_at,
            expires_at,
        })
    }

    /// Takes a key's power away on every node: the next request that shows it is refused, and what
    /// it holds open ends, here at once and elsewhere within a second or two. Whoever revokes it
    /// again is told the same. `None` when the tenant has no such key.
    ///
    /// # Errors
    ///
    /// When the store cannot keep that.
    pub async fn revoke(
        &self,
        tenant: Option<&Tenant>,
        id: &str,
        by: &Actor,
        now: Timestamp,
    ) -> Result<Option<ListedKey>, KeyError> {
        let Some(name) = id.strip_prefix(NAME_PREFIX) else { return Ok(None) };
        let Some(mut record) = self.record(name).await? else { return Ok(None) };
        if tenant.is_some_and(|tenant| tenant.as_str() != record.tenant) {
            return Ok(None);
        }
        if record.revoked_at.is_none() {
            record.revoked_at = Some(now);
            let revoked = put(name, &record, Expected::Anything)?;
            let place = Place::new(kept_by()?, REVOCATIONS, ALL)?;
            let counted = Put { place, expected: Expected::Anything, body: Some(Vec::new()) };
            self.store.put_versions(vec![revoked, counted], by, now).await.map_err(not_put)?;
        }
        let listed = self.listed(name, record).await?;
        // Last, so that whoever revokes their own key still hears of it.
        self.holds.end(name);
        Ok(Some(listed))
    }

    /// Returns what a key opens.
    pub(crate) async fn known(&self, key: &str, now: Timestamp) -> Result<Known, KeyError> {
        let digest = Digest::of_bytes(key.as_bytes());
        let in_memory = [(self.chosen, "chosen"), (self.local, "local")];
        for (known, name) in in_memory {
            if known.is_some_and(|known| is_same(&known, &digest)) {
                let tenant = Tenant::new(ADMIN_TENANT).map_err(not_kept)?;
                let (actor, scopes) = (admin(), vec![Scope::Admin]);
                let hold = self.holds.hold(name);
                return Ok(Known::Holder(Box::new(Holder { actor, tenant, scopes, hold })));
            }
        }
        if self.worker.as_ref().is_some_and(|known| is_same(known, &digest)) {
            let tenant = Tenant::new(ADMIN_TENANT).map_err(not_kept)?;
            let actor = Actor { kind: ActorKind::Service, ..named("worker") };
            let hold = self.holds.hold("worker");
            let scopes = vec![Scope::Work];
            return Ok(Known::Holder(Box::new(Holder { actor, tenant, scopes, hold })));
        }
        let name = name_of(&digest);
        // Before it is looked up: who revokes it from now on finds the hold.
        let hold = self.holds.hold(&name);
        let Some(record) = self.record(&name).await? else { return Ok(Known::Unknown) };
        if !is_same(&record.digest, &digest) {
            return Ok(Known::Unknown);
        }
        if let Some(ended) = record.ended(now) {
            return Ok(ended);
        }
        hold.until(record.expires_at);
        self.used(&name, &record.actor, now).await?;
        let tenant = Tenant::new(&record.tenant).map_err(not_kept)?;
        let Record { actor, scopes, .. } = record;
        Ok(Known::Holder(Box::new(Holder { actor, tenant, scopes, hold })))
    }

    /// Ends what keys hold open that have expired, or that another node or command revoked.
    pub(crate) async fn end_holds(self, now: impl Fn() -> Timestamp + Send) {
        let mut seen = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.holds.is_empty() {
                continue;
            }
            self.holds.end_expired(now());
            match self.look(&mut seen, now()).await {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "revoked keys could not be looked for"),
            }
        }
    }

    /// Looks whether keys were revoked since the last look, and ends what they hold open.
    async fn look(&self, seen: &mut Option<u64>, now: Timestamp) -> Result<(), KeyError> {
        let place = Place::new(kept_by()?, REVOCATIONS, ALL)?;
        let latest = self.store.version(&place, Which::Latest).await?;
        let n_revoked = latest.map_or(0, |latest| latest.info.number);
        if *seen == Some(n_revoked) {
            return Ok(());
        }
        for name in self.holds.names() {
            if let Some(record) = self.record(&name).await?
                && record.ended(now).is_some()
            {
                self.holds.end(&name);
            }
        }
        *seen = Some(n_revoked);
        Ok(())
    }

    /// Keeps that a key was used, unless this node did so a short while ago.
    async fn used(&self, name: &str, by: &Actor, now: Timestamp) -> Result<(), KeyError> {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.get(name).is_some_and(|told| *told + USE_EVERY > now) {
                return Ok(());
            }
            told.insert(name.to_owned(), now);
        }
        let place = Place::new(kept_by()?, USES, name)?;
        let put = Put { place, expected: Expected::Anything, body: Some(Vec::new()) };
        self.store.put_versions(vec![put], by, now).await.map_err(not_put)?;
        Ok(())
    }
}

/// What is written to keep a key.
fn put(name: &str, record: &Record, expected: Expected) -> Result<Put, KeyError> {
    let place = Place::new(kept_by()?, SPACE, name)?;
    let body = Some(serde_json::to_vec(record).map_err(not_kept)?);
    Ok(Put { place, expected, body })
}

fn admin() -> Actor {
    named("admin")
}

fn named(word: &str) -> Actor {
    let id = ActorId::new(word).unwrap_or_else(|_| unreachable!("a plain word names an actor"));
    Actor { kind: ActorKind::User, id }
}

/// A key is found by the beginning of its hash, and known by all of it.
fn name_of(digest: &Digest) -> String {
    digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn kept_by() -> Result<Tenant, KeyError> {
    Tenant::new(TENANT).map_err(not_kept)
}

fn not_kept(error: impl fmt::Display) -> KeyError {
    KeyError::NotKept(error.to_string())
}

fn not_put(error: PutError) -> KeyError {
    match error {
        PutError::Store(error) => KeyError::Store(error),
        moved @ PutError::Moved { .. } => not_kept(moved),
    }
}

/// Compares in the same time whatever is equal.
fn is_same(one: &Digest, other: &Digest) -> bool {
    let pairs = one.as_bytes().iter().zip(other.as_bytes());
    std::hint::black_box(pairs.fold(0u8, |differing, (one, other)| differing | (one ^ other))) == 0
}
