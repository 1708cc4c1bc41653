//! One life: a node that takes up what earlier lives left, starts new sessions, and plays the
//! people. It dies at a boundary if it was told to, or whenever it is killed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use haft_core::session::{
    Call, CallCancelled, CallsProposed, Check, Config, Driver as DrivenBy, Input, PolicyFacts,
    Proposal, Refusal, Resolution, Resolved, Settlement, SoundCall, SuspensionKind, Verification,
    Verified,
};
use haft_core::tool::{Definition, Gate, Hook, Idempotency, Mutates, Retry, Schema, ToolSpec};
use haft_core::{
    Actor, ActorId, Arguments, CallId, CallResult, ErrorClass, Failure, Millis, Output,
    ProviderCallId, ResolutionId, SessionId,
};
use haft_runtime::{Clock, Driver, InputError, Job, Observer, Performer, Settings, Task};
use haft_store::{
    ErrorKind, NodeId, Page, Pending, PendingFilter, SessionFilter, SessionStatus, Tenant,
};

use super::faults::{Fault, FaultyTools};
use super::world::{Ack, Pen, World};
use crate::Verdict;
use crate::audit::sessions;
use crate::hands;
use crate::place::Place;

/// One life of the process that is killed.
#[derive(Debug, clap::Args)]
pub(crate) struct LifeArgs {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    database_url: Option<String>,
    /// Goes on until it is killed; otherwise only what there is gets settled.
    #[arg(long)]
    doomed: bool,
    #[arg(long)]
    die_at: Option<u32>,
    #[arg(long, default_value_t = 1)]
    nodes: u32,
}

/// How often a new session begins, and people look: fast enough that a process is always at
/// work, slow enough that what it leaves behind can be settled.
const PACE: Duration = Duration::from_millis(5);

/// How long a call that was told to stop is waited for.
const STOP_GRACE: Duration = Duration::from_millis(20);

/// How long a silent node keeps its sessions.
pub(super) const LEASE_TTL: Duration = Duration::from_millis(1500);

/// How long a careful person waits before believing that something did not happen: a process
/// that is frozen may yet do it.
const PATIENCE: Millis = Millis(5_000);

pub(super) fn place(directory: &Path, database_url: Option<&String>) -> Place {
    Place { data: directory.join("store"), database_url: database_url.cloned() }
}

pub(crate) fn live(args: &LifeArgs) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let life = Life::begin(args).await?;
        match args.doomed {
            true => tokio::try_join!(life.open_sessions(), life.play_people()).map(|_| ())?,
            false => life.settle_everything().await?,
        }
        life.driver.shutdown(Duration::from_secs(10)).await;
        Ok(Verdict::Holds)
    })
}

struct Life {
    driver: Driver<Hands>,
    directory: PathBuf,
    pen: Arc<Pen>,
    tools: Tools,
    faulty: FaultyTools,
    patience: Millis,
    person: Actor,
    tenant: Tenant,
}

/// An unsafe one that asks, an unsafe one that does not, a slow one of these, one that can say
/// afterwards whether it happened, a keyed one that fails at first, and one that only looks.
struct Tools {
    charge: ToolSpec,
    mail: ToolSpec,
    dig: ToolSpec,
    ship: ToolSpec,
    book: ToolSpec,
    look: ToolSpec,
}

/// The tool that takes long enough to be killed, or frozen, in its middle.
const DIG: &str = "dig";

/// How long it takes, half of it before its effect.
const DIGGING: Duration = Duration::from_millis(60);

/// The tool whose first attempt fails.
const BOOK: &str = "book";

impl Tools {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            charge: tool("charge", Mutates::Irreversible, |d| d.gate = Gate::Ask)?,
            mail: tool("mail", Mutates::Irreversible, |_| {})?,
            dig: tool(DIG, Mutates::Irreversible, |_| {})?,
            ship: tool("ship", Mutates::Irreversible, |d| {
                d.hooks.insert(Hook::Verify);
            })?,
            book: tool(BOOK, Mutates::Bounded, |d| {
                d.facets.idempotency = Some(Idempotency::Keyed);
                d.retry = Retry { max_attempts: 5, backoff: Millis(10), ..Retry::default() };
            })?,
            look: tool("look", Mutates::None, |_| {})?,
        })
    }
}

pub(super) fn tool(
    name: &str,
    mutates: Mutates,
    change: impl FnOnce(&mut Definition),
) -> anyhow::Result<ToolSpec> {
    let schema = Schema::new(r#"{"type":"object"}"#)?;
    let mut definition = Definition::new(name.parse()?, "For torture.", schema);
    definition.facets.mutates = Some(mutates);
    definition.gate = Gate::Auto;
    definition.suspend_ttl = Millis::from_secs(3600);
    change(&mut definition);
    Ok(ToolSpec::new(definition)?)
}

impl Life {
    async fn begin(args: &LifeArgs) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&args.directory).context("making the directory")?;
        let store = place(&args.directory, args.database_url.as_ref()).open().await?;
        let pen = Arc::new(Pen::open(&args.directory)?);
        let mut settings = Settings::new(NodeId::new(&format!("life-{}", std::process::id()))?);
        settings.sweep_every = Duration::from_millis(20);
        settings.lease_ttl = LEASE_TTL;
        settings.stop_grace = STOP_GRACE;
        settings.observer = args.die_at.map_or_else(Observer::default, die_at);
        let patience = if args.nodes > 1 { PATIENCE } else { Millis(0) };
        let hands = Hands::new(Arc::clone(&pen), &args.directory, patience);
        let driver = Driver::start(store, Arc::new(hands), &settings);
        Ok(Self {
            driver,
            directory: args.directory.clone(),
            pen,
            tools: Tools::new()?,
            faulty: FaultyTools::new()?,
            patience,
            person: Actor::user(ActorId::new("torturer")?),
            tenant: Tenant::new("torture")?,
        })
    }

    async fn working(&self) -> anyhow::Result<Vec<SessionId>> {
        let filter = SessionFilter { status: Some(SessionStatus::Working), ..Default::default() };
        sessions(self.driver.store(), &filter).await
    }

    async fn open_sessions(&self) -> anyhow::Result<()> {
        loop {
            tokio::time::sleep(PACE).await;
            let config = Config { driver: DrivenBy::Caller, ..Config::default() };
            let opened = self.driver.open(self.tenant.clone(), config, self.person.clone()).await;
            let Some(session) = left_to_others(opened)? else { continue };
            self.pen.acknowledged([Ack::Opened(session)])?;
            let Tools { charge, mail, dig, ship, book, look } = &self.tools;
            let FaultyTools { slow, halted, lost } = &self.faulty;
            let calls = [halted, mail, charge, book, look, charge, dig, ship, slow, lost];
            let calls = calls.into_iter().map(|tool| self.proposal(tool));
            let calls = calls.collect::<anyhow::Result<Vec<_>>>()?;
            let stopped = calls.first().map(|call| call.id);
            let acks: Vec<_> = calls.iter().map(|call| Ack::Proposed(call.id)).collect();
            let proposed = Input::CallsProposed(CallsProposed { calls });
            if left_to_others(self.driver.input(session, proposed).await)?.is_some() {
                self.pen.acknowledged(acks)?;
                if let Some(call) = stopped {
                    self.stop(session, call).await?;
                }
            }
        }
    }

    /// Stops a call, as a person does who changed their mind.
    async fn stop(&self, session: SessionId, call: CallId) -> anyhow::Result<()> {
        let stopped = CallCancelled { call, by: self.person.clone(), note: None };
        let stopped = self.driver.input(session, Input::CallCancelled(stopped)).await;
        left_to_others(stopped).map(|_| ())
    }

    fn proposal(&self, tool: &ToolSpec) -> anyhow::Result<Proposal> {
        let bits = self.driver.fresh()?;
        let arguments = serde_json::Map::from_iter([("n".to_owned(), bits.to_string().into())]);
        Ok(Proposal {
            id: CallId::from_bits(bits),
            provider_id: ProviderCallId::new(format!("toolu_{bits}"))?,
            name: tool.name.to_string(),
            check: Check::Sound(SoundCall {
                contract: Arc::clone(tool.contract()),
                arguments: Arguments::plain(arguments),
                policy: PolicyFacts::default(),
                grants: Vec::new(),
            }),
        })
    }

    async fn play_people(&self) -> anyhow::Result<()> {
        loop {
            self.answer_all().await?;
            tokio::time::sleep(PACE).await;
        }
    }

    async fn settle_everything(&self) -> anyhow::Result<()> {
        while self.answer_all().await? > 0
            || self.driver.n_at_work() > 0
            || !self.working().await?.is_empty()
        {
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }

    /// Answers whatever waits, and returns how much that was.
    async fn answer_all(&self) -> anyhow::Result<usize> {
        let waiting = self.waiting().await?;
        for pending in &waiting {
            self.answer(pending).await?;
        }
        Ok(waiting.len())
    }

    async fn waiting(&self) -> anyhow::Result<Vec<Pending>> {
        let filter = PendingFilter::default();
        match self.driver.store().pending(&filter, &Page::first(200)).await {
            Ok(waiting) => Ok(waiting),
            Err(error) if is_passing(&error) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Approves, or says what became of a call after looking at the world.
    async fn answer(&self, pending: &Pending) -> anyhow::Result<()> {
        let resolution = match pending.kind {
            SuspensionKind::Settlement => {
                let happened = World::read(&self.directory)?.effects.contains_key(&pending.call);
                if !happened && Clock::System.now() < pending.since + self.patience {
                    return Ok(());
                }
                Resolution::Settle(match happened {
                    true => Settlement::Happened { output: None },
                    false => Settlement::RunAgain,
                })
            }
            SuspensionKind::Approval
            | SuspensionKind::Elicitation
            | SuspensionKind::ClientExec
            | SuspensionKind::Child => Resolution::Approve { edit: None, note: None, grant: None },
        };
        let resolved = Resolved {
            id: ResolutionId::from_bits(self.driver.fresh()?),
            call: pending.call,
            round: Some(pending.round),
            by: self.person.clone(),
            resolution,
            policy: PolicyFacts::default(),
        };
        let reply = left_to_others(self.driver.resolve(pending.session, resolved).await)?;
        let ack = match pending.kind {
            SuspensionKind::Settlement => Ack::Settled(pending.call),
            SuspensionKind::Approval
            | SuspensionKind::Elicitation
            | SuspensionKind::ClientExec
            | SuspensionKind::Child => Ack::Approved(pending.call),
        };
        if reply.is_some() { self.pen.acknowledged([ack]) } else { Ok(()) }
    }
}

/// What another node has done, or does better, is no error here.
fn left_to_others<T>(done: Result<T, InputError>) -> anyhow::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(
            InputError::Refused(Refusal::Stale(_))
            | InputError::OwnedElsewhere { .. }
            | InputError::LeaseLapsed
            | InputError::Overloaded
            | InputError::StoreAway(_),
        ) => Ok(None),
        Err(InputError::Store(error)) if is_passing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A frozen process may hold a lock that others wait for; that passes.
fn is_passing(error: &haft_store::Error) -> bool {
    matches!(error.kind(), ErrorKind::Gone | ErrorKind::Unknown)
}

/// Dies at the nth boundary, wherever that is.
fn die_at(nth: u32) -> Observer {
    let passed = AtomicU32::new(0);
    Observer::new(move |_| {
        if passed.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            std::process::abort();
        }
    })
}

/// Hands that write each effect to the world.
pub(super) struct Hands {
    pen: Arc<Pen>,
    directory: PathBuf,
    patience: Millis,
}

impl Hands {
    pub(super) fn new(pen: Arc<Pen>, directory: &Path, patience: Millis) -> Self {
        Self { pen, directory: directory.to_owned(), patience }
    }

    fn execute(&self, call: &Call) -> CallResult {
        if call.contract.tool.as_str() == BOOK && call.attempts == 1 {
            return CallResult::Err(Failure::new(ErrorClass::Upstream, "busy; try again"));
        }
        match self.pen.effect(call.id) {
            Ok(()) => CallResult::Ok(Output::of_text("done")),
            Err(error) => CallResult::Err(Failure::new(ErrorClass::ToolError, error.to_string())),
        }
    }

    /// Looks at the world, as a careful tool does: a process that is frozen may yet do it.
    async fn verify(&self, call: &Call) -> Verification {
        let happened = || World::read(&self.directory).map(|w| w.effects.contains_key(&call.id));
        if let Ok(false) = happened() {
            tokio::time::sleep(self.patience.into()).await;
        }
        match happened() {
            Ok(true) => Verification::Applied(Output::of_text("done")),
            Ok(false) => Verification::Absent,
            Err(_) => Verification::Unknown,
        }
    }
}

impl Performer for Hands {
    async fn perform(&self, job: Job) -> Input {
        match job.task {
            Task::Verify { call, attempt } => {
                let verdict = self.verify(&call).await;
                Input::Verified(Verified { call: call.id, attempt, verdict })
            }
            Task::Execute { ref call, .. } if call.contract.tool.as_str() == DIG => {
                tokio::time::sleep(DIGGING / 2).await;
                let dug = hands::perform(job.task, |call| self.execute(call));
                tokio::time::sleep(DIGGING / 2).await;
                dug
            }
            Task::Execute { call, attempt, fingerprint } => match Fault::of(&call) {
                Some(fault) => fault.strike(&self.pen, &call, attempt, &job.stop).await,
                None => {
                    let task = Task::Execute { call, attempt, fingerprint };
                    hands::perform(task, |call| self.execute(call))
                }
            },
            task => hands::perform(task, |call| self.execute(call)),
        }
    }
}
