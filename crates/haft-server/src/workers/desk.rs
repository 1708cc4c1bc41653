//! Where jobs and workers meet: what waits for a worker, who asks for jobs, who holds which.
//!
//! All of it is in the memory of one node. A session's calls are run by the node that owns the
//! session, so a worker asks every node; what a restart forgets is recovered from the log, like
//! any call whose process died. Only leases outlive it: they say themselves what they are for.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use haft_core::tool::Pool;
use haft_core::{CallId, Digest, ToolName};
use haft_runtime::{Offer, Pools};
use haft_store::Tenant;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::job::{Job, JobKind, WorkerOutcome};
use super::lease::LeaseTerms;

/// How long a lease lasts without a beat.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How many leases are remembered after their jobs are done, so that `done` may be sent again.
const DONE_MAX: usize = 4096;
/// How many attempts are remembered whose workers are known to be at them no more.
const OVER_MAX: usize = 4096;
/// How long a worker that was not heard of is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(3600);

/// How many calls are remembered that run elsewhere before those are forgotten that ended.
const ELSEWHERE_MAX: usize = 4096;

/// A worker, by its tenant and name.
pub(super) type WorkerName = (Tenant, String);

/// Which process a worker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) worker: WorkerName,
    pub(super) instance: String,
}

/// What a worker registered.
#[derive(Debug, Clone)]
pub(super) struct Enrollment {
    pub(super) instance: String,
    /// Its tools, by the digests of their definitions.
    pub(super) tools: BTreeMap<ToolName, Digest>,
    pub(super) seen: Instant,
}

impl Enrollment {
    /// Whether it was heard of of late.
    fn is_about(&self) -> bool {
        self.seen.elapsed() < LEASE * 6
    }
}

/// How a job came to its end here.
#[derive(Debug)]
pub(super) enum JobEnd {
    /// The worker said what came of it.
    Said(WorkerOutcome),
    /// The worker's process is known to be gone.
    Died { worker: String },
}

/// The jobs and workers of a node.
pub(super) struct Desk {
    state: Mutex<State>,
    /// Where queued calls wait for offers; there once the node has started.
    pools: OnceLock<Pools>,
    /// Told when a lease is to be cancelled.
    cancelled: Notify,
    /// Told when a late report waits to be recorded.
    reported: Notify,
    /// Since when workers can have been heard of.
    since: Instant,
}

#[derive(Default)]
struct State {
    next: u64,
    is_closed: bool,
    workers: HashMap<WorkerName, Enrollment>,
    /// Requests for jobs that are open, the earliest first.
    polls: BTreeMap<u64, OpenPoll>,
    /// What nobody holds yet, the earliest first.
    unheld: BTreeMap<u64, UnheldJob>,
    /// What workers hold, by the nonces of their leases.
    held: HashMap<String, HeldJob>,
    /// Calls whose earlier attempts live workers say that they still run, and until when that
    /// counts.
    elsewhere: HashMap<CallId, Instant>,
    /// The leases whose jobs were done last, and what came of them recorded.
    done: VecDeque<String>,
    /// The leases whose ends were told to whoever waited, and are not recorded yet.
    recording: BTreeSet<String>,
    /// The attempts of which this node itself learned that no worker is at them any more.
    over: VecDeque<(CallId, u32)>,
    /// Calls about which a late report waits to be recorded.
    late: Vec<CallId>,
}

struct OpenPoll {
    process: Process,
    n_free: u32,
    jobs: mpsc::UnboundedSender<u64>,
}

struct UnheldJob {
    job: Arc<Job>,
    /// The request that it was given to, which has not been answered yet.
    poll: Option<u64>,
    held: mpsc::UnboundedSender<Holding>,
    ended: oneshot::Sender<JobEnd>,
}

struct HeldJob {
    /// Its number while nobody held it.
    number: u64,
    job: Arc<Job>,
    held: mpsc::UnboundedSender<Holding>,
    process: Process,
    until: Instant,
    is_cancelled: bool,
    ended: oneshot::Sender<JobEnd>,
}

/// Who has a job that somebody waits for.
#[derive(Debug)]
pub(super) enum Holding {
    /// A worker, by a lease with this nonce.
    Taken(String),
    /// Nobody again: the worker gave it back before it began.
    GivenBack,
}

/// A job that somebody waits for. It is withdrawn, or left to the worker that has it, when this is
/// dropped.
pub(super) struct Ticket {
    desk: Arc<Desk>,
    number: u64,
    /// Told each time a worker takes it or gives it back.
    pub(super) holding: mpsc::UnboundedReceiver<Holding>,
    pub(super) ended: oneshot::Receiver<JobEnd>,
    nonce: Option<String>,
}

/// A request for jobs that is being answered.
pub(super) struct Poll {
    desk: Arc<Desk>,
    number: u64,
    process: Process,
    jobs: mpsc::UnboundedReceiver<u64>,
    _offer: Option<Offer>,
}

/// A job that a worker has just been given.
pub(super) struct GivenJob {
    pub(super) job: Arc<Job>,
    pub(super) terms: LeaseTerms,
}

/// Why a worker is not given jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotEnrolled {
    /// The node is stopping.
    Closed,
    /// This node does not know it.
    Unknown,
    /// Another process registered under its name.
    Replaced,
}

/// What became of a lease that somebody says is done.
pub(super) enum Finish {
    /// Whoever waited for it has been told. It counts as done once [`Desk::recorded`] says so.
    Told,
    /// It was done before, and what came of it is recorded.
    Before,
    /// The job was given back, and waits for another worker.
    GivenBack,
    /// It was said before, and is being recorded.
    Recording,
    /// The same attempt was given to somebody else, or waits to be.
    AnothersNow,
    /// Nobody waits for it here.
    NotHeld(WorkerOutcome),
}

impl Desk {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            pools: OnceLock::new(),
            cancelled: Notify::new(),
            reported: Notify::new(),
            since: Instant::now(),
        }
    }

    /// Says where queued calls wait.
    pub(super) fn attach(&self, pools: Pools) {
        // A second node over the same desk would be a mistake of ours; the first one stands.
        drop(self.pools.set(pools));
    }

    /// Gives nobody anything more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        // Whoever waits for jobs is told that there are none.
        state.polls.clear();
    }

    /// Returns how many jobs workers have, or have done without its being recorded yet.
    pub(super) fn n_held(&self) -> usize {
        let state = self.lock();
        state.held.len() + state.recording.len()
    }

    /// Takes a worker in. A process that takes over a name says that the one before it is gone.
    pub(super) fn enroll(&self, process: &Process, tools: BTreeMap<ToolName, Digest>) {
        let mut state = self.lock();
        let enrolled =
            Enrollment { instance: process.instance.clone(), tools, seen: Instant::now() };
        state.workers.insert(process.worker.clone(), enrolled);
        state.forget_unseen();
        let gone = |held: &HeldJob| {
            held.process.worker == process.worker && held.process.instance != process.instance
        };
        let nonces: Vec<String> = state
            .held
            .iter()
            .filter(|(_, held)| gone(held))
            .map(|(nonce, _)| nonce.clone())
            .collect();
        for nonce in nonces {
            if let Some(held) = state.held.remove(&nonce) {
                let worker = held.process.worker.1.clone();
                state.note_over(&held.job);
                drop(held.ended.send(JobEnd::Died { worker }));
            }
        }
    }

    /// Returns a worker of a tenant that was here of late and has a tool.
    pub(super) fn offered_by(&self, tool: &ToolName, tenant: &Tenant) -> Option<String> {
        let state = self.lock();
        let offers = |((theirs, _), enrolled): &(&WorkerName, &Enrollment)| {
            theirs == tenant && enrolled.tools.contains_key(tool) && enrolled.is_about()
        };
        state.workers.iter().find(offers).map(|((_, name), _)| name.clone())
    }

    /// Returns whether a worker was here of late.
    pub(super) fn is_about(&self, worker: &WorkerName) -> bool {
        self.lock().workers.get(worker).is_some_and(Enrollment::is_about)
    }

    /// Returns the names of the workers that were here of late and have a tool.
    pub(super) fn workers_of(&self, tool: &str) -> Vec<String> {
        let state = self.lock();
        let theirs = state.workers.iter().filter(|(_, enrolled)| {
            enrolled.tools.contains_key(tool) && enrolled.seen.elapsed() < LEASE * 4
        });
        let mut names: Vec<String> = theirs.map(|((_, name), _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Answers the open requests of a worker that is about to stop. What they were given already
    /// reaches it, and nothing more is given to it.
    pub(super) fn hang_up(&self, process: &Process) {
        self.lock().polls.retain(|_, poll| poll.process != *process);
    }

    /// Opens a request for jobs. What waits already is given at once.
    pub(super) fn poll(
        self: &Arc<Self>,
        process: Process,
        n_free: u32,
    ) -> Result<Poll, NotEnrolled> {
        let (sender, jobs) = mpsc::unbounded_channel();
        let mut state = self.lock();
        if state.is_closed {
            return Err(NotEnrolled::Closed);
        }
        let enrolled = state.enrolled_mut(&process)?;
        enrolled.seen = Instant::now();
        let tools = enrolled.tools.clone();
        state.next += 1;
        let number = state.next;
        let open = OpenPoll { process: process.clone(), n_free, jobs: sender };
        state.polls.insert(number, open);
        let waiting: Vec<u64> =
            state.unheld.iter().filter(|(_, it)| it.poll.is_none()).map(|(n, _)| *n).collect();
        for job in waiting {
            state.assign(job, Some(number));
        }
        let left = state.polls.get(&number).map_or(0, |poll| poll.n_free);
        let was_idle = left == n_free;
        drop(state);
        // Jobs that are there are answered at once; only an idle request waits for more.
        let offer = match self.pools.get() {
            Some(pools) if was_idle && n_free > 0 => {
                let names: BTreeSet<String> =
                    tools.keys().map(|tool| Pool::of_workers(tool).name).collect();
                Some(pools.offer(number, names, n_free))
            }
            _ => None,
        };
        Ok(Poll { desk: Arc::clone(self), number, process, jobs, _offer: offer })
    }

    /// Puts a job up for whoever can do it.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Ticket {
        let call = job.call();
        let reserved = match (job.kind, self.pools.get()) {
            (JobKind::Run | JobKind::Preview, Some(pools)) => pools.offer_of(call),
            _ => None,
        };
        let (held, holding) = mpsc::unbounded_channel();
        let (ending, ended) = oneshot::channel();
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        let unheld = UnheldJob { job: Arc::new(job), poll: None, held, ended: ending };
        state.unheld.insert(number, unheld);
        state.assign(number, reserved);
        drop(state);
        Ticket { desk: Arc::clone(self), number, holding, ended, nonce: None }
    }

    /// Extends leases, and returns which of them are to be cancelled.
    pub(super) fn beat(&self, process: &Process, leases: &[(String, LeaseTerms)]) -> Beat {
        let mut state = self.lock();
        if let Ok(enrolled) = state.enrolled_mut(process) {
            enrolled.seen = Instant::now();
        }
        let until = Instant::now() + LEASE;
        let mut beat = Beat::default();
        for (token, terms) in leases {
            match state.held.get_mut(&terms.nonce) {
                Some(held) if held.process == *process => {
                    held.until = until;
                    if held.is_cancelled {
                        beat.cancel.push(token.clone());
                    }
                }
                _ => {
                    if terms.kind == JobKind::Run {
                        state.note_elsewhere(terms.call, until);
                    }
                    beat.lost.push(token.clone());
                }
            }
        }
        beat
    }

    /// Waits until some lease is to be cancelled; perhaps not one of those that are asked about.
    pub(super) fn cancellation(&self) -> tokio::sync::futures::Notified<'_> {
        self.cancelled.notified()
    }

    /// Returns the job of a lease that is held.
    pub(super) fn held(&self, terms: &LeaseTerms) -> Option<Arc<Job>> {
        self.lock().held.get(&terms.nonce).map(|held| Arc::clone(&held.job))
    }

    /// Takes in what came of a job.
    pub(super) fn finish(&self, terms: &LeaseTerms, outcome: WorkerOutcome) -> Finish {
        let mut state = self.lock();
        let Some(held) = state.held.remove(&terms.nonce) else {
            if state.recording.contains(&terms.nonce) {
                return Finish::Recording;
            }
            state.elsewhere.remove(&terms.call);
            return match state.done.contains(&terms.nonce) {
                true => Finish::Before,
                false if state.is_underway(terms) => Finish::AnothersNow,
                false => Finish::NotHeld(outcome),
            };
        };
        if matches!(outcome, WorkerOutcome::Released) {
            state.put_back(held);
            return Finish::GivenBack;
        }
        state.note_over(&held.job);
        match held.ended.send(JobEnd::Said(outcome)) {
            Ok(()) => {
                state.recording.insert(terms.nonce.clone());
                Finish::Told
            }
            // Whoever waited has gone, so nothing is recorded by telling them.
            Err(JobEnd::Said(outcome)) => Finish::NotHeld(outcome),
            Err(JobEnd::Died { .. }) => Finish::AnothersNow,
        }
    }

    /// Notes whether what came of a job was recorded. If not, the worker's next word about it is a
    /// late report.
    pub(super) fn recorded(&self, terms: &LeaseTerms, is_recorded: bool) {
        let mut state = self.lock();
        state.recording.remove(&terms.nonce);
        if is_recorded {
            state.done.push_back(terms.nonce.clone());
            if state.done.len() > DONE_MAX {
                state.done.pop_front();
            }
        }
    }

    /// Waits until no live worker can be running an attempt of a call: one that does has had the
    /// time of a lease to say so, and says so no more. Where this node did not itself learn that
    /// the attempt's worker is done with it, that time begins now: the worker may have named its
    /// lease to nobody but the node that gave it, which is gone. Returns whether it is so; if not,
    /// the worker has reported what came of it.
    pub(super) async fn is_quiet(&self, call: CallId, attempt: u32) -> bool {
        let is_over = self.lock().over.contains(&(call, attempt));
        let quiet_from = if is_over { self.since } else { self.since.max(Instant::now()) };
        loop {
            let reported = self.reported.notified();
            let until = {
                let mut state = self.lock();
                if state.late.contains(&call) {
                    return false;
                }
                let until = state.elsewhere.get(&call).copied();
                let until = until.map_or(quiet_from + LEASE, |until| until.max(quiet_from + LEASE));
                if until <= Instant::now() {
                    state.elsewhere.remove(&call);
                    return true;
                }
                until
            };
            tokio::select! {
                () = reported => {}
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Waits until a late report about a call waits to be recorded.
    pub(super) async fn late_report(&self, call: CallId) {
        loop {
            let reported = self.reported.notified();
            if self.lock().late.contains(&call) {
                return;
            }
            reported.await;
        }
    }

    /// Says that a late report about a call waits to be recorded, until what is returned is
    /// dropped: it tells better than a verify function what became of the call.
    pub(super) fn reports_late(self: &Arc<Self>, call: CallId) -> LateReport {
        self.lock().late.push(call);
        self.reported.notify_waiters();
        LateReport { desk: Arc::clone(self), call }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A report that waits to be recorded.
pub(super) struct LateReport {
    desk: Arc<Desk>,
    call: CallId,
}

impl Drop for LateReport {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        if let Some(at) = state.late.iter().position(|call| *call == self.call) {
            state.late.swap_remove(at);
        }
    }
}

/// What a worker is told about its leases.
#[derive(Debug, Default)]
pub(super) struct Beat {
    pub(super) cancel: Vec<String>,
    pub(super) lost: Vec<String>,
}

impl State {
    fn enrolled(&self, process: &Process) -> Result<&Enrollment, NotEnrolled> {
        match self.workers.get(&process.worker) {
            None => Err(NotEnrolled::Unknown),
            Some(enrolled) if enrolled.instance != process.instance => Err(NotEnrolled::Replaced),
            Some(enrolled) => Ok(enrolled),
        }
    }

    fn enrolled_mut(&mut self, process: &Process) -> Result<&mut Enrollment, NotEnrolled> {
        self.enrolled(process)?;
        self.workers.get_mut(&process.worker).ok_or(NotEnrolled::Unknown)
    }

    /// Notes that a live worker says that it still runs an attempt of a call.
    fn note_elsewhere(&mut self, call: CallId, until: Instant) {
        if self.elsewhere.len() >= ELSEWHERE_MAX {
            let now = Instant::now();
            self.elsewhere.retain(|_, until| *until > now);
        }
        self.elsewhere.insert(call, until);
    }

    /// Notes that the worker of an attempt is at it no more.
    fn note_over(&mut self, job: &Job) {
        if job.kind == JobKind::Run {
            self.over.push_back((job.call(), job.attempt()));
            if self.over.len() > OVER_MAX {
                self.over.pop_front();
            }
        }
    }

    /// Forgets the workers that have nothing and were not heard of for long.
    fn forget_unseen(&mut self) {
        let (held, polls) = (&self.held, &self.polls);
        self.workers.retain(|name, enrolled| {
            enrolled.seen.elapsed() < REMEMBERED_FOR
                || held.values().any(|held| held.process.worker == *name)
                || polls.values().any(|poll| poll.process.worker == *name)
        });
    }

    /// Whether the attempt of a lease is somebody else's by now.
    fn is_underway(&self, terms: &LeaseTerms) -> bool {
        let is_it = |job: &Job| {
            (job.kind, job.call(), job.attempt()) == (terms.kind, terms.call, terms.attempt)
        };
        self.held.values().any(|held| is_it(&held.job))
            || self.unheld.values().any(|unheld| is_it(&unheld.job))
    }

    /// Whether a request for jobs is one that can do this job.
    fn fits(&self, poll: &OpenPoll, job: &Job) -> bool {
        let enrolled = self.enrolled(&poll.process);
        poll.n_free > 0
            && poll.process.worker.0 == job.tenant
            && enrolled.is_ok_and(|enrolled| enrolled.tools.get(&job.tool) == Some(&job.digest))
    }

    /// Gives a job to an open request: the wanted one if that can do it, else the earliest.
    fn assign(&mut self, number: u64, wanted: Option<u64>) {
        let Some(unheld) = self.unheld.get(&number) else { return };
        let job = Arc::clone(&unheld.job);
        let fits = |(_, poll): &(&u64, &OpenPoll)| self.fits(poll, &job);
        let wanted = wanted.and_then(|wanted| self.polls.get_key_value(&wanted)).filter(fits);
        let chosen = wanted.or_else(|| self.polls.iter().find(fits)).map(|(poll, _)| *poll);
        let Some(chosen) = chosen else { return };
        let Some(poll) = self.polls.get_mut(&chosen) else { return };
        if poll.jobs.send(number).is_ok() {
            poll.n_free -= 1;
            if let Some(unheld) = self.unheld.get_mut(&number) {
                unheld.poll = Some(chosen);
            }
        }
    }

    /// Has a job that was not begun wait for another worker, unless it was to stop.
    fn put_back(&mut self, given_back: HeldJob) {
        let HeldJob { number, job, held, ended, is_cancelled, .. } = given_back;
        if is_cancelled {
            drop(ended.send(JobEnd::Said(WorkerOutcome::stopped_before_it_began())));
            return;
        }
        // Whoever waited may have gone; the job is then taken back.
        drop(held.send(Holding::GivenBack));
        self.unheld.insert(number, UnheldJob { job, poll: None, held, ended });
        self.assign(number, None);
    }
}

impl Ticket {
    /// Takes the job back, unless a worker has it.
    pub(super) fn withdraw(&self) -> bool {
        self.desk.lock().unheld.remove(&self.number).is_some()
    }

    /// Says that the job should stop.
    pub(super) fn cancel(&self) {
        let Some(nonce) = &self.nonce else { return };
        if let Some(held) = self.desk.lock().held.get_mut(nonce) {
            held.is_cancelled = true;
        }
        self.desk.cancelled.notify_waiters();
    }

    /// Notes which lease it is held by, if any.
    pub(super) fn held_by(&mut self, nonce: Option<String>) {
        self.nonce = nonce;
    }

    /// Returns when its lease lapses; `None` once it has no lease, or is put up again.
    pub(super) fn lapses_at(&self) -> Option<Instant> {
        let state = self.desk.lock();
        state.held.get(self.nonce.as_ref()?).map(|held| held.until)
    }

    /// Gives the lease up if it has lapsed, and returns who held it.
    pub(super) fn lapse(&self) -> Option<String> {
        let nonce = self.nonce.as_ref()?;
        let mut state = self.desk.lock();
        if state.held.get(nonce)?.until > Instant::now() {
            return None;
        }
        state.held.remove(nonce).map(|held| held.process.worker.1)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.unheld.remove(&self.number);
        // What the worker says of it from now on is a late report.
        if let Some(nonce) = &self.nonce {
            state.held.remove(nonce);
        }
        while let Ok(holding) = self.holding.try_recv() {
            if let Holding::Taken(nonce) = holding {
                state.held.remove(&nonce);
            }
        }
    }
}

impl Poll {
    /// Waits for the first job that the request is given.
    pub(super) async fn first(&mut self) -> Option<GivenJob> {
        loop {
            let number = self.jobs.recv().await?;
            if let Some(given) = self.take(number) {
                return Some(given);
            }
        }
    }

    /// Returns another job that it was given already.
    pub(super) fn another(&mut self) -> Option<GivenJob> {
        loop {
            let number = self.jobs.try_recv().ok()?;
            if let Some(given) = self.take(number) {
                return Some(given);
            }
        }
    }

    /// Makes the worker the holder of a job.
    fn take(&self, number: u64) -> Option<GivenJob> {
        let mut state = self.desk.lock();
        let UnheldJob { job, held, ended, .. } = state.unheld.remove(&number)?;
        state.next += 1;
        let nonce = match nonce(state.next) {
            Ok(nonce) => nonce,
            Err(_) => {
                state.unheld.insert(number, UnheldJob { job, poll: None, held, ended });
                return None;
            }
        };
        let terms = LeaseTerms {
            kind: job.kind,
            session: job.session(),
            call: job.call(),
            attempt: job.attempt(),
            nonce: nonce.clone(),
        };
        let (process, until) = (self.process.clone(), Instant::now() + LEASE);
        let teller = held.clone();
        let lease = HeldJob {
            number,
            job: Arc::clone(&job),
            held,
            process,
            until,
            is_cancelled: false,
            ended,
        };
        state.held.insert(nonce.clone(), lease);
        // Under the lock, so that whoever waits for the job knows the lease before it can end.
        drop(teller.send(Holding::Taken(nonce)));
        drop(state);
        Some(GivenJob { job, terms })
    }

    /// Puts a job up again whose lease could not be written down.
    pub(super) fn give_back(&self, terms: &LeaseTerms) {
        let mut state = self.desk.lock();
        if let Some(held) = state.held.remove(&terms.nonce) {
            state.put_back(held);
        }
    }
}

impl Drop for Poll {
    /// What it was given and never took, as its worker hung up, is for others.
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.polls.remove(&self.number);
        let mine: Vec<u64> = state
            .unheld
            .iter()
            .filter(|(_, unheld)| unheld.poll == Some(self.number))
            .map(|(number, _)| *number)
            .collect();
        for number in mine {
            if let Some(unheld) = state.unheld.get_mut(&number) {
                unheld.poll = None;
            }
            state.assign(number, None);
        }
    }
}

/// What tells one lease from every other, and cannot be guessed.
fn nonce(number: u64) -> Result<String, getrandom::Error> {
    let mut random = [0u8; 8];
    getrandom::fill(&mut random)?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{number:x}-{hex}"))
}
