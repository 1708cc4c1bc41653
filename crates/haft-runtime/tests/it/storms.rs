//! Storms: random work for several tenants, by many at once, on a process that dies again and again
//! at the boundaries of its loop. What a client was told, what it read and what happened outside are
//! kept apart from the store, and compared with it once the storm is over.
//!
//! The invariants are those of design/reliability.md. `HAFT_STORMS=1000` for the long form,
//! `HAFT_STORM_SEED=n` for one of them.

mod ledger;
mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft_core::session::{
    AttemptEnded, AttemptReport, CallsProposed, Config, Driver as DrivenBy, Input, Resolution,
    Resolved, Returned, Settlement, SuspensionKind, Verification, Verified,
};
use haft_core::tool::{Facets, Gate, Idempotency, Mutates, ToolSpec};
use haft_core::{
    ArtifactId, ArtifactRef, CallId, CallResult, Digest, Millis, Output, ResolutionId, SessionId,
    Timestamp,
};
use haft_runtime::{Clock, Driver, Job, ManualClock, Observer, Performer, Settings, Task};
use haft_store::{
    Expected, NewArtifact, NodeId, Page, Pending, PendingFilter, Place, Put, PutError, Store,
    Tenant, Which,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::cluster::{self, Cluster};
use crate::node::{ann, approve, proposal, tool};
use ledger::Ledger;

const LEASE_TTL: Duration = Duration::from_secs(10);

/// How many of whatever happens are under way at once.
const AT_ONCE: usize = 6;

// S1 to S4, S6, S8, S10, S12, S13 and the liveness of reliability.md; S4-25, S4-33, D4.
#[test]
fn storms_on_sqlite_break_no_invariant() {
    for seed in seeds(16) {
        let directory = tempfile::tempdir().unwrap();
        storm(seed, &Backing::Sqlite(directory.path().to_owned()));
    }
}

// The same, with another node taking over from each that died.
#[test]
fn storms_on_postgresql_break_no_invariant() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    for seed in seeds(8) {
        storm(seed, &Backing::Postgres(cluster.url()));
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    match number("HAFT_STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("HAFT_STORMS").unwrap_or(default),
    }
}

enum Backing {
    Sqlite(std::path::PathBuf),
    Postgres(String),
}

impl Backing {
    async fn open(&self) -> Store {
        match self {
            Self::Sqlite(directory) => Store::open_sqlite(directory).unwrap(),
            Self::Postgres(url) => Store::connect_postgres(url).await.unwrap(),
        }
    }
}

fn storm(seed: u64, backing: &Backing) {
    println!("storm with HAFT_STORM_SEED={seed}");
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let ledger = Arc::new(Ledger::new(seed));
    let clock = ManualClock::at(Timestamp::from_ms(1_000_000));
    for n_life in 0..4 {
        let dies_at = 10 + dice.below(120);
        let life = Life { backing, ledger: &ledger, clock: &clock, n_life };
        life.live(async |node| node.rage(&mut dice, dies_at).await);
        // The next one may be another node: it waits until the dead one is known to be dead.
        clock.advance(LEASE_TTL.into());
    }
    let life = Life { backing, ledger: &ledger, clock: &clock, n_life: 4 };
    life.live(async |node| {
        node.calm_down().await;
        verdict::judge(&node.store, &ledger, &mut dice).await;
    });
}

/// One life of a process: everything in it stops at once when it is over.
struct Life<'a> {
    backing: &'a Backing,
    ledger: &'a Arc<Ledger>,
    clock: &'a ManualClock,
    n_life: u32,
}

impl Life<'_> {
    fn live(&self, live: impl AsyncFnOnce(Node)) {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { live(self.node().await).await });
    }

    async fn node(&self) -> Node {
        let store = self.backing.open().await;
        let death = Arc::new(Death::default());
        let name = match self.backing {
            Backing::Sqlite(_) => "node".to_owned(),
            Backing::Postgres(_) => format!("node-{}-{}", self.ledger.seed, self.n_life),
        };
        let mut settings = Settings::new(NodeId::new(&name).unwrap());
        settings.clock = Clock::Manual(self.clock.clone());
        settings.sweep_every = Duration::from_millis(5);
        settings.lease_ttl = LEASE_TTL;
        let watched = Arc::clone(&death);
        settings.observer = Observer::new(move |_| watched.pass());
        let hands = Hands { store: store.clone(), ledger: Arc::clone(self.ledger) };
        let driver = Driver::start(store.clone(), Arc::new(hands), &settings);
        let (ledger, clock) = (Arc::clone(self.ledger), self.clock.clone());
        Node { driver, store, ledger, clock, death }
    }
}

/// When the process dies: at the nth boundary from when it was doomed.
#[derive(Default)]
struct Death {
    boundaries_left: AtomicU32,
    came: Notify,
}

impl Death {
    fn pass(&self) {
        let left = self.boundaries_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            // 1 is the last one, and stays: nobody passes any more.
            (left > 1).then(|| left - 1)
        });
        if left == Err(1) {
            self.came.notify_one();
            // Without a word: a process that is killed says nothing either.
            std::panic::resume_unwind(Box::new("the process dies here"));
        }
    }
}

#[derive(Clone)]
struct Node {
    driver: Driver<Hands>,
    store: Store,
    ledger: Arc<Ledger>,
    clock: ManualClock,
    death: Arc<Death>,
}

impl Node {
    /// Does one thing after the other, several at once, until it dies.
    async fn rage(&self, dice: &mut Dice, dies_at: u32) {
        self.death.boundaries_left.store(dies_at, Ordering::SeqCst);
        let mut clients = JoinSet::new();
        for _ in 0..400 {
            let deed = Deed::next(dice);
            let (node, mut dice) = (self.clone(), Dice(u64::from(dice.below(u32::MAX)) | 1));
            clients.spawn(async move { node.perform(deed, &mut dice).await });
            while clients.len() >= AT_ONCE {
                tokio::select! {
                    // A client whose process died in the middle was told nothing.
                    done = clients.join_next() => drop(done),
                    () = self.death.came.notified() => return,
                }
            }
        }
    }

    async fn perform(&self, deed: Deed, dice: &mut Dice) {
        let tenant = self.ledger.tenant(dice.below(2));
        match deed {
            Deed::Open => {
                let config = Config { driver: DrivenBy::Caller, ..Config::default() };
                if let Ok(session) = self.driver.open(tenant.clone(), config, ann()).await {
                    self.ledger.opened(session, tenant);
                }
            }
            Deed::Propose => self.propose(dice).await,
            Deed::Resolve => {
                let Some(pending) = self.some_pending(&tenant, dice).await else { return };
                assert_eq!(pending.tenant, tenant, "S10: an inbox is its tenant's own");
                self.resolve(&pending, dice.below(3) == 0).await;
            }
            Deed::PassTime => self.clock.advance(Millis::from_secs(u64::from(dice.below(2_000)))),
            Deed::Write => self.write(&tenant, dice).await,
            Deed::Read => {
                let Some(session) = self.ledger.some_session(dice) else { return };
                let after = self.ledger.n_read(session);
                let entries = self.store.entries(session, after, 1 + dice.below(5)).await;
                self.ledger.read(session, after, entries.unwrap_or_default());
            }
        }
    }

    async fn propose(&self, dice: &mut Dice) {
        let Some(session) = self.ledger.some_session(dice) else { return };
        let tools = tools();
        let tool = &tools[dice.below(tools.len() as u32) as usize];
        let call = CallId::from_bits(self.driver.fresh().unwrap());
        let mut calls = proposal(call, tool);
        calls.provider_id = haft_core::ProviderCallId::new(call.to_string()).unwrap();
        let proposed = Input::CallsProposed(CallsProposed { calls: vec![calls] });
        let is_repeatable = tool.name.as_str() == "keyed";
        self.ledger.asked_for(session, call, is_repeatable);
        if self.driver.input(session, proposed).await.is_ok() {
            self.ledger.proposed(session, call);
        }
    }

    async fn some_pending(&self, tenant: &Tenant, dice: &mut Dice) -> Option<Pending> {
        let mut pending = self.pending(tenant).await;
        let n_pending = u32::try_from(pending.len()).unwrap();
        (n_pending > 0).then(|| pending.swap_remove(dice.below(n_pending) as usize))
    }

    async fn pending(&self, tenant: &Tenant) -> Vec<Pending> {
        let filter = PendingFilter { tenant: Some(tenant.clone()), ..PendingFilter::default() };
        self.store.pending(&filter, &Page::first(1_000)).await.unwrap_or_default()
    }

    async fn resolve(&self, pending: &Pending, denies: bool) {
        let resolution = match pending.kind {
            // As a person does who has looked.
            SuspensionKind::Settlement => match self.ledger.effects(pending.call) {
                0 => Resolution::Settle(Settlement::RunAgain),
                _ => Resolution::Settle(Settlement::Happened { output: None }),
            },
            _ if denies => Resolution::Deny { note: None },
            _ => approve(),
        };
        let id = ResolutionId::from_bits(self.driver.fresh().unwrap());
        let (call, by, policy) = (pending.call, ann(), haft_core::session::PolicyFacts::default());
        let resolved = Resolved { id, call, round: None, by, resolution, policy };
        if self.driver.resolve(pending.session, resolved).await.is_ok() {
            self.ledger.resolved(pending.session, id);
        }
    }

    /// Writes a version upon what it has read, as someone who must not lose anyone's work.
    async fn write(&self, tenant: &Tenant, dice: &mut Dice) {
        let key = format!("note-{}", dice.below(2));
        let place = Place::new(tenant.clone(), "notes", &key).unwrap();
        let Ok(latest) = self.store.version(&place, Which::Latest).await else { return };
        let expected = match &latest {
            Some(latest) => Expected::Version(latest.info.number),
            None => Expected::Absent,
        };
        let body = format!("{tenant} {}", dice.below(u32::MAX)).into_bytes();
        let digest = Digest::of_bytes(&body);
        let puts = vec![Put { place: place.clone(), expected, body: Some(body) }];
        match self.store.put_versions(puts, &ann(), Timestamp::from_ms(1)).await {
            Ok(numbers) => self.ledger.wrote(place, numbers[0], digest),
            Err(PutError::Moved { .. }) => self.ledger.was_beaten(),
            Err(_) => {}
        }
    }

    /// Answers everything that waits until nothing does, and every call has come to its end.
    async fn calm_down(&self) {
        for session in self.ledger.sessions() {
            self.driver.wake(session);
        }
        loop {
            for tenant in [self.ledger.tenant(0), self.ledger.tenant(1)] {
                for pending in self.pending(&tenant).await {
                    self.resolve(&pending, false).await;
                }
            }
            let mut is_open = false;
            for session in self.ledger.sessions() {
                let loaded = self.store.load(session).await.unwrap().unwrap();
                let mut calls = loaded.state.as_open().into_iter().flat_map(|open| open.calls());
                is_open |= calls.any(|call| call.phase.is_open());
            }
            if !is_open && self.driver.n_at_work() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Open,
    Propose,
    Resolve,
    PassTime,
    Write,
    Read,
}

impl Deed {
    fn next(dice: &mut Dice) -> Self {
        match dice.below(20) {
            0..=1 => Self::Open,
            2..=8 => Self::Propose,
            9..=13 => Self::Resolve,
            14 => Self::PassTime,
            15..=16 => Self::Write,
            _ => Self::Read,
        }
    }
}

fn tools() -> [ToolSpec; 3] {
    let facets = |idempotency| Facets {
        mutates: Some(Mutates::Irreversible),
        idempotency,
        ..Facets::default()
    };
    [
        tool("make", |definition| definition.facets = facets(None)),
        tool("ask_and_make", |definition| {
            definition.facets = facets(None);
            definition.gate = Gate::Ask;
        }),
        tool("keyed", |definition| definition.facets = facets(Some(Idempotency::Keyed))),
    ]
}

/// Hands that leave an artifact behind, of which the outcome speaks.
struct Hands {
    store: Store,
    ledger: Arc<Ledger>,
}

impl Performer for Hands {
    async fn perform(&self, job: Job) -> Input {
        match job.task {
            Task::Execute { call, attempt, .. } => {
                self.ledger.happen(call.id);
                let result = match self.make(job.session, call.id, job.turn).await {
                    Some(artifact) => {
                        let artifacts = vec![artifact];
                        CallResult::Ok(Output { artifacts, ..Output::of_text("made") })
                    }
                    None => CallResult::Err(haft_core::Failure::new(
                        haft_core::ErrorClass::Internal,
                        "nothing could be kept",
                    )),
                };
                let report = AttemptReport::Returned(Returned::from(result));
                Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
            }
            Task::Verify { call, attempt } => {
                let verdict = Verification::Unknown;
                Input::Verified(Verified { call: call.id, attempt, verdict })
            }
            Task::AskModel { .. } | Task::Preview { .. } => unreachable!("no tool of these asks"),
        }
    }
}

impl Hands {
    async fn make(&self, session: SessionId, call: CallId, turn: u32) -> Option<ArtifactRef> {
        let body = format!("{session} {call} {turn}").into_bytes();
        let reference = ArtifactRef {
            id: ArtifactId::from_bits(haft_runtime::fresh_bits(Timestamp::from_ms(1)).unwrap()),
            media_type: "text/plain".to_owned(),
            bytes: body.len() as u64,
            title: None,
        };
        let tenant = self.ledger.tenant_of(session)?;
        let at = Timestamp::from_ms(1);
        let new = NewArtifact { reference: reference.clone(), tenant, session: Some(session), at };
        self.store.put_artifact(&new, body).await.ok()?;
        Some(reference)
    }
}

/// A small generator: what is random here must be repeatable.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 16) % u64::from(limit.max(1))).unwrap()
    }
}
