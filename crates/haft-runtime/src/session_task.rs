//! One session at work: a task that owns the session, takes its inputs one by one, and ends as
//! soon as nothing runs. A session that waits for someone outside has no task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use haft_core::journal::Head;
use haft_core::session::{Decision, Effect, Input, Refusal, Reply, State, decide};
use haft_core::{Millis, SessionId};
use haft_store::{
    AcquireError, Append, AppendError, ErrorKind, Fence, Lease, SNAPSHOT_EVERY, Wake,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::boundary::Boundary;
use crate::driver::Shared;
use crate::error::InputError;
use crate::job::{self, JobKey};
use crate::live::Live;
use crate::performer::{Job, Performer, Task};

/// A retry that is due sooner is not left to the sweeps.
const SHORT_WAIT: Millis = Millis::from_secs(10);

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What arrives at a session's task.
#[derive(Debug)]
pub(crate) enum Letter {
    /// An input that someone waits for an answer to.
    Input(Box<Input>, oneshot::Sender<Result<Reply, InputError>>),
    /// A job ended: which, under which number, with what.
    Done(JobKey, u64, Box<Input>),
    /// Look again at what can go on, because of this wake in the store or because it is time.
    Wake(Option<Wake>),
}

pub(crate) struct SessionTask<P> {
    shared: Arc<Shared<P>>,
    session: SessionId,
    letters: mpsc::Receiver<Letter>,
    /// For the jobs to report to; a clone of what the driver's table holds.
    mailbox: mpsc::Sender<Letter>,
    running: HashMap<JobKey, Running>,
    n_jobs: u64,
    lease: Option<Lease>,
    head: Head,
    state: State,
    snapshot_seq: u64,
    /// Whether the log may be longer than `head` says: after a write of unknown outcome.
    doubts_head: bool,
    /// Whether something may be recorded as begun that nobody does: a write of unknown outcome
    /// took its effects with it.
    owes_effects: bool,
}

/// A job under way. Its number tells it from an earlier one for the same thing, whose answer
/// would be about a tool that has changed since.
struct Running {
    number: u64,
    stop: CancellationToken,
}

/// Why a session's task ends.
enum Exit {
    /// Nothing runs and nothing waits to be read.
    Quiet,
    /// The session is not ours any more.
    Lost(InputError),
}

impl<P: Performer> SessionTask<P> {
    pub(crate) fn new(
        shared: Arc<Shared<P>>,
        session: SessionId,
        letters: mpsc::Receiver<Letter>,
        mailbox: mpsc::Sender<Letter>,
    ) -> Self {
        Self {
            shared,
            session,
            letters,
            mailbox,
            running: HashMap::new(),
            n_jobs: 0,
            lease: None,
            head: Head::EMPTY,
            state: State::Unopened,
            snapshot_seq: 0,
            doubts_head: false,
            owes_effects: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let exit = match self.take_over().await {
            Ok(()) => self.serve().await,
            Err(error) => Exit::Lost(error),
        };
        match exit {
            Exit::Quiet => self.release().await,
            Exit::Lost(error) => {
                self.stop_jobs(&error).await;
                self.give_up(&error);
            }
        }
    }

    /// Whoever owns the session next, possibly this very node, treats what ran here as dead. So
    /// it is stopped first, as far as it can be.
    async fn stop_jobs(&mut self, error: &InputError) {
        self.stop(|_| true);
        let patience = tokio::time::sleep(self.shared.stop_grace * 2);
        tokio::pin!(patience);
        while !self.running.is_empty() {
            let letter = tokio::select! {
                letter = self.letters.recv() => letter,
                () = &mut patience => return,
            };
            match letter {
                Some(Letter::Done(key, number, _)) => {
                    self.running.retain(|k, job| *k != key || job.number != number);
                }
                Some(Letter::Input(_, answer)) => {
                    answer.send(Err(error.clone())).unwrap_or_default();
                }
                Some(Letter::Wake(_)) => {}
                None => return,
            }
        }
    }

    /// Becomes the owner: whatever ran in another process is gone, and the machine says what
    /// follows from that.
    async fn take_over(&mut self) -> Result<(), InputError> {
        self.shared.be_known().await?;
        let node = &self.shared.node;
        let lease = self.shared.store.acquire(self.session, node, self.shared.clock.moment()).await;
        let lease = lease.map_err(|error| match error {
            AcquireError::Held { owner } => InputError::OwnedElsewhere { node: owner },
            AcquireError::UnknownSession => InputError::UnknownSession,
            AcquireError::Store(error) => InputError::Store(error),
        })?;
        self.lease = Some(lease);
        self.reload().await?;
        match self.state {
            State::Open(_) => self.step(Input::Revived).await.map(|_| ()),
            State::Unopened | State::Ended { .. } => Ok(()),
        }
    }

    async fn reload(&mut self) -> Result<(), InputError> {
        let loaded = self.shared.store.load(self.session).await?;
        let loaded = loaded.ok_or(InputError::UnknownSession)?;
        self.snapshot_seq = loaded.head.seq - loaded.replayed;
        self.head = loaded.head;
        self.state = loaded.state;
        self.doubts_head = false;
        Ok(())
    }

    async fn serve(&mut self) -> Exit {
        loop {
            if self.running.is_empty() && std::mem::take(&mut self.owes_effects) {
                // Nothing runs here, so that whatever the log says is running was never begun.
                if let Err(lost) = self.step_unasked(Input::Revived).await {
                    return Exit::Lost(lost);
                }
                continue;
            }
            if self.running.is_empty() && self.leave_if_nothing_waits() {
                return Exit::Quiet;
            }
            let Some(letter) = self.letters.recv().await else { return Exit::Quiet };
            if let Err(lost) = self.take(letter).await {
                return Exit::Lost(lost);
            }
        }
    }

    /// Takes one letter; an error means that the session is not ours any more.
    async fn take(&mut self, letter: Letter) -> Result<(), InputError> {
        match letter {
            Letter::Input(input, answer) => {
                let stepped = self.step(*input).await;
                let lost = stepped.as_ref().err().filter(|error| is_lost(error)).cloned();
                // Nobody may be waiting any more; what was decided stands all the same.
                answer.send(stepped).unwrap_or_default();
                lost.map_or(Ok(()), Err)
            }
            Letter::Done(key, number, input) => {
                if self.running.get(&key).is_none_or(|job| job.number != number) {
                    return Ok(());
                }
                self.running.remove(&key);
                self.step_unasked(*input).await
            }
            Letter::Wake(wake) => {
                self.doubts_head = true;
                self.step_unasked(Input::Woken).await?;
                let Some(wake) = wake else { return Ok(()) };
                if let Err(error) = self.shared.store.finish_wake(wake).await {
                    // The claim lapses and the session is looked at once more: no harm.
                    tracing::debug!(session = %self.session, %error, "a wake is not finished");
                }
                Ok(())
            }
        }
    }

    /// Steps on what nobody waits for. What a tool did is not forgotten because the store is
    /// away for a while: it is tried until the store is back or the session is lost. A refusal
    /// is expected here: the job was stopped, or the call settled otherwise.
    async fn step_unasked(&mut self, input: Input) -> Result<(), InputError> {
        let mut wait = RETRY_FIRST;
        loop {
            match self.step(input.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if is_lost(&error) => return Err(error),
                Err(InputError::Refused(refusal)) => {
                    tracing::debug!(session = %self.session, %refusal, "a report changes nothing");
                    return Ok(());
                }
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "not recorded yet; trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Decide, append, then do. When someone else appended meanwhile, their events are read and
    /// the input is decided anew.
    async fn step(&mut self, input: Input) -> Result<Reply, InputError> {
        loop {
            if self.doubts_head {
                self.reload().await?;
            }
            let now = self.shared.clock.now();
            let decision = decide(&self.state, now, input.clone())?;
            if decision.events.is_empty() {
                return Ok(self.follow(decision));
            }
            let append = Append {
                session: self.session,
                fence: Fence::Owner { epoch: self.lease.as_ref().map_or(0, |lease| lease.epoch) },
                expected: self.head,
                at: now,
                events: decision.events.clone(),
                snapshot: self.snapshot_due(&decision),
            };
            self.shared.observer.pass(Boundary::Decided);
            match self.shared.store.append(&append).await {
                Ok(head) => {
                    self.shared.observer.pass(Boundary::Appended);
                    self.tell(&decision);
                    self.head = head;
                    self.shared.require_fresh_lease()?;
                    return Ok(self.follow(decision));
                }
                Err(AppendError::HeadMoved { .. }) => self.doubts_head = true,
                Err(AppendError::Fenced { .. }) => return Err(self.fenced().await),
                Err(AppendError::UnknownSession) => return Err(InputError::UnknownSession),
                Err(AppendError::Store(error)) => {
                    self.doubts_head = true;
                    self.owes_effects |= error.kind() == ErrorKind::Unknown;
                    return Err(InputError::Store(error));
                }
            }
        }
    }

    /// Every so many events the state is stored too, so that reviving stays cheap.
    fn snapshot_due(&mut self, decision: &Decision) -> Option<Box<State>> {
        let seq = self.head.seq + decision.events.len() as u64;
        if seq - self.snapshot_seq < SNAPSHOT_EVERY {
            return None;
        }
        self.snapshot_seq = seq;
        Some(Box::new(decision.state.clone()))
    }

    fn tell(&self, decision: &Decision) {
        self.shared.live.send(Live::Appended {
            session: self.session,
            first_seq: self.head.seq + 1,
            events: decision.events.as_slice().into(),
        });
    }

    async fn fenced(&self) -> InputError {
        match self.shared.store.load(self.session).await {
            Ok(Some(loaded)) => match loaded.owner {
                Some(node) => InputError::OwnedElsewhere { node },
                None => InputError::LeaseLapsed,
            },
            Ok(None) => InputError::UnknownSession,
            Err(error) => InputError::Store(error),
        }
    }

    /// Takes over the decided state and does what follows.
    fn follow(&mut self, decision: Decision) -> Reply {
        self.state = decision.state;
        for effect in decision.effects {
            self.perform(&effect);
        }
        decision.reply
    }

    fn perform(&mut self, effect: &Effect) {
        match *effect {
            Effect::RunModel { turn, attempt } => {
                let Some(open) = self.state.as_open() else { return };
                self.start(Task::AskModel { turn, attempt, open: Box::new(open.clone()) });
            }
            Effect::AbortModel { turn } => {
                let asked =
                    |key: &JobKey| matches!(key, JobKey::Model { turn: t, .. } if *t == turn);
                self.stop(asked);
            }
            Effect::Preview { call } => {
                self.start_for(call, |call| Task::Preview { call });
            }
            Effect::Execute { call, attempt, fingerprint, .. } => {
                self.start_for(call, |call| Task::Execute { call, attempt, fingerprint });
            }
            Effect::Cancel { call, attempt } => {
                self.stop(|key| *key == JobKey::Execute { call, attempt });
            }
            Effect::Verify { call, attempt } => {
                self.start_for(call, |call| Task::Verify { call, attempt });
            }
            Effect::ScheduleRetry { due, .. } => self.wake_at(due),
        }
    }

    fn start_for(
        &mut self,
        call: haft_core::CallId,
        task: impl FnOnce(Box<haft_core::session::Call>) -> Task,
    ) {
        let found = self.state.as_open().and_then(|open| open.call(call)).cloned();
        if let Some(call) = found {
            self.start(task(Box::new(call)));
        }
    }

    fn start(&mut self, task: Task) {
        let Some(open) = self.state.as_open() else { return };
        let (opened_by, turn) = (open.opened_by.clone(), open.turn);
        let key = task.key();
        let stop = CancellationToken::new();
        self.n_jobs += 1;
        let number = self.n_jobs;
        if let Some(earlier) = self.running.insert(key, Running { number, stop: stop.clone() }) {
            earlier.stop.cancel();
        }
        let job = Job { session: self.session, opened_by, turn, task, stop };
        let (performer, mailbox) = (Arc::clone(&self.shared.performer), self.mailbox.clone());
        let (grace, observer) = (self.shared.stop_grace, self.shared.observer.clone());
        tokio::spawn(async move {
            observer.pass(Boundary::JobStarting);
            let input = job::run(performer, job, grace).await;
            observer.pass(Boundary::JobEnded);
            // The task may be gone, fenced or shut down: then the next owner recovers the call.
            mailbox.send(Letter::Done(key, number, Box::new(input))).await.unwrap_or_default();
        });
    }

    fn stop(&self, which: impl Fn(&JobKey) -> bool) {
        self.running.iter().filter(|(key, _)| which(key)).for_each(|(_, job)| job.stop.cancel());
    }

    /// The store keeps the timer; this only spares a short retry the next sweep.
    fn wake_at(&self, due: haft_core::Timestamp) {
        let wait = due.since(self.shared.clock.now());
        if wait > SHORT_WAIT {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let session = self.session;
        tokio::spawn(async move {
            tokio::time::sleep(wait.into()).await;
            Shared::wake(&shared, session, None);
        });
    }

    /// Takes itself off the driver's table if no letter has come; whoever writes next starts
    /// another task.
    fn leave_if_nothing_waits(&mut self) -> bool {
        self.shared.leave(self.session, || self.letters.is_empty())
    }

    async fn release(&self) {
        let Some(lease) = &self.lease else { return };
        if let Err(error) = self.shared.store.release(lease).await {
            tracing::warn!(session = %self.session, %error, "not released; its lease will run out");
        }
    }

    /// Answers everyone who still waits, and leaves.
    fn give_up(mut self, error: &InputError) {
        self.shared.leave(self.session, || true);
        self.letters.close();
        while let Ok(letter) = self.letters.try_recv() {
            if let Letter::Input(_, answer) = letter {
                answer.send(Err(error.clone())).unwrap_or_default();
            }
        }
    }
}

/// Returns whether an error means that this task cannot go on with the session. A store that is
/// away, full or unsure can come back; one that stopped itself cannot.
fn is_lost(error: &InputError) -> bool {
    match error {
        InputError::Refused(Refusal::Internal(_)) => true,
        InputError::Refused(_) | InputError::Overloaded => false,
        InputError::Store(error) => {
            !matches!(error.kind(), ErrorKind::Gone | ErrorKind::DiskFull | ErrorKind::Unknown)
        }
        InputError::UnknownSession
        | InputError::OwnedElsewhere { .. }
        | InputError::LeaseLapsed
        | InputError::ShuttingDown
        | InputError::NoRandomness(_) => true,
    }
}
