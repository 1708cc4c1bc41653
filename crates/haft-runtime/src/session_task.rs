//! One session at work: a task that owns the session, takes its inputs one by one, and ends as
//! soon as nothing runs. A session that waits for someone outside has no task.

mod ahead;
mod doing;
mod errands;
mod leaving;
mod queueing;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use haft_core::journal::Head;
use haft_core::session::{
    Decision, Event, Input, Refusal, Reply, State, ToolChanged, decide, note,
};
use haft_core::{CallId, SessionId};
use haft_store::{
    AcquireError, Append, AppendError, ErrorKind, Fence, FollowedBy, Lease, Loaded, RequestStep,
    SNAPSHOT_EVERY, Wake,
};
use tokio::sync::{mpsc, oneshot};

use crate::boundary::Boundary;
use crate::driver::Shared;
use crate::error::InputError;
use crate::job::{Done, JobKey};
use crate::live::Live;
use crate::node_lease::Term;
use crate::performer::{Performer, Task};
use crate::pools::Slot;
use doing::Running;

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What arrives at a session's task.
#[derive(Debug)]
pub(crate) enum Letter {
    /// An input that someone waits for an answer to, as a step of a request if there is one.
    Input(Arc<Input>, Option<Arc<RequestStep>>, oneshot::Sender<Result<Reply, InputError>>),
    /// A job ended.
    Done(Done),
    /// A job was not begun, because the node's lease was over by then; under which number, and
    /// with its places in pools.
    NotBegun(Box<Task>, u64, Option<Slot>),
    /// A queued call has its places in pools; none if it was to wait no longer.
    Slot { call: CallId, number: u64, slot: Option<Slot> },
    /// Look again at what can go on, because of this wake in the store or because it is time.
    /// Whoever appended what caused it hands in where the session stood then.
    Wake(Option<Wake>, Option<Box<Standing>>),
}

impl Letter {
    /// Takes out where the session stood, for a task that has read nothing yet.
    pub(crate) fn take_standing(&mut self) -> Option<Box<Standing>> {
        match self {
            Self::Wake(_, standing) => standing.take(),
            Self::Input(..) | Self::Done(_) | Self::NotBegun(..) | Self::Slot { .. } => None,
        }
    }
}

/// Where a session stood at an entry of its log. Whoever takes the session over while its log ends
/// there need not read it again.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) state: State,
    pub(crate) head: Head,
    /// The place of the snapshot from which it was read.
    pub(crate) snapshot_seq: u64,
}

pub(crate) struct SessionTask<P> {
    shared: Arc<Shared<P>>,
    session: SessionId,
    letters: mpsc::Receiver<Letter>,
    /// What came while something before it could not be recorded.
    backlog: VecDeque<Letter>,
    /// For the jobs to report to; a clone of what the driver's table holds.
    mailbox: mpsc::Sender<Letter>,
    running: HashMap<JobKey, Running>,
    n_jobs: u64,
    /// The places in pools of calls that are about to start.
    slots: HashMap<CallId, Slot>,
    hold: Option<Hold>,
    head: Head,
    state: Arc<State>,
    snapshot_seq: u64,
    /// Where the session stood when someone here appended to it last, until it is taken over.
    standing: Option<Box<Standing>>,
    /// Whether the log may be longer than `head` says: after a write of unknown outcome.
    doubts_head: bool,
    /// Whether something may be recorded as begun that nobody does: a write of unknown outcome
    /// took its effects with it.
    owes_effects: bool,
    /// The span of the run under way.
    run: Option<tracing::Span>,
    /// The last wake that was dealt with and not yet finished.
    woken: Option<Wake>,
    /// Whether anyone has asked for anything since it last waited for that.
    was_asked: bool,
}

impl<P> Drop for SessionTask<P> {
    /// A task that panics may have recorded something and told nobody.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.live.look_again(self.session);
        }
    }
}

/// The right to append to the session, and the term of the node in which it was last seen to be
/// ours.
#[derive(Debug)]
struct Hold {
    lease: Lease,
    term: Term,
}

/// Why a session's task ends.
enum Exit {
    /// Nothing runs and nothing waits to be read.
    Quiet,
    /// The session is not ours any more.
    Lost(InputError),
    /// The node goes away while something runs.
    Leaving,
}

/// What may follow from an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follow {
    /// Whatever the machine decides.
    All,
    /// What the input itself calls for; more is to be said before anything goes on.
    Own,
    /// Nothing is begun: the node goes away.
    Nothing,
}

impl<P: Performer> SessionTask<P> {
    pub(crate) fn new(
        shared: Arc<Shared<P>>,
        session: SessionId,
        letters: mpsc::Receiver<Letter>,
        mailbox: mpsc::Sender<Letter>,
        standing: Option<Box<Standing>>,
    ) -> Self {
        Self {
            shared,
            session,
            letters,
            backlog: VecDeque::new(),
            mailbox,
            running: HashMap::new(),
            n_jobs: 0,
            slots: HashMap::new(),
            hold: None,
            head: Head::EMPTY,
            state: Arc::default(),
            snapshot_seq: 0,
            standing,
            doubts_head: false,
            owes_effects: false,
            run: None,
            woken: None,
            was_asked: false,
        }
    }

    pub(crate) async fn run(mut self) {
        let exit = match self.take_over().await {
            Ok(()) => self.serve().await,
            Err(error) => Exit::Lost(error),
        };
        match exit {
            Exit::Quiet => self.release().await,
            Exit::Lost(error) => self.give_up(&error).await,
            Exit::Leaving => self.hand_over().await,
        }
    }

    /// Becomes the owner: whatever ran in another process is gone, and the machine says what
    /// follows from that.
    async fn take_over(&mut self) -> Result<(), InputError> {
        // First the term, then the session: what is ours now cannot have been lost before.
        let term = self.shared.current_term().await?;
        let node = &self.shared.node;
        let lease = self.shared.store.acquire(self.session, node, self.shared.clock.moment()).await;
        let lease = lease.map_err(|error| match error {
            AcquireError::Held { owner } => InputError::OwnedElsewhere { node: owner },
            AcquireError::UnknownSession => InputError::UnknownSession,
            AcquireError::Store(error) => InputError::Store(error),
        })?;
        let head = lease.head;
        self.hold = Some(Hold { lease, term });
        match self.standing.take().filter(|standing| standing.head == head) {
            Some(standing) => self.stand_at(*standing),
            None => self.reload().await?,
        }
        if self.shared.is_draining() {
            return Err(InputError::ShuttingDown);
        }
        match &*self.state {
            State::Open(_) => self.revive().await,
            State::Unopened | State::Ended { .. } => Ok(()),
        }
    }

    /// Tools may have changed while the session was at rest. What became of a call comes first,
    /// then what became of its tool, and only then does anything go on.
    async fn revive(&mut self) -> Result<(), InputError> {
        let changed = self.changed_tools();
        if changed.is_empty() {
            return self.step(&Input::Revived).await.map(|_| ());
        }
        self.step_with(&Input::Revived, Follow::Own, None).await?;
        for changed in changed {
            match self.step_with(&Input::ToolChanged(changed), Follow::Own, None).await {
                // A call that runs is run by the tool it was started with.
                Ok(_) | Err(InputError::Refused(Refusal::Stale(_))) => {}
                Err(error) => return Err(error),
            }
        }
        self.step(&Input::Woken).await.map(|_| ())
    }

    fn changed_tools(&self) -> Vec<ToolChanged> {
        let Some(open) = self.state.as_open() else { return Vec::new() };
        let calls = open.calls().filter(|call| call.phase.is_open());
        let changed = calls.filter_map(|call| {
            let change = self.shared.performer.tool_change(open, call)?;
            Some(ToolChanged { call: call.id, change })
        });
        changed.collect()
    }

    async fn reload(&mut self) -> Result<(), InputError> {
        let loaded = self.shared.store.load(self.session).await?;
        let loaded = loaded.ok_or(InputError::UnknownSession)?;
        self.stand_at(Standing::of(loaded));
        Ok(())
    }

    fn stand_at(&mut self, standing: Standing) {
        self.snapshot_seq = standing.snapshot_seq;
        self.head = standing.head;
        self.stand(standing.state);
        self.doubts_head = false;
    }

    /// The session stands here, for everyone to see.
    fn stand(&mut self, state: State) {
        self.state = Arc::new(state);
        self.shared.show(self.session, &self.state);
    }

    async fn serve(&mut self) -> Exit {
        loop {
            if self.running.is_empty() && std::mem::take(&mut self.owes_effects) {
                // Nothing runs here, so that whatever the log says is running was never begun.
                if let Err(lost) = self.step_unasked(&Input::Revived).await {
                    return Exit::Lost(lost);
                }
                continue;
            }
            if self.running.is_empty() {
                self.linger().await;
                if self.leave_if_nothing_waits() {
                    return Exit::Quiet;
                }
            }
            if !self.running.is_empty() {
                self.finish_wake().await;
            }
            let Some(letter) = self.next_letter().await else { return Exit::Leaving };
            if let Err(lost) = self.take(letter).await {
                return Exit::Lost(lost);
            }
        }
    }

    /// A wake is finished when the session is given back, unless that may take a while.
    async fn finish_wake(&mut self) {
        let Some(wake) = self.woken.take() else { return };
        if let Err(error) = self.shared.store.finish_wake(wake).await {
            // The claim lapses and the session is looked at once more: no harm.
            tracing::debug!(session = %self.session, %error, "a wake is not finished");
        }
    }

    /// Returns what to read next; nothing when the node goes away.
    async fn next_letter(&mut self) -> Option<Letter> {
        if let Some(letter) = self.backlog.pop_front() {
            return Some(letter);
        }
        tokio::select! {
            biased;
            letter = self.letters.recv() => letter,
            () = self.shared.leaving.cancelled() => None,
        }
    }

    /// Takes one letter; an error means that the session is not ours any more.
    async fn take(&mut self, letter: Letter) -> Result<(), InputError> {
        match letter {
            Letter::Input(input, request, answer) => {
                self.was_asked = true;
                let stepped = self.step_for(&input, request).await;
                let failed = stepped.as_ref().err().cloned();
                // Nobody may be waiting any more; what was decided stands all the same.
                answer.send(stepped).unwrap_or_default();
                match failed {
                    Some(lost) if is_lost(&lost) => Err(lost),
                    Some(InputError::Store(error)) => {
                        // Each of those behind would otherwise wait for its own disappointment.
                        self.turn_away(&InputError::StoreAway(error));
                        Ok(())
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Letter::Done(done) => {
                if !self.end_running(done.key, done.number) {
                    return Ok(());
                }
                let stepped = self.step_unasked(&done.input).await;
                if stepped.is_err() {
                    Shared::report_late(&self.shared, self.session, done);
                }
                stepped
            }
            Letter::NotBegun(task, number, slot) => self.begin_again(*task, number, slot).await,
            Letter::Slot { call, number, slot } => self.leave_queue(call, number, slot).await,
            Letter::Wake(wake, standing) => {
                // The log is the same for everyone, so that what someone read further on is where
                // the session stands.
                if let Some(standing) = standing.filter(|it| it.head.seq > self.head.seq) {
                    self.stand_at(*standing);
                }
                // What it is about may have been read already; a wake that is about nothing in
                // particular has no place in the log.
                self.doubts_head |= wake.is_none_or(|it| it.seq == 0 || it.seq > self.head.seq);
                self.step_unasked(&Input::Woken).await?;
                self.woken = wake.into_iter().chain(self.woken).max_by_key(|wake| wake.seq);
                Ok(())
            }
        }
    }

    /// Steps on what nobody waits for. What a tool did is not forgotten because the store is
    /// away for a while: it is tried until the store is back or the session is lost. A refusal
    /// is expected here: the job was stopped, or the call settled otherwise.
    async fn step_unasked(&mut self, input: &Input) -> Result<(), InputError> {
        let mut wait = RETRY_FIRST;
        loop {
            match self.step(input).await {
                Ok(_) => return Ok(()),
                Err(InputError::Store(error)) if is_passing(&error) => {
                    tracing::warn!(session = %self.session, %error, "not recorded yet; trying again");
                    if self.shared.leaving.is_cancelled() {
                        return Err(InputError::ShuttingDown);
                    }
                    self.pause(wait, &InputError::StoreAway(error)).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
                Err(error) if is_lost(&error) => return Err(error),
                Err(refused) => {
                    tracing::debug!(session = %self.session, %refused, "a report changes nothing");
                    return Ok(());
                }
            }
        }
    }

    /// Waits, and lets nobody wait along.
    async fn pause(&mut self, wait: Duration, trouble: &InputError) {
        let over = tokio::time::sleep(wait);
        tokio::pin!(over);
        loop {
            let letter = tokio::select! {
                () = &mut over => return,
                () = self.shared.leaving.cancelled() => return,
                letter = self.letters.recv() => letter,
            };
            let Some(letter) = letter else { return };
            self.set_aside(letter, trouble);
        }
    }

    fn turn_away(&mut self, trouble: &InputError) {
        while let Ok(letter) = self.letters.try_recv() {
            self.set_aside(letter, trouble);
        }
    }

    /// Whoever asks is told what the trouble is; what a job did is kept for later.
    fn set_aside(&mut self, letter: Letter, trouble: &InputError) {
        match letter {
            Letter::Input(.., answer) => answer.send(Err(trouble.clone())).unwrap_or_default(),
            Letter::Done(_) | Letter::NotBegun(..) | Letter::Slot { .. } => {
                self.backlog.push_back(letter);
            }
            // Its claim lapses, and the session is looked at anyway once the store is back.
            Letter::Wake(..) => self.doubts_head = true,
        }
    }

    /// Decide, append, then do; what leaves no trace is done first.
    async fn step(&mut self, input: &Input) -> Result<Reply, InputError> {
        self.step_for(input, None).await
    }

    async fn step_for(
        &mut self,
        input: &Input,
        request: Option<Arc<RequestStep>>,
    ) -> Result<Reply, InputError> {
        let follow = if self.shared.is_draining() { Follow::Nothing } else { Follow::All };
        self.step_with(input, follow, request).await
    }

    /// When someone else appended meanwhile, their events are read and the input is decided anew.
    async fn step_with(
        &mut self,
        input: &Input,
        follow: Follow,
        request: Option<Arc<RequestStep>>,
    ) -> Result<Reply, InputError> {
        loop {
            if self.doubts_head {
                self.reload().await?;
            }
            let now = self.shared.clock.now();
            let mut decision = match follow {
                Follow::All => decide(&self.state, now, input.clone())?,
                Follow::Own | Follow::Nothing => note(&self.state, now, input.clone())?,
            };
            if decision.events.is_empty() {
                self.stand(decision.state);
                self.follow(decision.effects, follow);
                return Ok(decision.reply);
            }
            // After a long silence the node says that it is alive, so that the session stays ours
            // if nobody has taken it. Whether anyone has, the fence knows.
            let term = self.shared.current_term().await?;
            let mut slots = Vec::new();
            if follow == Follow::All {
                self.run_ahead(&mut decision, now).await;
                slots = self.take_free_slots(&mut decision, now);
            }
            // The moment of the decision: replaying the log must lead to the same state.
            let mut append = self.append(now, &mut decision);
            append.request.clone_from(&request);
            self.shared.observer.pass(Boundary::Decided);
            match self.shared.store.append(&append).await {
                Ok(head) => {
                    self.shared.observer.pass(Boundary::Appended);
                    let first_seq = self.head.seq + 1;
                    self.head = head;
                    // Whoever hears of the events and looks must find what they led to.
                    self.stand(decision.state);
                    self.tell(first_seq, append.events);
                    self.seen_ours(term);
                    self.stay_owner().await?;
                    self.slots.extend(slots);
                    self.follow(decision.effects, follow);
                    return Ok(decision.reply);
                }
                Err(AppendError::HeadMoved { .. }) => self.doubts_head = true,
                Err(AppendError::Fenced { .. }) => return Err(self.fenced().await),
                Err(AppendError::UnknownSession) => return Err(InputError::UnknownSession),
                Err(AppendError::Store(error)) => {
                    self.doubts_head = true;
                    self.owes_effects |= error.kind() == ErrorKind::Unknown;
                    return Err(InputError::from(error));
                }
            }
        }
    }

    /// Takes the events out of a decision, to be recorded and told.
    fn append(&mut self, at: haft_core::Timestamp, decision: &mut Decision) -> Append {
        let snapshot = self.snapshot_due(decision);
        Append {
            session: self.session,
            fence: Fence::Owner { epoch: self.epoch() },
            expected: self.head,
            at,
            events: std::mem::take(&mut decision.events),
            snapshot,
            followed_by: FollowedBy::Anyone,
            request: None,
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

    fn tell(&self, first_seq: u64, events: Vec<Event>) {
        let (session, events) = (self.session, events.into());
        self.shared.live.send(Live::Appended { session, first_seq, events });
    }

    fn epoch(&self) -> u64 {
        self.hold.as_ref().map_or(0, |hold| hold.lease.epoch)
    }

    fn seen_ours(&mut self, term: Term) {
        if let Some(hold) = &mut self.hold {
            hold.term = term;
        }
    }

    /// Returns the term in which the session is ours for certain, if it is the current one.
    fn sure_term(&self) -> Option<Term> {
        self.hold
            .as_ref()
            .map(|hold| hold.term)
            .filter(|term| self.shared.lease.term() == Some(*term))
    }

    /// Nothing is done on behalf of a session that may be someone else's by now. A node that was
    /// silent for too long says that it is alive, and looks who owns the session.
    async fn stay_owner(&mut self) -> Result<(), InputError> {
        if self.sure_term().is_some() {
            return Ok(());
        }
        let term = self.shared.current_term().await.map_err(|_| InputError::LeaseLapsed)?;
        let loaded = self.shared.store.load(self.session).await;
        match loaded {
            Ok(Some(loaded)) if loaded.epoch == self.epoch() => self.seen_ours(term),
            Ok(_) | Err(_) => return Err(InputError::LeaseLapsed),
        }
        self.sure_term().map(|_| ()).ok_or(InputError::LeaseLapsed)
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
}

impl Standing {
    pub(crate) fn of(loaded: Loaded) -> Self {
        let snapshot_seq = loaded.head.seq - loaded.replayed;
        Self { state: loaded.state, head: loaded.head, snapshot_seq }
    }
}

/// Returns whether an error means that this task cannot go on with the session. A store that is
/// away, full or unsure can come back; one that stopped itself cannot.
fn is_lost(error: &InputError) -> bool {
    match error {
        InputError::Refused(Refusal::Internal(_)) => true,
        InputError::Refused(_)
        | InputError::Overloaded
        | InputError::StoreAway(_)
        | InputError::UnderWayElsewhere
        | InputError::Key(_) => false,
        InputError::Store(error) => !is_passing(error),
        InputError::UnknownSession
        | InputError::OwnedElsewhere { .. }
        | InputError::LeaseLapsed
        | InputError::ShuttingDown
        | InputError::NoRandomness(_) => true,
    }
}

fn is_passing(error: &haft_store::Error) -> bool {
    matches!(error.kind(), ErrorKind::Gone | ErrorKind::DiskFull | ErrorKind::Unknown)
}
