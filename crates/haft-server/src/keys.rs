//! API keys: who calls, for whom, and what they may do. Hashed at rest, shown once.

use std::fmt;

use haft_core::{Actor, ActorId, ActorKind, Digest, Timestamp};
use haft_store::{Expected, Page, Place, Put, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

/// Where keys are kept: of no tenant that anyone can be.
const TENANT: &str = "haft:server";
const SPACE: &str = "keys";
/// The tenant of the admin key.
const ADMIN_TENANT: &str = "default";

/// What the holder of a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Make keys, and everything else.
    Admin,
    /// End waits: approve, deny, answer, hand in results.
    Approve,
    /// Look.
    Read,
    /// Make agents and environments, open sessions, talk to them.
    Write,
}

/// Who holds a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) actor: Actor,
    pub(crate) tenant: Tenant,
    pub(crate) scopes: Vec<Scope>,
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
}

/// The keys that open this server.
#[derive(Clone)]
pub struct Keys {
    store: Store,
    /// The key that the operator chose, if they did; it is kept nowhere.
    chosen: Option<Digest>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// The keys of a store, and the admin key that the operator chose.
    pub fn new(store: Store, chosen: Option<&str>) -> Self {
        Self { store, chosen: chosen.map(|key| Digest::of_bytes(key.as_bytes())) }
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
        let (tenant, _) = place_of(&Digest::ZERO)?;
        if !self.store.keys(&tenant, SPACE, &Page::first(1)).await?.is_empty() {
            return Ok(None);
        }
        let tenant = Tenant::new(ADMIN_TENANT).map_err(not_kept)?;
        self.create(tenant, admin(), vec![Scope::Admin], now).await.map(Some)
    }

    /// Makes a key.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn create(
        &self,
        tenant: Tenant,
        actor: Actor,
        scopes: Vec<Scope>,
        now: Timestamp,
    ) -> Result<FreshKey, KeyError> {
        let mut random = [0u8; 32];
        getrandom::fill(&mut random).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("haft_{hex}");
        let digest = Digest::of_bytes(key.as_bytes());
        let tenant = tenant.as_str().to_owned();
        let record = Record { digest, tenant, actor: actor.clone(), scopes, created_at: now };
        let (_, place) = place_of(&digest)?;
        let body = serde_json::to_vec(&record).map_err(not_kept)?;
        let put = Put { place, expected: Expected::Absent, body: Some(body) };
        self.store.put_versions(vec![put], &actor, now).await.map_err(not_kept)?;
        Ok(FreshKey(key))
    }

    /// Returns who holds a key; `None` for one that opens nothing.
    pub(crate) async fn holder(&self, key: &str) -> Result<Option<Holder>, KeyError> {
        let digest = Digest::of_bytes(key.as_bytes());
        if self.chosen.is_some_and(|chosen| is_same(&chosen, &digest)) {
            let tenant = Tenant::new(ADMIN_TENANT).map_err(not_kept)?;
            return Ok(Some(Holder { actor: admin(), tenant, scopes: vec![Scope::Admin] }));
        }
        let (_, place) = place_of(&digest)?;
        let found = self.store.version(&place, Which::Latest).await?;
        let Some(body) = found.and_then(|version| version.body) else { return Ok(None) };
        let record: Record = serde_json::from_slice(&body).map_err(not_kept)?;
        if !is_same(&record.digest, &digest) {
            return Ok(None);
        }
        let tenant = Tenant::new(&record.tenant).map_err(not_kept)?;
        Ok(Some(Holder { actor: record.actor, tenant, scopes: record.scopes }))
    }
}

fn admin() -> Actor {
    let id = ActorId::new("admin").unwrap_or_else(|_| unreachable!("a plain word names an actor"));
    Actor { kind: ActorKind::User, id }
}

/// A key is found by the beginning of its hash, and known by all of it.
fn place_of(digest: &Digest) -> Result<(Tenant, Place), KeyError> {
    let tenant = Tenant::new(TENANT).map_err(not_kept)?;
    let name: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let place = Place::new(tenant.clone(), SPACE, &name)?;
    Ok((tenant, place))
}

fn not_kept(error: impl fmt::Display) -> KeyError {
    KeyError::NotKept(error.to_string())
}

/// Compares in the same time whatever is equal.
fn is_same(one: &Digest, other: &Digest) -> bool {
    let pairs = one.as_bytes().iter().zip(other.as_bytes());
    std::hint::black_box(pairs.fold(0u8, |differing, (one, other)| differing | (one ^ other))) == 0
}
