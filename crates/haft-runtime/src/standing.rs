//! Grants beyond a session: kept as versions in the store, and counted before they are used.
//!
//! A use is taken from a grant before the call that may need it is decided about, by compare and
//! set, so that no two nodes spend the same. What a proposal is shown is a grant for that one use,
//! which soon ends; the log of its session then says whether it was used. What was not used is put
//! back by whoever looks next.

use haft_core::permission::{GrantUse, StandingGrant};
use haft_core::session::{Config, Event};
use haft_core::tool::Contract;
use haft_core::{Actor, ActorId, ActorKind, Arguments, CallId, GrantId, Millis, SessionId};
use haft_core::{Timestamp, ToolName};
use haft_store::{Expected, Page, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

const SPACE: &str = "grants";
const PAGE: u32 = 200;
/// How long a proposal may take to be decided. The grant that it is shown ends then.
const SHOWN_FOR: Millis = Millis::from_secs(60);
/// How far clocks may differ, and a write may lag, before a use that no log knows is put back.
const LAG_MAX: Millis = Millis::from_secs(600);
/// How many uses of one grant may be undecided at the same time.
const UNDECIDED_MAX: usize = 64;
/// How often a grant is looked at anew when others are faster. After that, a person is asked.
const TRIES_MAX: u32 = 64;

/// For whom a grant stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// For every session of the tenant.
    Tenant,
    /// For the sessions that this person opened.
    User(ActorId),
    /// For the sessions of this agent.
    Agent(String),
}

impl Holder {
    fn is(&self, wanted: &Wanted<'_>) -> bool {
        match self {
            Self::Tenant => true,
            Self::User(id) => {
                wanted.opened_by.kind == ActorKind::User && wanted.opened_by.id == *id
            }
            Self::Agent(id) => wanted.config.agent.as_ref().is_some_and(|agent| agent.id == *id),
        }
    }
}

/// A grant beyond a session, with what is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldGrant {
    /// For whom it stands.
    pub holder: Holder,
    /// What it permits. Its uses and its budget are what is left.
    pub grant: StandingGrant,
    /// What was taken from it for calls of which nobody has looked up what became of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    undecided: Vec<Taken>,
}

/// A use that was taken for a call before the call was decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    session: SessionId,
    call: CallId,
    used: GrantUse,
    /// The end of the session's log when it was taken; what was decided stands after it.
    after_seq: u64,
    until: Timestamp,
}

/// What became of a use that was taken.
enum Fate {
    Used,
    Unused,
    Undecided,
}

/// A call for which a grant is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) session: SessionId,
    pub(crate) call: CallId,
    pub(crate) opened_by: &'a Actor,
    pub(crate) config: &'a Config,
    pub(crate) contract: &'a Contract,
    pub(crate) arguments: &'a Arguments,
}

/// What is wrong with the grants in the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LedgerError {
    /// A stored grant cannot be read.
    #[error("a stored grant cannot be read: {message}")]
    Unreadable {
        /// Why.
        message: String,
    },
    /// Others change it faster than it can be changed.
    #[error("the grant is being used too often to be changed; try again")]
    Busy,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] haft_store::Error),
}

impl LedgerError {
    fn unreadable(error: impl std::fmt::Display) -> Self {
        Self::Unreadable { message: error.to_string() }
    }
}

/// The grants of all tenants.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    store: Store,
    clock: Clock,
}

impl Ledger {
    pub(crate) const fn new(store: Store, clock: Clock) -> Self {
        Self { store, clock }
    }

    pub(crate) async fn add(
        &self,
        tenant: &Tenant,
        holder: Holder,
        grant: StandingGrant,
    ) -> Result<(), LedgerError> {
        let place = place(tenant, &grant)?;
        let by = grant.by.clone();
        let held = HeldGrant { holder, grant, undecided: Vec::new() };
        match self.put(place, Expected::Absent, Some(&held), &by).await? {
            Outcome::Written => Ok(()),
            Outcome::Moved => Err(LedgerError::Busy),
        }
    }

    /// Returns the grants of a tenant, with what is left of each.
    pub(crate) async fn list(&self, tenant: &Tenant) -> Result<Vec<HeldGrant>, LedgerError> {
        let mut grants = Vec::new();
        for place in self.places(tenant, |_| true).await? {
            if let Some((_, held)) = self.read(&place).await? {
                grants.push(self.looked_up(held).await?);
            }
        }
        Ok(grants)
    }

    /// Takes a grant away; returns whether there was one.
    pub(crate) async fn remove(
        &self,
        tenant: &Tenant,
        grant: GrantId,
        by: &Actor,
    ) -> Result<bool, LedgerError> {
        let ending = format!("/{grant}");
        let places = self.places(tenant, |key| key.ends_with(&ending)).await?;
        let Some(place) = places.into_iter().next() else { return Ok(false) };
        match self.put(place, Expected::Anything, None, by).await? {
            Outcome::Written => Ok(true),
            Outcome::Moved => Err(LedgerError::Busy),
        }
    }

    /// Takes a use for a call from the first grant that covers it, and returns what the call may
    /// be shown of it. Whatever goes wrong, nobody has permitted anything.
    pub(crate) async fn take(&self, wanted: Wanted<'_>) -> Option<StandingGrant> {
        match self.try_take(wanted).await {
            Ok(shown) => shown,
            Err(error) => {
                tracing::warn!(%error, tool = %wanted.contract.tool, "standing grants are out of reach");
                None
            }
        }
    }

    async fn try_take(&self, wanted: Wanted<'_>) -> Result<Option<StandingGrant>, LedgerError> {
        let Some(loaded) = self.store.load(wanted.session).await? else { return Ok(None) };
        let start = format!("{}/", wanted.contract.tool);
        for place in self.places(&loaded.tenant, |key| key.starts_with(&start)).await? {
            let shown = self.take_from(&place, wanted, loaded.head.seq).await?;
            if shown.is_some() {
                return Ok(shown);
            }
        }
        Ok(None)
    }

    async fn take_from(
        &self,
        place: &Place,
        wanted: Wanted<'_>,
        after_seq: u64,
    ) -> Result<Option<StandingGrant>, LedgerError> {
        for _ in 0..TRIES_MAX {
            let Some((version, held)) = self.read(place).await? else { return Ok(None) };
            if !held.holder.is(&wanted) {
                return Ok(None);
            }
            let mut held = self.looked_up(held).await?;
            let now = self.clock.now();
            let Ok(used) = held.grant.covers(wanted.contract, wanted.arguments, now) else {
                return Ok(None);
            };
            if held.undecided.len() >= UNDECIDED_MAX {
                return Ok(None);
            }
            let (Wanted { session, call, .. }, until) = (wanted, now + SHOWN_FOR);
            let shown = held.grant.take(&used, until);
            held.undecided.push(Taken { session, call, used, after_seq, until });
            let expected = Expected::Version(version);
            match self.put(place.clone(), expected, Some(&held), &Actor::system()).await? {
                Outcome::Written => return Ok(Some(shown)),
                Outcome::Moved => {}
            }
        }
        Ok(None)
    }

    /// Looks up what became of the uses that were taken, and puts back what was not used.
    async fn looked_up(&self, mut held: HeldGrant) -> Result<HeldGrant, LedgerError> {
        for taken in std::mem::take(&mut held.undecided) {
            match self.fate(&taken).await? {
                Fate::Used => {}
                Fate::Unused => held.grant.put_back(&taken.used),
                Fate::Undecided => held.undecided.push(taken),
            }
        }
        Ok(held)
    }

    async fn fate(&self, taken: &Taken) -> Result<Fate, LedgerError> {
        let mut after = taken.after_seq;
        loop {
            let entries = self.store.entries(taken.session, after, PAGE).await?;
            let Some(last) = entries.last() else { break };
            after = last.seq;
            for entry in &entries {
                match entry.event().map_err(LedgerError::unreadable)? {
                    Event::CallProposed { call, derivation, .. } if call == taken.call => {
                        let by_it = derivation.grant.is_some_and(|by| by.grant == taken.used.grant);
                        return Ok(if by_it { Fate::Used } else { Fate::Unused });
                    }
                    Event::CallRejected { call, .. } if call == taken.call => {
                        return Ok(Fate::Unused);
                    }
                    _ => {}
                }
            }
        }
        let over = self.clock.now() >= taken.until + LAG_MAX;
        Ok(if over { Fate::Unused } else { Fate::Undecided })
    }

    async fn places(
        &self,
        tenant: &Tenant,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Place>, LedgerError> {
        let (mut places, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let keys = self.store.keys(tenant, SPACE, &page).await?;
            for (key, _) in keys.iter().filter(|(key, _)| is_wanted(key)) {
                places.push(Place::new(tenant.clone(), SPACE, key)?);
            }
            match keys.into_iter().next_back() {
                Some((last, _)) => page = Page::after(last, PAGE),
                None => return Ok(places),
            }
        }
    }

    async fn read(&self, place: &Place) -> Result<Option<(u64, HeldGrant)>, LedgerError> {
        let Some(stored) = self.store.version(place, Which::Latest).await? else {
            return Ok(None);
        };
        let Some(body) = stored.body else { return Ok(None) };
        let held = serde_json::from_slice(&body).map_err(LedgerError::unreadable)?;
        Ok(Some((stored.info.number, held)))
    }

    async fn put(
        &self,
        place: Place,
        expected: Expected,
        held: Option<&HeldGrant>,
        by: &Actor,
    ) -> Result<Outcome, LedgerError> {
        let body = held.map(serde_json::to_vec).transpose().map_err(LedgerError::unreadable)?;
        let put = Put { place, expected, body };
        match self.store.put_versions(vec![put], by, self.clock.now()).await {
            Ok(_) => Ok(Outcome::Written),
            Err(PutError::Moved { .. }) => Ok(Outcome::Moved),
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }
}

/// What came of a write.
enum Outcome {
    Written,
    Moved,
}

fn place(tenant: &Tenant, grant: &StandingGrant) -> Result<Place, LedgerError> {
    let (tool, id): (&ToolName, GrantId) = (&grant.tool, grant.id);
    Ok(Place::new(tenant.clone(), SPACE, &format!("{tool}/{id}"))?)
}
