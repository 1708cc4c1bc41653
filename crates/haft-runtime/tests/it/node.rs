//! A node for tests: a real driver over a real SQLite store, and hands that count what they do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_core::session::{
    AnswerDetails, AttemptEnded, AttemptReport, CallsProposed, Check, Config, Driver as DrivenBy,
    Event, Input, ModelAnswered, PolicyFacts, Preview, Previewed, Proposal, Resolution, Resolved,
    Returned, SoundCall, Verification, Verified,
};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema, ToolSpec};
use haft_core::{
    Actor, ActorId, Arguments, CallId, CallResult, Digest, Millis, Outcome, Output, ProviderCallId,
    ResolutionId, SessionId, Timestamp,
};
use haft_runtime::{Clock, Driver, Job, ManualClock, Performer, Settings, Task};
use haft_store::{NodeId, Page, Pending, PendingFilter, Store, Tenant};

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Hands that do what a tool's name says, and count the effects in a world that outlives every
/// crash.
#[derive(Default)]
pub(crate) struct Hands {
    pub(crate) world: Arc<World>,
}

/// What happened outside: effects by call.
#[derive(Default)]
pub(crate) struct World {
    effects: Mutex<BTreeMap<CallId, u32>>,
    is_open: AtomicBool,
}

impl World {
    /// Lets every tool go on that waits in its middle.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }

    /// From here on they wait again.
    pub(crate) fn shut(&self) {
        self.is_open.store(false, Ordering::SeqCst);
    }

    async fn opened(&self) {
        while !self.is_open.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(crate) fn effects(&self, call: CallId) -> u32 {
        self.effects.lock().unwrap().get(&call).copied().unwrap_or(0)
    }

    fn happen(&self, call: CallId) {
        *self.effects.lock().unwrap().entry(call).or_default() += 1;
    }
}

impl Performer for Hands {
    async fn perform(&self, job: Job) -> Input {
        match job.task {
            Task::AskModel { turn, attempt, open } => {
                // One gated call, then a model that never answers again.
                if open.turn > 1 {
                    std::future::pending::<()>().await;
                }
                let bits = haft_runtime::fresh_bits(Timestamp::from_ms(1)).unwrap();
                Input::ModelAnswered(ModelAnswered {
                    turn,
                    attempt,
                    content: vec![],
                    advertised: Arc::new([charge().name.clone()].into()),
                    calls: vec![proposal(CallId::from_bits(bits), &charge())],
                    provider_results: vec![],
                    narrowed: vec![],
                    details: AnswerDetails::default(),
                })
            }
            Task::Preview { call } => {
                let fingerprint = Digest::of_bytes(b"as it is");
                let preview = Preview { fingerprint, targets: vec![], diff: None, trouble: None };
                Input::Previewed(Previewed { call: call.id, preview })
            }
            Task::Execute { call, attempt, .. } => {
                self.world.happen(call.id);
                match call.contract.tool.as_str() {
                    name if name.starts_with("hang") => std::future::pending::<()>().await,
                    name if name.starts_with("stoppable") => job.stop.cancelled().await,
                    name if name.starts_with("obliging") => job.stop.cancelled().await,
                    name if name.starts_with("waiting") => self.world.opened().await,
                    name if name.starts_with("panic") => panic!("a bug in a tool"),
                    _ => {}
                }
                let stopped = call.contract.tool.as_str().starts_with("stoppable");
                let result = match stopped {
                    true => CallResult::Err(haft_core::Failure::new(
                        haft_core::ErrorClass::Cancelled,
                        "stopped as asked",
                    )),
                    false => CallResult::Ok(Output::of_text("done")),
                };
                let report = AttemptReport::Returned(Returned::from(result));
                Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
            }
            Task::Verify { call, attempt } => {
                let verdict = Verification::Unknown;
                Input::Verified(Verified { call: call.id, attempt, verdict })
            }
        }
    }
}

pub(crate) struct Node {
    pub(crate) driver: Driver<Hands>,
    pub(crate) world: Arc<World>,
    pub(crate) clock: ManualClock,
}

impl Node {
    /// Starts a node over the store in a directory, as a process does.
    pub(crate) fn start(directory: &Path, world: &Arc<World>, clock: &ManualClock) -> Self {
        let store = Store::open_sqlite(directory).unwrap();
        let mut settings = Settings::new(NodeId::new("node-1").unwrap());
        settings.clock = Clock::Manual(clock.clone());
        settings.stop_grace = Duration::from_millis(500);
        settings.sweep_every = Duration::from_millis(5);
        let hands = Arc::new(Hands { world: Arc::clone(world) });
        let driver = Driver::start(store, hands, &settings);
        Self { driver, world: Arc::clone(world), clock: clock.clone() }
    }

    /// Starts a node with settings of its own.
    pub(crate) fn with(
        store: Store,
        world: &Arc<World>,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let clock = ManualClock::at(Timestamp::from_ms(1_000_000));
        let mut settings = Settings::new(NodeId::new("node-1").unwrap());
        settings.clock = Clock::Manual(clock.clone());
        // Longer than a busy machine keeps a thread waiting: a tool that stops does so in time.
        settings.stop_grace = Duration::from_secs(2);
        settings.sweep_every = Duration::from_millis(5);
        change(&mut settings);
        let hands = Arc::new(Hands { world: Arc::clone(world) });
        Self { driver: Driver::start(store, hands, &settings), world: Arc::clone(world), clock }
    }

    pub(crate) fn fresh(directory: &Path) -> Self {
        let clock = ManualClock::at(Timestamp::from_ms(1_000_000));
        Self::start(directory, &Arc::default(), &clock)
    }

    pub(crate) async fn open(&self, driver: DrivenBy) -> SessionId {
        let config = Config { driver, ..Config::default() };
        self.driver.open(tenant(), config, ann()).await.unwrap()
    }

    pub(crate) async fn propose(&self, session: SessionId, tool: &ToolSpec) -> CallId {
        let id = CallId::from_bits(self.driver.fresh().unwrap());
        let calls = vec![proposal(id, tool)];
        let proposed = Input::CallsProposed(CallsProposed { calls });
        self.driver.input(session, proposed).await.unwrap();
        id
    }

    pub(crate) fn resolved(&self, call: CallId, by: Actor, resolution: Resolution) -> Resolved {
        let id = ResolutionId::from_bits(self.driver.fresh().unwrap());
        Resolved { id, call, round: None, by, resolution, policy: PolicyFacts::default() }
    }

    pub(crate) async fn pending(&self) -> Vec<Pending> {
        let page = Page { after: None, limit: 100 };
        self.driver.store().pending(&PendingFilter::default(), &page).await.unwrap()
    }

    pub(crate) async fn events(&self, session: SessionId) -> Vec<Event> {
        let entries = self.driver.store().entries(session, 0, 10_000).await.unwrap();
        entries.iter().map(|entry| entry.event().unwrap()).collect()
    }

    pub(crate) async fn outcome(&self, session: SessionId, call: CallId) -> Outcome {
        self.eventually(|| async {
            self.events(session).await.into_iter().find_map(|event| match event {
                Event::CallFinished { outcome } if outcome.call == call => Some(outcome),
                _ => None,
            })
        })
        .await
    }

    /// Looks until there is something to see. Bounded only by the test runner: there is no
    /// moment by which a busy machine must be done.
    pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
        &self,
        look: impl Fn() -> F,
    ) -> T {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Looks until a call has begun.
    pub(crate) async fn begun(&self, call: CallId) {
        self.eventually(|| async { (self.world.effects(call) > 0).then_some(()) }).await;
    }

    pub(crate) async fn at_rest(&self) {
        self.eventually(|| async { (self.driver.n_at_work() == 0).then_some(()) }).await;
    }
}

pub(crate) fn proposal(id: CallId, tool: &ToolSpec) -> Proposal {
    Proposal {
        id,
        provider_id: ProviderCallId::new("toolu_1").unwrap(),
        name: tool.name.to_string(),
        check: Check::Sound(SoundCall {
            contract: Arc::clone(tool.contract()),
            arguments: Arguments::plain(serde_json::from_str(r#"{"cents":5}"#).unwrap()),
            policy: PolicyFacts::default(),
            grants: vec![],
        }),
    }
}

pub(crate) fn tenant() -> Tenant {
    Tenant::new("acme").unwrap()
}

pub(crate) fn ann() -> Actor {
    Actor::user(ActorId::new("ann").unwrap())
}

pub(crate) fn bob() -> Actor {
    Actor::user(ActorId::new("bob").unwrap())
}

pub(crate) fn approve() -> Resolution {
    Resolution::Approve { edit: None, note: None, grant: None }
}

pub(crate) fn tool(name: &str, change: impl FnOnce(&mut Definition)) -> ToolSpec {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "Does it.", schema);
    definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
    definition.gate = Gate::Auto;
    definition.exec_timeout = Millis(60_000);
    change(&mut definition);
    ToolSpec::new(definition).unwrap()
}

pub(crate) fn charge() -> ToolSpec {
    tool("charge_card", |definition| definition.gate = Gate::Ask)
}
