//! What clients were told, what they read, and what happened outside: it outlives every process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use haft_core::journal::Entry;
use haft_core::{CallId, Digest, ResolutionId, SessionId};
use haft_store::{Place, Tenant};

use super::Dice;

pub(super) struct Ledger {
    pub(super) seed: u64,
    notes: Mutex<Notes>,
}

#[derive(Default)]
pub(super) struct Notes {
    pub(super) sessions: BTreeMap<SessionId, Tenant>,
    /// The calls that were asked for, and whether each may be repeated.
    pub(super) asked_for: BTreeMap<CallId, (SessionId, bool)>,
    /// Acknowledged.
    pub(super) proposed: Vec<(SessionId, CallId)>,
    /// Acknowledged.
    pub(super) resolved: Vec<(SessionId, ResolutionId)>,
    /// Acknowledged.
    pub(super) versions: Vec<(Place, u64, Digest)>,
    pub(super) n_beaten: u32,
    pub(super) effects: BTreeMap<CallId, u32>,
    /// What a reader has read, page by page, through all crashes.
    pub(super) read: BTreeMap<SessionId, Vec<Entry>>,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, notes: Mutex::default() }
    }

    pub(super) fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap()
    }

    pub(super) fn tenant(&self, which: u32) -> Tenant {
        Tenant::new(&format!("tenant-{}-{which}", self.seed)).unwrap()
    }

    pub(super) fn opened(&self, session: SessionId, tenant: Tenant) {
        self.notes().sessions.insert(session, tenant);
    }

    pub(super) fn tenant_of(&self, session: SessionId) -> Option<Tenant> {
        self.notes().sessions.get(&session).cloned()
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.notes().sessions.keys().copied().collect()
    }

    pub(super) fn some_session(&self, dice: &mut Dice) -> Option<SessionId> {
        let sessions = self.sessions();
        let n_sessions = u32::try_from(sessions.len()).unwrap();
        (n_sessions > 0).then(|| sessions[dice.below(n_sessions) as usize])
    }

    pub(super) fn asked_for(&self, session: SessionId, call: CallId, is_repeatable: bool) {
        self.notes().asked_for.insert(call, (session, is_repeatable));
    }

    pub(super) fn proposed(&self, session: SessionId, call: CallId) {
        self.notes().proposed.push((session, call));
    }

    pub(super) fn resolved(&self, session: SessionId, id: ResolutionId) {
        self.notes().resolved.push((session, id));
    }

    pub(super) fn wrote(&self, place: Place, number: u64, digest: Digest) {
        self.notes().versions.push((place, number, digest));
    }

    pub(super) fn was_beaten(&self) {
        self.notes().n_beaten += 1;
    }

    pub(super) fn happen(&self, call: CallId) {
        *self.notes().effects.entry(call).or_default() += 1;
    }

    pub(super) fn effects(&self, call: CallId) -> u32 {
        self.notes().effects.get(&call).copied().unwrap_or(0)
    }

    pub(super) fn n_read(&self, session: SessionId) -> u64 {
        self.notes().read.get(&session).map_or(0, |entries| entries.len() as u64)
    }

    /// Takes a page, unless another reader of the same session was faster.
    pub(super) fn read(&self, session: SessionId, after: u64, page: Vec<Entry>) {
        let mut notes = self.notes();
        let entries = notes.read.entry(session).or_default();
        if entries.len() as u64 == after {
            entries.extend(page);
        }
    }
}
