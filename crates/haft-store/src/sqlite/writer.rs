//! The writer: one thread, one connection, and commits that are shared.
//!
//! Whatever has queued up while a commit was on its way to the disk goes into the next one, so
//! that many sessions share the price of making it durable. Nobody is answered before it is.
//!
//! A job that fails in the database takes the batch with it: the batch is undone and its jobs run
//! again one by one, each in a commit of its own, so that one that cannot be stored fails alone.
//! Jobs are therefore repeatable, and a job that refuses does so before it writes anything.
//!
//! When the disk does not take what was written (an error of input or output, `fsync` above all),
//! what is on the disk is not known any more, and the writer takes no more jobs: fail stop.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use haft_core::SessionId;
use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot, watch};

use super::checkpoint::Checkpoints;
use super::claim::Claim;
use super::connection::{self, database_error};
use super::files::Files;
use super::heads::Heads;
use super::mark::Mark;
use crate::error::{Error, ErrorKind};
use crate::health::Health;
use crate::measure::Measures;
use crate::shared::Shared;
use crate::watch::Watches;

/// Enough for every session that a process drives to have one append under way; whoever comes
/// when it is full waits for its place, which is how a slow disk slows the drivers down.
const QUEUE_LEN: usize = 1_024;

/// Bounds how long the first of a batch waits for the last.
const BATCH_LEN_MAX: usize = 256;

/// How long a commit is put off at most for those who shared the last one and are likely to come
/// again. Without it every other commit would be for the one who was back first.
const GATHER_MAX: Duration = Duration::from_micros(200);

/// How long nobody looks for a job while the log is to be cut: a queue cannot be waited for with a
/// limit from here.
const IDLE: Duration = Duration::from_millis(5);

/// Something to do in a transaction, and someone to tell when it is durable.
trait Job: Send {
    /// Does the work; an error of the database undoes the batch.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// Says whether sessions are to be looked at, once the commit has succeeded.
    fn hint(&self) -> Hint;

    /// Says which session's log grew to which entry, once the commit has succeeded.
    fn growth(&self) -> Option<Growth>;

    /// Where whoever waits for the answer runs.
    fn runtime(&self) -> Option<&Handle>;

    /// Answers, once the commit has succeeded or failed.
    fn answer(self: Box<Self>, commit: Result<(), &Error>);
}

/// Whether a job gives anyone something to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Nobody has to look, and what was there before is to be nowhere any more.
    Erased,
    Look,
    Nothing,
}

/// A session, and the entry that its log ends with.
pub(crate) type Growth = (SessionId, u64);

struct Task<F, T, E> {
    work: F,
    verdict: Option<Result<T, E>>,
    /// The work goes back along with the verdict: whoever put it together takes it apart, so that
    /// the one thread that all wait for does not have to.
    answer: oneshot::Sender<(Result<T, E>, F)>,
    hint: Hint,
    growth: Option<Growth>,
    runtime: Option<Handle>,
}

impl<F, T, E> Job for Task<F, T, E>
where
    F: Fn(&Connection) -> rusqlite::Result<Result<T, E>> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.verdict = Some((self.work)(connection)?);
        Ok(())
    }

    fn hint(&self) -> Hint {
        match &self.verdict {
            Some(Ok(_)) => self.hint,
            Some(Err(_)) | None => Hint::Nothing,
        }
    }

    fn growth(&self) -> Option<Growth> {
        self.growth.filter(|_| matches!(self.verdict, Some(Ok(_))))
    }

    fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }

    fn answer(self: Box<Self>, commit: Result<(), &Error>) {
        let Self { work, verdict, answer, .. } = *self;
        let verdict = match (commit, verdict) {
            (Ok(()), Some(verdict)) => verdict,
            (Ok(()), None) => {
                Err(Error::new(ErrorKind::Internal, "the writer skipped a job").into())
            }
            (Err(error), _) => Err(error.clone().into()),
        };
        // Whoever asked may have gone away; what was stored stays stored.
        drop(answer.send((verdict, work)));
    }
}

/// Takes jobs to the writer's thread, which ends with the handle.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` only while the handle is being dropped.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    hints: watch::Sender<u64>,
}

impl std::fmt::Debug for dyn Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl Writer {
    pub(super) fn start(claim: &Claim, heads: Heads, shared: Shared) -> Result<Self, Error> {
        let path = &claim.database;
        let mut connection = connection::writer(path)?;
        let checkpoints = Checkpoints::start(path, &mut connection)?;
        let mark = Mark::open(&connection, path)?;
        let files = Files::note(path, claim.id)?;
        let (jobs, queue) = mpsc::channel(QUEUE_LEN);
        let hints = watch::Sender::new(0);
        let batches = Batches {
            connection,
            checkpoints,
            heads,
            mark,
            files,
            hints: hints.clone(),
            measures: shared.measures,
            health: shared.health,
            watches: shared.watches,
            stopped: None,
        };
        let thread = std::thread::Builder::new()
            .name("haft-store-writer".to_owned())
            .spawn(move || batches.run(queue))
            .map_err(|error| Error::new(ErrorKind::Internal, format!("starting: {error}")))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), hints })
    }

    pub(crate) fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    /// Does something in a transaction and returns when it is durable.
    pub(crate) async fn write<F, T, E>(&self, hint: Hint, work: F) -> Result<T, E>
    where
        F: Fn(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        self.write_growing(hint, None, work).await
    }

    /// As [`Writer::write`], for work that makes a session's log grow: whoever watches it is told,
    /// also when nobody waits for the answer any more.
    pub(crate) async fn write_growing<F, T, E>(
        &self,
        hint: Hint,
        growth: Option<Growth>,
        work: F,
    ) -> Result<T, E>
    where
        F: Fn(&Connection) -> rusqlite::Result<Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let gone = || E::from(Error::new(ErrorKind::Stopped, "the writer has stopped"));
        let (answer, verdict) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        let runtime = Handle::try_current().ok();
        let task = Task { work, verdict: None, answer, hint, growth, runtime };
        jobs.send(Box::new(task)).await.map_err(|_| gone())?;
        let (verdict, _work) = verdict.await.map_err(|_| gone())?;
        verdict
    }
}

impl Drop for Writer {
    /// Waits for what is queued, so that a directory whose store is gone can be opened again.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer has been reported to everyone who waited for it.
            drop(thread.join());
        }
    }
}

/// What comes into a batch beside the first job, while the batch is at work already.
struct Gathering<'a> {
    queue: &'a mut mpsc::Receiver<Box<dyn Job>>,
    wanted: usize,
    /// For how much longer nothing may be done but wait.
    patience: Duration,
}

impl Gathering<'_> {
    /// Returns the next job; waits for one only as long as there are fewer than wanted.
    fn next(&mut self, len: usize) -> Option<Box<dyn Job>> {
        if len >= BATCH_LEN_MAX {
            return None;
        }
        if let Ok(job) = self.queue.try_recv() {
            return Some(job);
        }
        let idle = Instant::now();
        while len < self.wanted && idle.elapsed() < self.patience {
            // The others need the processor to come here.
            std::thread::yield_now();
            if let Ok(job) = self.queue.try_recv() {
                self.patience = self.patience.saturating_sub(idle.elapsed());
                return Some(job);
            }
        }
        None
    }
}

/// Tells everyone that it is durable. Waking each from here costs about as much as storing what
/// it wrote; so one thread of the runtime is woken, and has the others in its own queue.
fn answer_all(batch: Vec<Box<dyn Job>>) {
    let runtime = batch.first().and_then(|job| job.runtime()).cloned();
    let Some(runtime) = runtime.filter(|_| batch.len() > 1) else {
        return batch.into_iter().for_each(|job| job.answer(Ok(())));
    };
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|job| job.runtime().is_some_and(|it| it.id() == runtime.id()));
    // A runtime that is shutting down drops it, and along with it all who wait there.
    drop(runtime.spawn(async move { there.into_iter().for_each(|job| job.answer(Ok(()))) }));
    elsewhere.into_iter().for_each(|job| job.answer(Ok(())));
}

struct Batches {
    /// Dropped before the connection that it moves the rest with.
    checkpoints: Checkpoints,
    connection: Connection,
    heads: Heads,
    mark: Mark,
    files: Files,
    hints: watch::Sender<u64>,
    measures: Arc<Measures>,
    health: Health,
    watches: Watches,
    /// Why nothing is written any more.
    stopped: Option<Error>,
}

/// A batch that went through, and whether it changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchEffect {
    Changed,
    Unchanged,
}

impl Batches {
    fn run(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        let mut last_len = 0;
        while let Some(first) = self.next(&mut queue) {
            let (wanted, patience) = (last_len / 2, GATHER_MAX);
            last_len = self.settle(first, Some(Gathering { queue: &mut queue, wanted, patience }));
        }
    }

    /// Returns the next job. While the log is to be cut, that is tried in between.
    fn next(&mut self, queue: &mut mpsc::Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        while self.checkpoints.is_to_be_cut() && self.stopped.is_none() {
            match queue.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => std::thread::sleep(IDLE),
            }
            if let Err(error) = self.checkpoints.cut_again(&self.connection) {
                self.stop(&error);
            }
        }
        queue.blocking_recv()
    }

    /// Returns how many jobs it settled.
    fn settle(&mut self, first: Box<dyn Job>, gathering: Option<Gathering<'_>>) -> usize {
        if let Some(error) = &self.stopped {
            first.answer(Err(error));
            return 1;
        }
        let mut batch = Vec::with_capacity(BATCH_LEN_MAX);
        batch.push(first);
        let committed = self.commit(&mut batch, gathering);
        let committed = committed.and_then(|committed| self.confirm(committed));
        let len = batch.len();
        match committed {
            Ok(()) => {
                self.measures.batch_size.observe(batch.len() as f64);
                let hinted = |hint| batch.iter().any(|job| job.hint() == hint);
                let looks = hinted(Hint::Look);
                let grown: Vec<Growth> = match self.watches.is_empty() {
                    true => Vec::new(),
                    false => batch.iter().filter_map(|job| job.growth()).collect(),
                };
                let cut = match hinted(Hint::Erased) {
                    true => self.checkpoints.cut(&self.connection),
                    false => Ok(()),
                };
                answer_all(batch);
                grown.into_iter().for_each(|(session, seq)| self.watches.appended(session, seq));
                if looks {
                    self.hints.send_modify(|count| *count += 1);
                }
                let moved = cut.and_then(|()| self.checkpoints.after_commit(&self.connection));
                if let Err(error) = moved {
                    self.stop(&error);
                }
            }
            Err(error) if batch.len() == 1 || error.kind() == ErrorKind::Stopped => {
                self.fail(batch, &error);
            }
            Err(_) => batch.into_iter().for_each(|job| {
                self.settle(job, None);
            }),
        }
        len
    }

    /// Runs jobs as they come and commits them together: whoever is still on the way here works on
    /// another processor meanwhile.
    fn commit(
        &self,
        batch: &mut Vec<Box<dyn Job>>,
        mut gathering: Option<Gathering<'_>>,
    ) -> Result<BatchEffect, Error> {
        let mut attempt = || {
            let before = self.connection.total_changes();
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            batch.iter_mut().try_for_each(|job| job.run(&self.connection))?;
            while let Some(job) = gathering.as_mut().and_then(|coming| coming.next(batch.len())) {
                batch.push(job);
                batch.last_mut().map_or(Ok(()), |job| job.run(&self.connection))?;
            }
            let is_changed = self.connection.total_changes() != before;
            if is_changed {
                self.mark.count(&self.connection)?;
            }
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(if is_changed { BatchEffect::Changed } else { BatchEffect::Unchanged })
        };
        let committed = attempt();
        committed.map_err(|error: rusqlite::Error| {
            self.heads.forget_all();
            let error = database_error(&error);
            if self.connection.is_autocommit() {
                return error;
            }
            match self.connection.execute_batch("ROLLBACK") {
                Ok(()) => error,
                Err(rollback) => Error::new(ErrorKind::Stopped, format!("{error}; {rollback}")),
            }
        })
    }

    /// Makes sure that a commit will be found by whoever opens the store next, before anyone is
    /// told of it.
    fn confirm(&mut self, committed: BatchEffect) -> Result<(), Error> {
        self.files.require_there()?;
        if committed == BatchEffect::Changed {
            // A mark that is behind says less, and nothing wrong: no reason to refuse anything.
            drop(self.mark.committed());
        }
        Ok(())
    }

    fn fail(&mut self, batch: Vec<Box<dyn Job>>, error: &Error) {
        if error.kind() == ErrorKind::Stopped {
            self.stop(error);
        }
        batch.into_iter().for_each(|job| job.answer(Err(error)));
    }

    fn stop(&mut self, error: &Error) {
        let error = error.clone().during("no more writes are taken");
        self.health.stop(&error);
        self.stopped = Some(error);
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.health.stop(&Error::new(ErrorKind::Stopped, "the thread that writes has died"));
        }
    }
}
