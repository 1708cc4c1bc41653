//! What many waiting calls cost: on the disk, in memory, for whoever resolves one, and for new
//! calls when many fall due at once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use haft_core::session::{
    CallsProposed, Config, Driver as DrivenBy, Input, PolicyFacts, Resolution, Resolved,
};
use haft_core::tool::{Gate, ToolSpec};
use haft_core::{Actor, CallId, CallResult, Millis, Output, ResolutionId, SessionId, Timestamp};
use haft_runtime::{Clock, Driver, Job, ManualClock, Performer, Settings};
use haft_store::{CallStage, ErrorKind, NodeId, Page, PendingFilter, Store, Tenant};
use serde::Serialize;
use tempfile::TempDir;
use tokio::task::{AbortHandle, JoinSet};

use super::session::{proposal, tool};
use crate::hands;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    parked: u32,
    parked_per_second: f64,
    stored_bytes_each: f64,
    event_bytes_each: u64,
    memory_growth_bytes: i64,
    resolve_p99_us_with_1000_parked: u128,
    resolve_p99_us_with_all_parked: u128,
    resolve_p99_ratio: f64,
    fell_due_together: u32,
    expired_per_second: f64,
    new_call_p99_us_before: u128,
    new_call_p99_us_meanwhile: u128,
    new_call_p99_ratio: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parked, parked_per_second, stored_bytes_each, event_bytes_each, .. } = self;
        writeln!(f, "{parked} parked calls, SQLite, {parked_per_second:.0} parked a second")?;
        writeln!(
            f,
            "  {stored_bytes_each:>9.0} B   stored for each, {event_bytes_each} of them its events"
        )?;
        writeln!(f, "  {:>9.1} MB  more memory than empty", self.memory_growth_bytes as f64 / 1e6)?;
        let (few, many) =
            (self.resolve_p99_us_with_1000_parked, self.resolve_p99_us_with_all_parked);
        writeln!(f, "  {few:>9} µs  to resolve with 1000 parked, 99 in 100")?;
        writeln!(
            f,
            "  {many:>9} µs  to resolve with all parked, {:.2} times that (wanted: 2 or less)",
            self.resolve_p99_ratio
        )?;
        let (due, rate) = (self.fell_due_together, self.expired_per_second);
        writeln!(f, "  {rate:>9.0} /s  resumed when {due} fell due together")?;
        write!(
            f,
            "  {:>9} µs  for a new call meanwhile, 99 in 100; {:.2} times as long as before",
            self.new_call_p99_us_meanwhile, self.new_call_p99_ratio
        )
    }
}

/// How many are resolved for each percentile.
const SAMPLES: u32 = 1_000;
/// How many are parked in the store that is compared with.
const FEW: u32 = 1_000;
/// How many callers there are at a time.
const CALLERS: u32 = 64;
/// How many fall due together, if there are as many.
const DUE_MAX: u32 = 100_000;

pub(super) async fn measure(directory: &TempDir, count: u32) -> anyhow::Result<Figures> {
    let count = count.max(2 * FEW);
    let (few, many) = (directory.path().join("few"), directory.path().join("many"));
    let clock = ManualClock::at(Clock::System.now());
    let node = Node::start(&many, &clock).await?;
    let memory_empty = resident_bytes()?;
    let started = Instant::now();
    let due = DUE_MAX.min(count / 2);
    let mut sampled = node.park(due, due.div_ceil(SAMPLES / 2)).await?;
    let boundary = node.pass_a_moment();
    let rest = count - due;
    sampled.extend(node.park(rest, rest.div_ceil(SAMPLES / 2)).await?);
    let parking = started.elapsed();
    let memory_growth_bytes = i64::try_from(resident_bytes()?)? - i64::try_from(memory_empty)?;
    let one = sampled.first().context("nothing was parked")?.0;
    let event_bytes_each = node.event_bytes(one).await?;
    node.stop().await;

    // Only a store that was closed has everything in its file.
    let node = Node::start(&many, &clock).await?;
    let stored = stored_bytes(&many)?;
    let beside = Node::start(&few, &clock).await?;
    beside.park(FEW, FEW).await?;
    let few = beside.park(u32::try_from(sampled.len())?, 1).await?;
    let (few, many) = resolve_in_turns((&beside, few), (&node, sampled)).await?;
    beside.stop().await;
    let before = node.new_calls(SAMPLES).await?;
    let (expiring, fell_due, meanwhile) = node.let_fall_due(boundary).await?;
    node.stop().await;
    Ok(Figures {
        parked: count,
        parked_per_second: f64::from(count) / parking.as_secs_f64(),
        stored_bytes_each: stored as f64 / f64::from(count),
        event_bytes_each,
        memory_growth_bytes,
        resolve_p99_us_with_1000_parked: few.as_micros(),
        resolve_p99_us_with_all_parked: many.as_micros(),
        resolve_p99_ratio: many.as_secs_f64() / few.as_secs_f64(),
        fell_due_together: fell_due,
        expired_per_second: f64::from(fell_due) / expiring.as_secs_f64(),
        new_call_p99_us_before: before.as_micros(),
        new_call_p99_us_meanwhile: meanwhile.as_micros(),
        new_call_p99_ratio: meanwhile.as_secs_f64() / before.as_secs_f64(),
    })
}

/// Approves one here and one there, and returns the times that 99 in 100 stay below.
async fn resolve_in_turns(
    (one, of_one): (&Node, Vec<Parked>),
    (other, of_other): (&Node, Vec<Parked>),
) -> anyhow::Result<(Duration, Duration)> {
    let (mut times_of_one, mut times_of_other) = (Vec::new(), Vec::new());
    for (here, there) in of_one.into_iter().zip(of_other) {
        times_of_one.push(one.resolve(here).await?);
        times_of_other.push(other.resolve(there).await?);
    }
    Ok((p99(times_of_one), p99(times_of_other)))
}

type Parked = (SessionId, CallId);

#[derive(Clone)]
struct Node {
    driver: Driver<NoHands>,
    clock: ManualClock,
    ticking: AbortHandle,
    gated: ToolSpec,
    plain: ToolSpec,
    tenant: Tenant,
}

impl Node {
    async fn start(directory: &Path, clock: &ManualClock) -> anyhow::Result<Self> {
        let store = open(directory).await?;
        let mut settings = Settings::new(NodeId::new("bench")?);
        settings.clock = Clock::Manual(clock.clone());
        settings.lease_ttl = Duration::from_secs(24 * 3600);
        let driver = Driver::start(store, Arc::new(NoHands), &settings);
        let ticking = tokio::spawn(tick(clock.clone())).abort_handle();
        let (gated, plain) = (tool(Gate::Ask)?, tool(Gate::Auto)?);
        let (clock, tenant) = (clock.clone(), Tenant::new("bench")?);
        Ok(Self { driver, clock, ticking, gated, plain, tenant })
    }

    async fn stop(self) {
        self.ticking.abort();
        self.driver.shutdown(Duration::from_secs(60)).await;
    }

    /// Opens sessions that each wait for one approval; returns one of every so many.
    async fn park(&self, count: u32, one_of: u32) -> anyhow::Result<Vec<Parked>> {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let node = self.clone();
            callers.spawn(async move {
                let mut sampled = Vec::new();
                for number in (caller..count).step_by(CALLERS as usize) {
                    let parked = node.call(&node.gated).await?;
                    if number % one_of == 0 {
                        sampled.push(parked);
                    }
                }
                anyhow::Ok(sampled)
            });
        }
        let mut sampled = Vec::new();
        while let Some(caller) = callers.join_next().await {
            sampled.extend(caller??);
        }
        Ok(sampled)
    }

    async fn call(&self, tool: &ToolSpec) -> anyhow::Result<Parked> {
        let config = Config { driver: DrivenBy::Caller, ..Config::default() };
        let session = self.driver.open(self.tenant.clone(), config, Actor::system()).await?;
        let proposal = proposal(tool, self.driver.fresh()?)?;
        let call = proposal.id;
        let proposed = CallsProposed { calls: vec![proposal] };
        self.driver.input(session, Input::CallsProposed(proposed)).await?;
        Ok((session, call))
    }

    /// Approves a call and waits until nothing follows from it any more; returns how long it took
    /// until the approval was acknowledged.
    async fn resolve(&self, (session, call): Parked) -> anyhow::Result<Duration> {
        let resolved = Resolved {
            id: ResolutionId::from_bits(self.driver.fresh()?),
            call,
            round: None,
            by: Actor::system(),
            resolution: Resolution::Approve { edit: None, note: None, grant: None },
            policy: PolicyFacts::default(),
        };
        let started = Instant::now();
        self.driver.resolve(session, resolved).await?;
        let acknowledged = started.elapsed();
        self.come_to_rest().await;
        Ok(acknowledged)
    }

    async fn come_to_rest(&self) {
        while self.driver.n_at_work() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn new_calls(&self, count: u32) -> anyhow::Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            self.call(&self.plain).await?;
            times.push(began.elapsed());
        }
        Ok(p99(times))
    }

    /// What is parked from here on falls due later than what is parked already.
    fn pass_a_moment(&self) -> Timestamp {
        let now = Clock::Manual(self.clock.clone()).now();
        self.clock.advance(Millis(100));
        now
    }

    async fn event_bytes(&self, session: SessionId) -> anyhow::Result<u64> {
        let entries = self.driver.store().entries(session, 0, 100).await?;
        Ok(entries.iter().map(|entry| entry.body.len() as u64).sum())
    }

    /// Moves the clock past the deadlines of what was parked up to a moment, and goes on calling
    /// until all of it has gone on. The clock stands still meanwhile, so that no more falls due.
    async fn let_fall_due(
        &self,
        parked_until: Timestamp,
    ) -> anyhow::Result<(Duration, u32, Duration)> {
        self.ticking.abort();
        let store = self.driver.store();
        let first = store.pending(&PendingFilter::default(), &Page::first(1)).await?;
        let first = first.first().context("nothing is parked")?;
        let deadline = parked_until + first.expires_at.since(first.since);
        let due = waiting_until(store, deadline).await?;
        let now = Clock::Manual(self.clock.clone()).now();
        let started = Instant::now();
        self.clock.advance(deadline.since(now));
        let mut times = Vec::new();
        while store.next_due().await?.is_some_and(|next| next <= deadline) {
            let began = Instant::now();
            self.call(&self.plain).await?;
            times.push(began.elapsed());
        }
        self.come_to_rest().await;
        let spent = started.elapsed();
        let settled = store.call(first.session, first.call).await?.context("a call is gone")?;
        anyhow::ensure!(settled.stage == CallStage::Settled, "a call that fell due still waits");
        Ok((spent, due, p99(times)))
    }
}

/// Counts what waits until a deadline at most.
async fn waiting_until(store: &Store, deadline: Timestamp) -> anyhow::Result<u32> {
    let mut count = 0;
    let mut page = Page::first(10_000);
    loop {
        let waits = store.pending(&PendingFilter::default(), &page).await?;
        count += waits.iter().filter(|wait| wait.expires_at <= deadline).count();
        match waits.last() {
            Some(last) if last.expires_at <= deadline => page = Page::after(last.cursor(), 10_000),
            Some(_) | None => return Ok(u32::try_from(count)?),
        }
    }
}

/// Opens a store that is perhaps being closed at this moment.
async fn open(directory: &Path) -> anyhow::Result<Store> {
    loop {
        match Store::open_sqlite(directory) {
            Err(error) if error.kind() == ErrorKind::InUse => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            opened => return opened.context("opening the store"),
        }
    }
}

/// Has the clock follow the machine's: ids and deadlines are spread as they are in life.
async fn tick(clock: ManualClock) {
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let passed = Millis(u64::try_from(last.elapsed().as_millis()).unwrap_or(0));
        last += passed.into();
        clock.advance(passed);
    }
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
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
