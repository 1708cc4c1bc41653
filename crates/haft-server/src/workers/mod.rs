//! Workers: programs in any language that run the code of tools for this server.
//!
//! A worker registers the definitions of its tools and asks for jobs over HTTP. To everyone else
//! its tools are tools of the node: what may run, who is asked and what is recorded is decided
//! here, and the worker only runs code. Definitions are kept in the store, so that a server that
//! was started again knows them before the worker comes back: calls wait in the queue until then.
//!
//! `desk` is where jobs and workers meet, `tool` is a worker's tool as the runtime sees it, `lease`
//! makes the names under which jobs are held, `kept` has the definitions.

mod desk;
mod job;
mod kept;
mod lease;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{Event, Refusal, Returned};
use haft_core::tool::{Definition, Executor, Mode, Pool};
use haft_core::{Actor, ArtifactRef, Digest, Timestamp, ToolName};
use haft_runtime::registry::{Registered, Registry};
use haft_runtime::{Haft, InputError};
use haft_store::{Store, Tenant};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use self::desk::{Desk, Finish, LEASE, NotEnrolled, Process};
use self::job::JobKind;
pub(crate) use self::job::WorkerOutcome;
use self::kept::{FoundTool, KeptTool, KeptTools};
use self::lease::{LeaseMint, LeaseTerms};
use self::tool::WorkerTool;
use crate::error::{Error, Kind};

/// The longest time that a request for jobs stays open.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a late report is tried while its session has not noticed the interruption yet.
const LATE_WITHIN: Duration = Duration::from_secs(8);
/// How often it is tried meanwhile.
const LATE_EVERY: Duration = Duration::from_millis(100);
/// How often a node looks for definitions that were registered with another one.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);
/// How many tools a worker may have.
const TOOLS_MAX: usize = 500;

/// The workers of a node and their tools; a clone shares them.
#[derive(Clone)]
pub struct Workers(Arc<Shared>);

struct Shared {
    registry: Registry,
    store: Store,
    desk: Arc<Desk>,
    mint: LeaseMint,
    kept: KeptTools,
    /// The tools of workers that are in the registry. Locked while they change.
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    tools: BTreeMap<ToolName, KeptTool>,
    /// Which versions in the store were read or written last, by the names of their tools.
    versions: BTreeMap<String, u64>,
    /// Those whose tools could not be registered here, and that the log has told of.
    refused: BTreeMap<String, u64>,
}

/// Who registers, and with what.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) tenant: Tenant,
    pub(crate) by: Actor,
    pub(crate) worker: String,
    pub(crate) instance: String,
    /// When this process first registered anywhere.
    pub(crate) since: Timestamp,
    pub(crate) tools: Vec<Definition>,
}

/// Which worker asks.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) tenant: Tenant,
    pub(crate) worker: String,
    pub(crate) instance: String,
}

impl Asking {
    fn process(self) -> Process {
        Process { worker: (self.tenant, self.worker), instance: self.instance }
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Workers whose tools go into a registry, and are kept in a store.
    pub fn new(registry: Registry, store: Store) -> Self {
        Self(Arc::new(Shared {
            registry,
            desk: Arc::new(Desk::new()),
            mint: LeaseMint::new(store.clone()),
            kept: KeptTools::new(store.clone()),
            store,
            current: Mutex::default(),
        }))
    }

    /// Registers the tools that workers registered earlier or with other nodes, so that their
    /// calls wait for a worker instead of failing. To be called before the node starts.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub async fn restore(&self) -> Result<(), haft_store::Error> {
        // First of all: what is registered after the store was read would be taken for gone.
        let mut current = self.0.current.lock().await;
        let listed = self.0.kept.versions().await?;
        let is_gone = |name: &&ToolName| !listed.contains_key(name.as_str());
        let gone: Vec<ToolName> = current.tools.keys().filter(is_gone).cloned().collect();
        for name in gone {
            self.uninstall(&mut current, &name);
        }
        current.versions.retain(|name, _| listed.contains_key(name));
        current.refused.retain(|name, _| listed.contains_key(name));
        for (name, version) in listed {
            if current.versions.get(&name) != Some(&version) {
                self.reread(&mut current, name).await?;
            }
        }
        Ok(())
    }

    /// Registers what the store has under a name by now.
    async fn reread(&self, current: &mut Current, name: String) -> Result<(), haft_store::Error> {
        let Some(FoundTool { version, tool, .. }) = self.0.kept.read(&name).await? else {
            return Ok(());
        };
        let kept = match tool {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(tool = %name, %error, "a worker's tool cannot be read");
                current.versions.insert(name, version);
                return Ok(());
            }
        };
        match self.install(current, kept) {
            Ok(()) => drop(current.versions.insert(name, version)),
            // Tried again, as what is in the way may go, but said once.
            Err(error) => {
                if current.refused.insert(name.clone(), version) != Some(version) {
                    tracing::warn!(tool = %name, %error, "a worker's tool could not be registered");
                }
            }
        }
        Ok(())
    }

    /// Says which node the workers work for.
    pub(crate) fn attach(&self, haft: &Haft) {
        self.0.desk.attach(haft.driver().pools().clone());
    }

    /// Gives workers nothing more, and waits until they have reported what they have, for at most
    /// this long.
    pub async fn drain(&self, patience: Duration) {
        self.0.desk.close();
        let deadline = Instant::now() + patience;
        while self.0.desk.n_held() > 0 && Instant::now() < deadline {
            tokio::time::sleep(LATE_EVERY).await;
        }
    }

    /// Follows what is registered with other nodes, for ever.
    pub(crate) async fn follow(self) {
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            if let Err(error) = self.restore().await {
                tracing::debug!(%error, "the tools of workers could not be looked up");
            }
        }
    }

    /// Returns whether calls of a tool can be run here. Where no server listens, a command knows
    /// the tools of workers, but no worker can come to run them.
    pub(crate) async fn can_run(&self, tool: &Registered) -> bool {
        let is_theirs = tool.spec().pools.iter().any(|pool| Pool::is_of_workers(&pool.name));
        !is_theirs || self.0.current.lock().await.tools.contains_key(tool.name())
    }

    /// Says what a call waits for that is queued in a pool of workers.
    pub(crate) fn waited_for(&self, pool: &str) -> Option<String> {
        let tool = pool.strip_prefix(Pool::WORKERS)?;
        let workers = self.0.desk.workers_of(tool);
        Some(match workers.is_empty() {
            true => format!("no worker that has `{tool}` is connected to this node"),
            false => format!("all workers that have `{tool}` are busy: {}", workers.join(", ")),
        })
    }

    /// Takes a worker's tools in.
    pub(crate) async fn register(
        &self,
        given: Registration,
        now: Timestamp,
    ) -> Result<Value, Error> {
        let Registration { tenant, by, worker, instance, since, tools } = given;
        if tools.len() > TOOLS_MAX {
            let n = tools.len();
            return Err(Error::invalid(format!("tools: expected at most {TOOLS_MAX}, found {n}")));
        }
        let mut current = self.0.current.lock().await;
        let mut checked = BTreeMap::new();
        for definition in tools {
            let kept = self.checked(&current.tools, definition, &tenant, (&worker, since))?;
            if let Some(twice) = checked.insert(kept.definition.name.clone(), kept) {
                let name = twice.definition.name;
                return Err(Error::invalid(format!("tools: `{name}` stands there twice")));
            }
        }
        self.require_undo(&checked)?;
        let mut shown = serde_json::Map::new();
        let mut enrolled = BTreeMap::new();
        for (name, kept) in checked {
            let digest = kept.digest;
            enrolled.insert(name.clone(), digest);
            self.take_up(&mut current, kept, (&by, now)).await?;
            let is_current = current.tools.get(&name).is_some_and(|known| known.digest == digest);
            shown.insert(name.to_string(), json!({ "digest": digest, "current": is_current }));
        }
        let process = Process { worker: (tenant.clone(), worker.clone()), instance };
        self.0.desk.enroll(&process, enrolled.clone());
        self.forget_vanished(&mut current, (&tenant, &worker), &enrolled, (&by, now)).await?;
        Ok(json!({
            "worker": worker, "since": since, "lease_ms": LEASE.as_millis() as u64,
            "wait_ms_max": WAIT_MAX.as_millis() as u64, "tools": shown,
        }))
    }

    /// Makes a definition the current one, unless that of a later worker is, and keeps it.
    async fn take_up(
        &self,
        current: &mut Current,
        mut kept: KeptTool,
        (by, now): (&Actor, Timestamp),
    ) -> Result<(), Error> {
        let name = kept.definition.name.clone();
        let before = current.tools.get(&name).cloned();
        if let Some(known) = &before {
            let is_same = known.digest == kept.digest;
            let is_theirs = known.worker != kept.worker;
            // A tool that its worker left behind is the next one's, else nobody could end it.
            let owner = (known.tenant.clone(), known.worker.clone());
            if is_same && is_theirs && !self.0.desk.is_about(&owner) {
                kept.since = kept.since.max(known.since);
            }
            let is_kept = current.versions.contains_key(name.as_str());
            // Of two definitions the one of the worker that started later counts.
            if known.since > kept.since || (is_same && !is_theirs && is_kept) {
                return Ok(());
            }
        }
        // Until it is kept, the store is to be read again. What the registry refuses is not kept.
        current.versions.remove(name.as_str());
        self.install(current, kept.clone())?;
        match self.0.kept.put(&kept, by, now).await {
            Ok((version, stands)) => {
                if stands != kept {
                    self.install(current, stands)?;
                }
                current.versions.insert(name.to_string(), version);
                Ok(())
            }
            Err(error) => {
                match before {
                    Some(before) => self.install(current, before)?,
                    None => self.uninstall(current, &name),
                }
                Err(error)
            }
        }
    }

    /// A tool that its worker no longer has, and no other worker either, is gone. If another one
    /// has it, it is that one's.
    async fn forget_vanished(
        &self,
        current: &mut Current,
        (tenant, worker): (&Tenant, &str),
        has: &BTreeMap<ToolName, Digest>,
        (by, now): (&Actor, Timestamp),
    ) -> Result<(), Error> {
        let is_vanished = |(name, kept): &(&ToolName, &KeptTool)| {
            kept.tenant == *tenant && kept.worker == worker && !has.contains_key(*name)
        };
        let vanished: Vec<KeptTool> =
            current.tools.iter().filter(is_vanished).map(|(_, kept)| kept.clone()).collect();
        for kept in vanished {
            let name = &kept.definition.name;
            if let Some(worker) = self.0.desk.offered_by(name, tenant) {
                self.take_up(current, KeptTool { worker, ..kept }, (by, now)).await?;
                continue;
            }
            self.0.kept.remove(&kept, by, now).await?;
            self.uninstall(current, name);
            tracing::info!(tool = %name, "a worker no longer has a tool, so it is gone");
        }
        Ok(())
    }

    fn checked(
        &self,
        current: &BTreeMap<ToolName, KeptTool>,
        mut definition: Definition,
        tenant: &Tenant,
        (worker, since): (&str, Timestamp),
    ) -> Result<KeptTool, Error> {
        let name = definition.name.clone();
        let wrong = |why: &str| Error::invalid(format!("tools: `{name}`: {why}"));
        if definition.executor != Executor::Server {
            return Err(wrong("a worker runs it, so leave `executor` out"));
        }
        if definition.pools.iter().any(|pool| Pool::is_of_workers(&pool.name)) {
            return Err(wrong("names of pools that begin with `worker/` are the server's own"));
        }
        // It would be run again after a crash, and without asking anyone.
        if definition.mode == Some(Mode::External) && definition.facets.mutates.is_none() {
            return Err(wrong(
                "`mode: external` says that it reads from an outside service and changes nothing: \
                 confirm that with `facets.mutates: none`. For payments, messages and all that has \
                 an effect leave `mode` out, and give `category: side_effect` with \
                 `facets.mutates: irreversible`",
            ));
        }
        let taken = match current.get(&name) {
            Some(known) => known.tenant != *tenant,
            None => self.0.registry.get(name.as_str()).is_some(),
        };
        if taken {
            let message = format!("tools: `{name}`: another tool of this server has the name");
            return Err(Error::conflict(message));
        }
        let digest = serde_json::to_value(&definition).map_err(Error::internal)?;
        let digest = Digest::of_json(&digest);
        definition.pools.push(Pool::of_workers(&name));
        let (tenant, worker) = (tenant.clone(), worker.to_owned());
        // What is not sound is refused before anything is kept.
        let tried = self.tool(&definition, digest, &tenant);
        Registry::new().register(tried).map_err(|error| wrong(&error.to_string()))?;
        Ok(KeptTool { tenant, worker, since, digest, definition })
    }

    /// What takes a call back must be there.
    fn require_undo(&self, given: &BTreeMap<ToolName, KeptTool>) -> Result<(), Error> {
        for (name, kept) in given {
            let Some(undo) = kept.definition.undo.as_ref().map(|undo| &undo.tool) else { continue };
            if !given.contains_key(undo) && self.0.registry.get(undo.as_str()).is_none() {
                return Err(Error::invalid(format!(
                    "tools: `{name}` is taken back by `{undo}`, which nobody has registered; \
                     register both together"
                )));
            }
        }
        Ok(())
    }

    fn tool(&self, definition: &Definition, digest: Digest, tenant: &Tenant) -> WorkerTool {
        let with = (Arc::clone(&self.0.desk), self.0.store.clone());
        WorkerTool::new(definition.clone(), digest, tenant.clone(), with)
    }

    fn install(&self, current: &mut Current, kept: KeptTool) -> Result<(), Error> {
        let name = kept.definition.name.clone();
        let known = current.tools.get(&name);
        let is_new = known.is_none_or(|known| {
            (&known.definition, &known.tenant) != (&kept.definition, &kept.tenant)
                || known.digest != kept.digest
        });
        if is_new {
            let tool = self.tool(&kept.definition, kept.digest, &kept.tenant);
            let installed = match known.is_some() {
                true => self.0.registry.replace(tool).map(drop),
                false => self.0.registry.register(tool).map(drop),
            };
            installed.map_err(|error| Error::conflict(format!("tools: `{name}`: {error}")))?;
        }
        current.tools.insert(name, kept);
        Ok(())
    }

    fn uninstall(&self, current: &mut Current, name: &ToolName) {
        self.0.registry.remove(name.as_str());
        current.tools.remove(name);
        current.versions.remove(name.as_str());
    }

    /// Waits for jobs, and returns them as the worker reads them.
    pub(crate) async fn poll(
        &self,
        asking: Asking,
        n_free: u32,
        wait: Duration,
        stopping: impl Future<Output = ()>,
    ) -> Result<Vec<Value>, Error> {
        let process = asking.process();
        if n_free == 0 {
            self.0.desk.hang_up(&process);
            return Ok(Vec::new());
        }
        let mut poll = self.0.desk.poll(process, n_free).map_err(not_enrolled)?;
        let first = tokio::select! {
            given = poll.first() => given,
            () = tokio::time::sleep(wait) => None,
            () = stopping => None,
        };
        let mut given = first;
        let mut jobs = Vec::new();
        while let Some(desk::GivenJob { job, terms }) = given {
            match self.0.mint.token(&terms).await {
                Ok(token) => jobs.push(job.shown(&token, LEASE)),
                Err(error) => {
                    poll.give_back(&terms);
                    // What is held already must reach the worker all the same.
                    if jobs.is_empty() {
                        return Err(error);
                    }
                    break;
                }
            }
            given = poll.another();
        }
        Ok(jobs)
    }

    /// Extends leases; the answer waits for something to cancel, at most for `wait`.
    pub(crate) async fn beat(
        &self,
        asking: Asking,
        tokens: Vec<String>,
        progress: BTreeMap<String, Value>,
        wait: Duration,
    ) -> Result<Value, Error> {
        let process = asking.process();
        let (mut leases, mut unknown) = (Vec::new(), Vec::new());
        for token in tokens {
            match self.0.mint.read(&token).await? {
                Some(terms) => leases.push((token, terms)),
                None => unknown.push(token),
            }
        }
        for (token, told) in progress {
            let terms = self.0.mint.read(&token).await?;
            if let Some(job) = terms.and_then(|terms| self.0.desk.held(&terms)) {
                job.context.progress(told);
            }
        }
        let deadline = Instant::now() + wait;
        loop {
            let cancellation = self.0.desk.cancellation();
            let beat = self.0.desk.beat(&process, &leases);
            if !beat.cancel.is_empty() || Instant::now() >= deadline {
                let lost = [beat.lost, unknown].concat();
                return Ok(json!({ "cancel": beat.cancel, "lost": lost }));
            }
            tokio::select! {
                () = cancellation => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Keeps an output of a job outside the log.
    pub(crate) async fn keep(
        &self,
        (tenant, token): (&Tenant, &str),
        title: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactRef, Error> {
        let terms = self.0.mint.read(token).await?.ok_or_else(not_ours)?;
        self.require_tenant(tenant, &terms).await?;
        let job = self.0.desk.held(&terms).ok_or_else(stale)?;
        let kept = job.context.keep(title, media_type, bytes).await;
        kept.map_err(|error| Error::new(Kind::Overloaded, error.to_string()))
    }

    /// Takes in what came of a job. Answered when it is recorded, so that a worker that was not
    /// answered sends it again.
    pub(crate) async fn done(
        &self,
        haft: &Haft,
        (tenant, token): (&Tenant, &str),
        outcome: WorkerOutcome,
    ) -> Result<Value, Error> {
        let terms = self.0.mint.read(token).await?.ok_or_else(not_ours)?;
        self.require_tenant(tenant, &terms).await?;
        if !outcome.answers(terms.kind) {
            let kind = terms.kind.word();
            return Err(Error::invalid(format!("outcome: a job of kind `{kind}` has no such end")));
        }
        let is_released = matches!(outcome, WorkerOutcome::Released);
        let recorded = RecordSignal::listen(haft, &terms, outcome.may_leave_open());
        match self.0.desk.finish(&terms, outcome) {
            Finish::Before => Ok(json!({ "recorded": true, "late": false })),
            Finish::GivenBack => Ok(json!({ "recorded": false, "late": false })),
            Finish::Recording => Err(not_recorded()),
            Finish::Told if terms.kind == JobKind::Run => {
                self.recorded(recorded, terms).await?;
                Ok(json!({ "recorded": true, "late": false }))
            }
            Finish::Told => {
                // Nothing of it is the worker's to make sure of.
                self.0.desk.recorded(&terms, true);
                Ok(json!({ "recorded": true, "late": false }))
            }
            Finish::AnothersNow => Err(stale()),
            Finish::NotHeld(_) if is_released || terms.kind != JobKind::Run => Err(stale()),
            Finish::NotHeld(outcome) => self.late(haft, &terms, outcome).await,
        }
    }

    /// Waits until what came of a job is in the log. It goes on if the worker hangs up, so that a
    /// repetition is answered by what was recorded.
    async fn recorded(&self, recorded: RecordSignal, terms: LeaseTerms) -> Result<(), Error> {
        let desk = Arc::clone(&self.0.desk);
        let waiting = tokio::spawn(async move {
            let recorded = recorded.wait().await;
            desk.recorded(&terms, recorded.is_ok());
            recorded
        });
        waiting.await.map_err(Error::internal)?
    }

    /// Another tenant's lease is one that was never given.
    async fn require_tenant(&self, tenant: &Tenant, terms: &LeaseTerms) -> Result<(), Error> {
        let is_theirs = match self.0.desk.held(terms) {
            Some(job) => job.tenant == *tenant,
            None => self.0.store.tenant(terms.session).await?.as_ref() == Some(tenant),
        };
        if is_theirs { Ok(()) } else { Err(not_ours()) }
    }

    /// Settles a call in doubt by what its worker says in the end.
    async fn late(
        &self,
        haft: &Haft,
        terms: &LeaseTerms,
        outcome: WorkerOutcome,
    ) -> Result<Value, Error> {
        let returned: Returned = match outcome.returned() {
            Ok(returned) => returned,
            Err(error) if error.is_effect_unknown() => return Err(stale()),
            Err(error) => error.into_returned(),
        };
        let _waiting = self.0.desk.reports_late(terms.call);
        let deadline = Instant::now() + LATE_WITHIN;
        loop {
            let LeaseTerms { session, call, attempt, .. } = *terms;
            match haft.report_attempt(session, call, attempt, returned.clone()).await {
                Ok(_) => return Ok(json!({ "recorded": true, "late": true })),
                Err(InputError::Refused(Refusal::NeedsOwner)) if Instant::now() < deadline => {
                    tokio::time::sleep(LATE_EVERY).await;
                }
                Err(InputError::Refused(Refusal::NeedsOwner)) => {
                    let message = "the call's session is not back at work yet; send it again";
                    return Err(Error::new(Kind::Overloaded, message));
                }
                Err(InputError::Refused(_) | InputError::UnknownSession) => return Err(stale()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Hears when the end of an attempt is in the log.
struct RecordSignal {
    /// Whether it is the end that the worker told of.
    told: tokio::sync::oneshot::Receiver<bool>,
    _tap: haft_runtime::Tap,
}

/// How long the end of an attempt may take to be recorded before the worker is told to say it
/// again.
const RECORDED_WITHIN: Duration = Duration::from_secs(10);

impl RecordSignal {
    /// An attempt that was interrupted, as by its timeout, while its worker told of a clear end
    /// has not had that end recorded: it can still settle the call.
    fn listen(haft: &Haft, terms: &LeaseTerms, may_leave_open: bool) -> Self {
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        let (of, call) = (terms.session, terms.call);
        let tap = haft.live().tap(move |live| {
            let haft_runtime::Live::Appended { session, events, .. } = live else { return };
            let is_end = |event: &&Event| event.call() == Some(call) && ends_attempt(event);
            if *session != of {
                return;
            }
            if let Some(end) = events.iter().find(is_end) {
                let is_it = may_leave_open || !matches!(end, Event::CallInterrupted { .. });
                let mut tell = tell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Whoever asked may have hung up.
                tell.take().and_then(|tell| tell.send(is_it).ok());
            }
        });
        Self { told, _tap: tap }
    }

    async fn wait(self) -> Result<(), Error> {
        match tokio::time::timeout(RECORDED_WITHIN, self.told).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false) | Err(_)) | Err(_) => Err(not_recorded()),
        }
    }
}

fn not_recorded() -> Error {
    Error::new(Kind::Overloaded, "the result is not recorded yet; send it again")
}

/// Whether an event says how an attempt of its call ended.
fn ends_attempt(event: &Event) -> bool {
    matches!(
        event,
        Event::CallFinished { .. }
            | Event::CallInterrupted { .. }
            | Event::CallRetryScheduled { .. }
            | Event::CallSuspended { .. }
    )
}

fn not_enrolled(why: NotEnrolled) -> Error {
    match why {
        NotEnrolled::Closed => {
            Error::new(Kind::Overloaded, "this node is stopping, and gives no jobs any more")
        }
        NotEnrolled::Unknown => {
            Error::conflict("this server does not know the worker yet; register first")
                .with_details(json!({ "code": "unregistered" }))
        }
        NotEnrolled::Replaced => {
            Error::conflict("another process registered under this worker's name")
                .with_details(json!({ "code": "replaced" }))
        }
    }
}

fn not_ours() -> Error {
    Error::invalid("lease: this server never gave it")
}

fn stale() -> Error {
    Error::conflict("the lease is no longer held, and the call needs no result from it")
        .with_details(json!({ "code": "stale" }))
}
