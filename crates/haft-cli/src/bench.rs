//! `haft bench`: what a user would measure before trusting it with many waiting calls.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use haft_core::session::{
    CallsProposed, Check, Config, Driver as DrivenBy, Input, PolicyFacts, Proposal, Resolution,
    Resolved, SoundCall,
};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema, ToolSpec};
use haft_core::{
    Actor, Arguments, CallId, CallResult, Millis, Output, ProviderCallId, ResolutionId, SessionId,
};
use haft_runtime::{Clock, Driver, Job, ManualClock, Performer, Settings};
use haft_store::{NodeId, Page, PendingFilter, Store, Tenant};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::{Verdict, hands};

/// Measures on this machine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Parks calls that wait for approval, then approves some and lets the rest fall due at once.
    Parked {
        /// How many calls wait.
        #[arg(long, default_value_t = 10_000)]
        count: u32,
        /// Prints the figures as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Figures {
    parked: u32,
    parked_per_second: f64,
    stored_bytes_each: f64,
    memory_growth_bytes: i64,
    resolve_p99_us_with_1000_parked: u128,
    resolve_p99_us_with_all_parked: u128,
    resolve_p99_ratio: f64,
    fell_due_together: u32,
    expired_per_second: f64,
    new_call_p99_us_meanwhile: u128,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    let Command::Parked { count, json } = command;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(parked((*count).max(2_000)))?;
    match json {
        true => println!("{}", serde_json::to_string_pretty(&figures)?),
        false => println!("{figures}"),
    }
    Ok(Verdict::Holds)
}

/// How many are resolved for each percentile.
const SAMPLES: usize = 500;
/// How many callers there are at a time.
const CALLERS: u32 = 64;

async fn parked(count: u32) -> anyhow::Result<Figures> {
    let directory = tempfile::tempdir().context("making a temporary directory")?;
    let node = Node::start(directory.path())?;
    let mut calls = node.park(1_000).await?;
    let few = node.resolve(&calls.split_off(calls.len() - SAMPLES)).await?;
    let (memory, stored) = (resident_bytes()?, stored_bytes(directory.path())?);
    let started = Instant::now();
    calls.extend(node.park(count - 1_000).await?);
    let parking = started.elapsed();
    let (memory_after, stored_after) = (resident_bytes()?, stored_bytes(directory.path())?);
    let many = node.resolve(&calls.split_off(calls.len() - SAMPLES)).await?;
    let due = u32::try_from(calls.len())?;
    let (expiring, meanwhile) = node.let_all_fall_due().await?;
    Ok(Figures {
        parked: count,
        parked_per_second: f64::from(count - 1_000) / parking.as_secs_f64(),
        stored_bytes_each: stored_after.saturating_sub(stored) as f64 / f64::from(count - 1_000),
        memory_growth_bytes: i64::try_from(memory_after)? - i64::try_from(memory)?,
        resolve_p99_us_with_1000_parked: few.as_micros(),
        resolve_p99_us_with_all_parked: many.as_micros(),
        resolve_p99_ratio: many.as_secs_f64() / few.as_secs_f64(),
        fell_due_together: due,
        expired_per_second: f64::from(due) / expiring.as_secs_f64(),
        new_call_p99_us_meanwhile: meanwhile.as_micros(),
    })
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parked, parked_per_second, stored_bytes_each, .. } = self;
        writeln!(
            f,
            "{parked} calls parked, {parked_per_second:.0} a second, {stored_bytes_each:.0} bytes stored for each"
        )?;
        writeln!(f, "memory grew by {:.1} MB", self.memory_growth_bytes as f64 / 1e6)?;
        let (few, many) =
            (self.resolve_p99_us_with_1000_parked, self.resolve_p99_us_with_all_parked);
        writeln!(
            f,
            "resolve p99: {few} µs with 1000 parked, {many} µs with all (ratio {:.2})",
            self.resolve_p99_ratio
        )?;
        let (due, rate) = (self.fell_due_together, self.expired_per_second);
        write!(
            f,
            "{due} fell due together: {rate:.0} a second; a new call meanwhile p99 {} µs",
            self.new_call_p99_us_meanwhile
        )
    }
}

#[derive(Clone)]
struct Node {
    driver: Driver<NoHands>,
    clock: ManualClock,
    gated: ToolSpec,
    plain: ToolSpec,
    tenant: Tenant,
}

impl Node {
    fn start(directory: &Path) -> anyhow::Result<Self> {
        let clock = ManualClock::at(Clock::System.now());
        let mut settings = Settings::new(NodeId::new("bench")?);
        settings.clock = Clock::Manual(clock.clone());
        settings.lease_ttl = Duration::from_secs(3600);
        let store = Store::open_sqlite(directory)?;
        let driver = Driver::start(store, Arc::new(NoHands), &settings);
        let (gated, plain) = (tool(Gate::Ask)?, tool(Gate::Auto)?);
        Ok(Self { driver, clock, gated, plain, tenant: Tenant::new("bench")? })
    }

    /// Opens sessions that each wait for one approval.
    async fn park(&self, count: u32) -> anyhow::Result<Vec<(SessionId, CallId)>> {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let node = self.clone();
            let share = count / CALLERS + u32::from(caller < count % CALLERS);
            callers.spawn(async move {
                let mut parked = Vec::new();
                for _ in 0..share {
                    parked.push(node.call(&node.gated).await?);
                }
                anyhow::Ok(parked)
            });
        }
        let mut parked = Vec::new();
        while let Some(caller) = callers.join_next().await {
            parked.extend(caller??);
        }
        Ok(parked)
    }

    async fn call(&self, tool: &ToolSpec) -> anyhow::Result<(SessionId, CallId)> {
        let config = Config { driver: DrivenBy::Caller, ..Config::default() };
        let session = self.driver.open(self.tenant.clone(), config, Actor::system()).await?;
        let id = CallId::from_bits(self.driver.fresh()?);
        let proposal = Proposal {
            id,
            provider_id: ProviderCallId::new("toolu_1")?,
            name: tool.name.to_string(),
            check: Check::Sound(SoundCall {
                contract: Arc::clone(tool.contract()),
                arguments: Arguments::plain(serde_json::Map::new()),
                policy: PolicyFacts::default(),
                grants: Vec::new(),
            }),
        };
        let proposed = CallsProposed { calls: vec![proposal] };
        self.driver.input(session, Input::CallsProposed(proposed)).await?;
        Ok((session, id))
    }

    /// Approves one after the other and returns the time that 99 in 100 stay below.
    async fn resolve(&self, calls: &[(SessionId, CallId)]) -> anyhow::Result<Duration> {
        let mut times = Vec::new();
        for (session, call) in calls {
            let resolved = Resolved {
                id: ResolutionId::from_bits(self.driver.fresh()?),
                call: *call,
                round: None,
                by: Actor::system(),
                resolution: Resolution::Approve { edit: None, note: None, grant: None },
                policy: PolicyFacts::default(),
            };
            let started = Instant::now();
            self.driver.resolve(*session, resolved).await?;
            times.push(started.elapsed());
        }
        Ok(p99(times))
    }

    /// Moves the clock past every deadline, and goes on calling meanwhile.
    async fn let_all_fall_due(&self) -> anyhow::Result<(Duration, Duration)> {
        let started = Instant::now();
        self.clock.advance(Millis::from_secs(3600));
        let mut times = Vec::new();
        while !self.is_empty().await? {
            let began = Instant::now();
            self.call(&self.plain).await?;
            times.push(began.elapsed());
        }
        Ok((started.elapsed(), p99(times)))
    }

    async fn is_empty(&self) -> anyhow::Result<bool> {
        let waiting =
            self.driver.store().pending(&PendingFilter::default(), &Page::first(1)).await?;
        Ok(waiting.is_empty())
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

fn tool(gate: Gate) -> anyhow::Result<ToolSpec> {
    let schema = Schema::new(r#"{"type":"object"}"#)?;
    let mut definition = Definition::new("refund".parse()?, "Refunds a charge.", schema);
    definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
    definition.gate = gate;
    Ok(ToolSpec::new(definition)?)
}

fn resident_bytes() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("reading /proc/self/statm")?;
    let pages = statm.split(' ').nth(1).context("no resident pages in /proc/self/statm")?;
    Ok(pages.parse::<u64>()? * 4096)
}

fn stored_bytes(directory: &Path) -> anyhow::Result<u64> {
    let database = std::fs::metadata(directory.join("haft.db")).context("looking at the store")?;
    Ok(database.len())
}

/// Hands with nothing to do.
struct NoHands;

impl Performer for NoHands {
    async fn perform(&self, job: Job) -> Input {
        hands::perform(job.task, |_| CallResult::Ok(Output::of_text("done")))
    }
}
