//! Grants beyond a session: kept as versions in the store, and counted before they are used.
//!
//! A use is taken from a grant before the call that may need it is decided about, by compare and
//! set, so that no two nodes spend the same. What a proposal is shown is a grant for that one use,
//! which soon ends; the log of its session then says whether it was used. What was not used is put
//! back by whoever looks next.
//!
//! A grant also settles calls that wait already. That it has to is noted along with it, so that
//! whoever is alive does it when the node that was told dies.

use haft_core::permission::{GrantUse, StandingGrant};
use haft_core::session::{Config, Decided, Event};
use haft_core::tool::Contract;
use haft_core::{Actor, ActorId, ActorKind, Arguments, CallId, GrantId, Millis, SessionId};
use haft_core::{Timestamp, ToolName, json};
use haft_store::{ErrorKind, Expected, Page, Place, Put, PutError, Store, Tenant, Which};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

const SPACE: &str = "grants";
/// Whose the notes about fresh grants are: of no tenant that anyone can be.
const NOTES_TENANT: &str = "haft:grants";
const NOTES_SPACE: &str = "to_settle";
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
    /// Returns whether a grant of this holder stands in a session.
    pub fn covers(&self, opened_by: &Actor, config: &Config) -> bool {
        match self {
            Self::Tenant => true,
            Self::User(id) => opened_by.kind == ActorKind::User && opened_by.id == *id,
            Self::Agent(id) => config.agent.as_ref().is_some_and(|agent| agent.id == *id),
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

impl HeldGrant {
    /// Takes back what was taken for the very wait for which a grant is looked for: whoever took it
    /// has died, or is about to offer the same. A wait is ended once, so that of all who offer it the
    /// same use at most one is recorded.
    fn take_back_for(&mut self, wanted: &Wanted<'_>) -> Option<Taken> {
        let is_it = |taken: &Taken| {
            let of = (taken.session, taken.call, taken.round);
            taken.round.is_some() && of == (wanted.session, wanted.call, wanted.round)
        };
        let at = self.undecided.iter().position(is_it)?;
        let taken = self.undecided.remove(at);
        self.grant.put_back(&taken.used);
        Some(taken)
    }
}

/// A use that was taken for a call before the call was decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    session: SessionId,
    call: CallId,
    used: GrantUse,
    /// Which wait of the call it would end; `None` when the call was only proposed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<u32>,
    /// The end of the session's log when it was taken; what was decided stands after it.
    after_seq: u64,
    until: Timestamp,
    /// How often it was taken anew for the same wait, because nothing had come of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    n_again: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Taken {
    /// Returns what an event of the session tells about it.
    fn fate_by(&self, event: &Event) -> Option<Fate> {
        let by_it = |used: Option<GrantUse>| match used {
            Some(used) if used.grant == self.used.grant => Fate::Used,
            _ => Fate::Unused,
        };
        match (event, self.round) {
            (Event::CallProposed { call, derivation, .. }, None) if *call == self.call => {
                Some(by_it(derivation.grant))
            }
            (Event::CallRejected { call, .. }, None) if *call == self.call => Some(Fate::Unused),
            (Event::CallResolved { call, round, decision, .. }, Some(wanted))
                if *call == self.call && *round == wanted =>
            {
                Some(by_it(match decision {
                    Decided::Granted { used } => Some(*used),
                    _ => None,
                }))
            }
            (Event::CallFinished { outcome }, Some(_)) if outcome.call == self.call => {
                Some(Fate::Unused)
            }
            _ => None,
        }
    }
}

/// What became of a use that was taken.
enum Fate {
    Used,
    Unused,
    Undecided,
}

/// A grant whose calls that wait already may not all be settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fresh {
    tenant: String,
    pub(crate) tool: ToolName,
    pub(crate) grant: GrantId,
    /// A call that was proposed before the grant was given waits at the latest by then.
    pub(crate) until: Timestamp,
}

impl Fresh {
    pub(crate) fn tenant(&self) -> Result<Tenant, LedgerError> {
        Tenant::new(&self.tenant).map_err(LedgerError::unreadable)
    }

    fn place(&self) -> Result<Place, LedgerError> {
        grant_place(&self.tenant()?, &self.tool, self.grant)
    }

    fn note_place(&self) -> Result<Place, LedgerError> {
        Ok(Place::new(notes_tenant()?, NOTES_SPACE, &self.grant.to_string())?)
    }
}

/// A call for which a grant is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) session: SessionId,
    pub(crate) call: CallId,
    /// Which wait of it is to be ended, when it waits.
    pub(crate) round: Option<u32>,
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

    /// Keeps a grant, along with a note that it has to settle what waits already.
    pub(crate) async fn add(
        &self,
        tenant: &Tenant,
        holder: Holder,
        grant: StandingGrant,
    ) -> Result<Fresh, LedgerError> {
        let (by, at) = (grant.by.clone(), self.clock.now());
        let (tool, id) = (grant.tool.clone(), grant.id);
        let tenant = tenant.as_str().to_owned();
        let fresh = Fresh { tenant, tool, grant: id, until: at + SHOWN_FOR };
        let held = HeldGrant { holder, grant, undecided: Vec::new() };
        let body = |text: serde_json::Result<Vec<u8>>| text.map_err(LedgerError::unreadable);
        let put = |place, body| Put { place, expected: Expected::Absent, body: Some(body) };
        let puts = vec![
            put(fresh.place()?, body(serde_json::to_vec(&held))?),
            put(fresh.note_place()?, body(serde_json::to_vec(&fresh))?),
        ];
        match self.store.put_versions(puts, &by, at).await {
            Ok(_) => Ok(fresh),
            Err(PutError::Moved { .. }) => Err(LedgerError::Busy),
            Err(PutError::Store(error)) => Err(error.into()),
        }
    }

    /// Returns the grants that may have calls to settle. A note that cannot be read stands in for
    /// itself, and hides none of the others.
    pub(crate) async fn fresh(&self) -> Result<Vec<Result<Fresh, LedgerError>>, LedgerError> {
        let mut fresh = Vec::new();
        for place in self.places(&notes_tenant()?, NOTES_SPACE, |_| true).await? {
            let Some(note) = self.store.version(&place, Which::Latest).await? else { continue };
            let Some(body) = note.body else { continue };
            fresh.push(json::read_stored(&body).map_err(LedgerError::unreadable));
        }
        Ok(fresh)
    }

    /// Says that a grant has nothing to settle any more.
    pub(crate) async fn forget(&self, fresh: &Fresh) -> Result<(), LedgerError> {
        let by = Actor::system();
        self.put(fresh.note_place()?, Expected::Anything, None, &by).await.map(drop)
    }

    /// Takes a use for a call that waits from one grant.
    pub(crate) async fn take_for_wait(
        &self,
        fresh: &Fresh,
        wanted: Wanted<'_>,
        after_seq: u64,
    ) -> Result<Option<StandingGrant>, LedgerError> {
        self.take_from(&fresh.place()?, wanted, after_seq).await
    }

    /// Puts a use back whose call refused it: someone else had ended the wait. If the same use was
    /// offered to the same wait by several, one of them may have been taken, and the log tells; as
    /// long as it does not, only whoever offered it alone can know that it was not used.
    pub(crate) async fn put_back(
        &self,
        fresh: &Fresh,
        session: SessionId,
        call: CallId,
    ) -> Result<(), LedgerError> {
        let place = fresh.place()?;
        for _ in 0..TRIES_MAX {
            let Some((version, mut held)) = self.read(&place).await? else { return Ok(()) };
            let is_it = |taken: &Taken| taken.session == session && taken.call == call;
            let Some(at) = held.undecided.iter().position(is_it) else { return Ok(()) };
            let taken = held.undecided.remove(at);
            match self.fate(&taken).await? {
                Fate::Used => {}
                Fate::Unused => held.grant.put_back(&taken.used),
                Fate::Undecided if taken.n_again == 0 => held.grant.put_back(&taken.used),
                Fate::Undecided => return Ok(()),
            }
            let expected = Expected::Version(version);
            match self.put(place.clone(), expected, Some(&held), &Actor::system()).await? {
                Outcome::Written => return Ok(()),
                Outcome::Moved => {}
            }
        }
        Err(LedgerError::Busy)
    }

    /// Returns the grants of a tenant, with what is left of each.
    pub(crate) async fn list(&self, tenant: &Tenant) -> Result<Vec<HeldGrant>, LedgerError> {
        let mut grants = Vec::new();
        for place in self.places(tenant, SPACE, |_| true).await? {
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
        let places = self.places(tenant, SPACE, |key| key.ends_with(&ending)).await?;
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
        for place in self.places(&loaded.tenant, SPACE, |key| key.starts_with(&start)).await? {
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
            if !held.holder.covers(wanted.opened_by, wanted.config) {
                return Ok(None);
            }
            let mut held = self.looked_up(held).await?;
            let now = self.clock.now();
            let earlier = held.take_back_for(&wanted);
            let Ok(used) = held.grant.covers(wanted.contract, wanted.arguments, now) else {
                return Ok(None);
            };
            let Wanted { session, call, round, .. } = wanted;
            let taken_for_it = |taken: &Taken| taken.session == session && taken.call == call;
            if held.undecided.len() >= UNDECIDED_MAX || held.undecided.iter().any(taken_for_it) {
                return Ok(None);
            }
            let until = now + SHOWN_FOR;
            let shown = held.grant.take(&used, until);
            let (after_seq, n_again) = match earlier {
                // Whoever took it first may yet be recorded, and where that is to be found stays.
                Some(earlier) => (earlier.after_seq, earlier.n_again + 1),
                None => (after_seq, 0),
            };
            held.undecided.push(Taken { session, call, used, round, after_seq, until, n_again });
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
                let event = entry.event().map_err(LedgerError::unreadable)?;
                if let Some(fate) = taken.fate_by(&event) {
                    return Ok(fate);
                }
            }
        }
        // Its log cannot tell any more, and a use must not come back by deleting a session.
        if self.store.erased(taken.session).await?.is_some() {
            return Ok(Fate::Used);
        }
        let over = self.clock.now() >= taken.until + LAG_MAX;
        Ok(if over { Fate::Unused } else { Fate::Undecided })
    }

    async fn places(
        &self,
        tenant: &Tenant,
        space: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Place>, LedgerError> {
        let (mut places, mut page) = (Vec::new(), Page::first(PAGE));
        loop {
            let keys = self.store.keys(tenant, space, &page).await?;
            for (key, _) in keys.iter().filter(|(key, _)| is_wanted(key)) {
                places.push(Place::new(tenant.clone(), space, key)?);
            }
            match keys.into_iter().next_back() {
                Some((last, _)) => page = Page::after(last, PAGE),
                None => return Ok(places),
            }
        }
    }

    async fn read(&self, place: &Place) -> Result<Option<(u64, HeldGrant)>, LedgerError> {
        let stored = match self.store.version(place, Which::Latest).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Ok(None),
            // Nobody gave it, or it is not what they gave: as good as none.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                tracing::error!(%error, grant = place.key(), "a stored grant is not obeyed");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(body) = stored.body else { return Ok(None) };
        let held = json::read_stored(&body).map_err(LedgerError::unreadable)?;
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

fn grant_place(tenant: &Tenant, tool: &ToolName, id: GrantId) -> Result<Place, LedgerError> {
    Ok(Place::new(tenant.clone(), SPACE, &format!("{tool}/{id}"))?)
}

fn notes_tenant() -> Result<Tenant, LedgerError> {
    Tenant::new(NOTES_TENANT).map_err(LedgerError::unreadable)
}
