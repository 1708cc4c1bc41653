//! The driver: the handle that the rest of a process holds.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_core::session::{
    Config, DecidedBy, Event, Input, Opened, Refusal, Reply, Resolved, Stale, State, accept, decide,
};
use haft_core::{Actor, CallId, Millis, SessionId, Timestamp};
use haft_store::Error as StoreError;
use haft_store::{
    Append, AppendError, CreateError, Fence, FollowedBy, Loaded, NewSession, NodeHere, NodeId,
    Request, RequestStep, Step, Store, Tenant, Wake,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::boundary::{Boundary, Observer};
use crate::cancellation::CancellationToken;
use crate::clock::Clock;
use crate::error::{BatchError, InputError};
use crate::fresh::fresh_bits;
use crate::job::Done;
use crate::live::{Live, LiveStream};
use crate::node_lease::{NodeLease, Term, Uptime};
use crate::performer::Performer;
use crate::pools::Pools;
use crate::session_task::{Letter, SessionTask, Standing};
use crate::supervision::supervise;
use crate::sweeper;

/// How many letters may wait for one session. Each is a person, a job or a wake; a session that
/// has more is not being read.
const MAILBOX_MAX: usize = 256;

/// How long a node that goes away waits for its store to take what its last jobs did.
const RECORDING_MAX: Duration = Duration::from_secs(5);

/// How soon others look after a session that this node recorded something for and then did not
/// come to look after, because it died.
const FOLLOW_UP_MAX: Millis = Millis::from_secs(2);

/// With more sessions at work, none stays that is at rest.
const LINGERING_MAX: usize = 1_024;

/// How often a late report is tried.
const LATE_EVERY: Duration = Duration::from_millis(500);

/// How a node runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which process this is; another one while this one lives must have another name.
    pub node: NodeId,
    /// Where time comes from.
    pub clock: Clock,
    /// How long a job may take to stop once it is asked to.
    pub stop_grace: Duration,
    /// How often due work and wakes are looked for at most, and while something is due. A node
    /// that knows of nothing looks once a second.
    pub sweep_every: Duration,
    /// Who is told of the places at which a process may die.
    pub observer: Observer,
    /// How long this node's sessions stay its own after its last heartbeat.
    pub lease_ttl: Duration,
    /// How long a session that a program drives stays with its task after its last call, in case
    /// the next follows. Only over a store that no other process can open: there nobody else waits
    /// for the session.
    pub linger: Duration,
    /// Where live events are sent.
    pub live: LiveStream,
    /// What bounds how many calls of a tool or a server run at once.
    pub pools: Pools,
}

impl Settings {
    /// The usual settings for a node of this name.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            clock: Clock::System,
            stop_grace: Duration::from_secs(5),
            sweep_every: Duration::from_millis(250),
            observer: Observer::default(),
            lease_ttl: Duration::from_secs(10),
            linger: Duration::from_millis(250),
            live: LiveStream::new(),
            pools: Pools::default(),
        }
    }
}

/// Drives sessions: takes inputs, appends what is decided, answers, and does it.
///
/// Cheap to clone. Sessions at work have a task each; sessions that wait have none. When the last
/// clone is dropped, the node ends without waiting for what runs, as after [`Driver::shutdown`]
/// without patience, and soon lets go of the store.
pub struct Driver<P> {
    shared: Arc<Shared<P>>,
    sweeper: Arc<JoinHandle<()>>,
    heart: Arc<JoinHandle<()>>,
    /// `None` in what the node itself holds.
    held: Option<Arc<HeldNode>>,
}

/// Ends the node when the last handle to it goes.
struct HeldNode {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for HeldNode {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl<P> Clone for Driver<P> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            sweeper: Arc::clone(&self.sweeper),
            heart: Arc::clone(&self.heart),
            held: self.held.clone(),
        }
    }
}

impl<P> fmt::Debug for Driver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("node", &self.shared.node).finish_non_exhaustive()
    }
}

pub(crate) struct Shared<P> {
    pub(crate) store: Store,
    pub(crate) performer: Arc<P>,
    pub(crate) node: NodeId,
    pub(crate) clock: Clock,
    pub(crate) stop_grace: Duration,
    pub(crate) live: LiveStream,
    pub(crate) pools: Pools,
    pub(crate) observer: Observer,
    pub(crate) lease: NodeLease,
    linger: Duration,
    /// Cancelled when nothing new is begun any more; under the table's lock, so that no letter
    /// is on its way by then.
    draining: CancellationToken,
    /// Cancelled when what runs is not waited for any more.
    pub(crate) leaving: CancellationToken,
    table: Mutex<Table>,
    /// Whether someone has asked for something of late: then what fell due must not hold them up.
    asked: AtomicBool,
    /// Whether the store was told that this node is gone.
    has_retired: AtomicBool,
    _here: NodeHere,
}

/// The sessions at work on this node. Letters are sent under its lock, so that a task leaves
/// only when no letter is on its way to it.
#[derive(Default)]
struct Table {
    at_work: HashMap<SessionId, AtWork>,
}

/// A session at work on this node.
struct AtWork {
    mailbox: mpsc::Sender<Letter>,
    /// Where it stands, as its task has last recorded or read it.
    state: Option<Arc<State>>,
}

impl<P: Performer> Driver<P> {
    /// Starts driving: the sweeper runs from here on.
    pub fn start(store: Store, performer: Arc<P>, settings: &Settings) -> Self {
        let linger = match store.is_of_one_process() {
            true => settings.linger,
            false => Duration::ZERO,
        };
        let shared = Arc::new(Shared {
            _here: store.enter_node(),
            store,
            performer,
            node: settings.node.clone(),
            clock: settings.clock.clone(),
            stop_grace: settings.stop_grace,
            live: settings.live.clone(),
            pools: settings.pools.clone(),
            observer: settings.observer.clone(),
            lease: NodeLease::new(settings.lease_ttl),
            linger,
            draining: CancellationToken::new(),
            leaving: CancellationToken::new(),
            table: Mutex::default(),
            asked: AtomicBool::new(false),
            has_retired: AtomicBool::new(false),
        });
        let (swept, settings) = (Arc::clone(&shared), settings.clone());
        let (beaten, beats) = (Arc::clone(&shared), settings.clone());
        let sweeper = move || sweeper::run(Arc::clone(&swept), settings.clone());
        let sweeper = tokio::spawn(supervise(shared.store.clone(), "sweeper", sweeper));
        let heart = move || sweeper::beat(Arc::clone(&beaten), beats.clone());
        let heart = tokio::spawn(supervise(shared.store.clone(), "heartbeat", heart));
        let end = end_of(&shared, &sweeper, &heart);
        let held = Some(Arc::new(HeldNode { end: Some(Box::new(end)) }));
        Self { shared, sweeper: Arc::new(sweeper), heart: Arc::new(heart), held }
    }

    /// Returns a handle for the node's own tasks, which does not keep the node alive.
    pub(crate) fn without_hold(&self) -> Self {
        Self { held: None, ..self.clone() }
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn open(
        &self,
        tenant: Tenant,
        config: Config,
        by: Actor,
    ) -> Result<SessionId, InputError> {
        let session = SessionId::from_bits(self.fresh()?);
        match self.open_as(session, tenant, config, by).await {
            // The id follows from the request: another run of it has just opened the session.
            Err(InputError::Refused(Refusal::AlreadyOpen)) if Request::current().is_some() => {
                Err(InputError::UnderWayElsewhere)
            }
            opened => opened,
        }
    }

    /// Opens a session under an id that follows from what it is for, so that whoever opens it
    /// again finds that it is there.
    ///
    /// # Errors
    ///
    /// As [`Driver::open`], and [`Refusal::AlreadyOpen`].
    pub async fn open_as(
        &self,
        session: SessionId,
        tenant: Tenant,
        mut config: Config,
        by: Actor,
    ) -> Result<SessionId, InputError> {
        self.shared.asked.store(true, Ordering::Relaxed);
        let now = self.shared.clock.now();
        let authority = self.shared.store.authority_head().await?;
        config.authority = Some(authority).filter(|head| head.seq > 0);
        let opened = Opened { session, config, by };
        let decision = decide(&State::Unopened, now, Input::Opened(opened))?;
        let events = decision.events;
        as_a_step(
            |it| it.step_opening(session),
            async |request| {
                let new = NewSession { session, tenant, at: now, events, owner: None, request };
                match self.shared.store.create_session(&new).await {
                    Ok(_) => Ok(Reply::Accepted),
                    Err(CreateError::Exists) => Err(InputError::Refused(Refusal::AlreadyOpen)),
                    Err(CreateError::Store(error)) => Err(error.into()),
                }
            },
        )
        .await?;
        Ok(session)
    }

    /// Gives a session an input and waits until it is durable. When another node owns the
    /// session, what needs no owner is recorded for it.
    ///
    /// # Errors
    ///
    /// When the session refuses it, or it could not be recorded.
    pub async fn input(&self, session: SessionId, input: Input) -> Result<Reply, InputError> {
        self.shared.asked.store(true, Ordering::Relaxed);
        as_a_step(
            |it| it.step_in(session),
            |request| Shared::input(&self.shared, session, input, request),
        )
        .await
    }

    /// Gives a session several inputs in one append: all of them, or none. They must be such that
    /// need no owner.
    ///
    /// # Errors
    ///
    /// Which of them the session refuses, or why none could be recorded.
    pub async fn input_all(
        &self,
        session: SessionId,
        inputs: Vec<Input>,
    ) -> Result<(), BatchError> {
        self.shared.asked.store(true, Ordering::Relaxed);
        as_a_step(
            |it| it.step_in(session),
            |request| Shared::record_all(&self.shared, session, None, inputs, request),
        )
        .await
        .map(drop)
    }

    /// Ends a wait, on whatever node: nobody needs to own the session. It is acknowledged when
    /// it is durable, before anything follows from it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Stale`] for whoever comes second, with who decided what and when.
    pub async fn resolve(
        &self,
        session: SessionId,
        resolved: Resolved,
    ) -> Result<Reply, InputError> {
        self.resolve_seen(session, None, resolved).await
    }

    /// Ends a wait in a session that has just been loaded, which is then not read again unless
    /// someone else has appended to it meanwhile.
    pub(crate) async fn resolve_seen(
        &self,
        session: SessionId,
        seen: Option<Loaded>,
        resolved: Resolved,
    ) -> Result<Reply, InputError> {
        self.shared.asked.store(true, Ordering::Relaxed);
        let (call, id, kind) = (resolved.call, resolved.id, resolved.resolution.kind());
        match self.record_or_decide(session, seen, resolved).await {
            Err(InputError::Refused(Refusal::Stale(Stale::Unknown))) => {
                let decided = self.decided(session, call).await?;
                if decided.resolution == Some(id) && decided.kind == kind {
                    return Ok(Reply::AlreadyRecorded);
                }
                let DecidedBy { by, kind: decision, at, .. } = decided;
                Err(InputError::Refused(Refusal::Stale(Stale::Decided { by, decision, at })))
            }
            reply => reply,
        }
    }

    /// Records the end of a wait. What follows from it may have to be begun in the same step, such
    /// as a preview, which only the session's owner can do.
    async fn record_or_decide(
        &self,
        session: SessionId,
        seen: Option<Loaded>,
        resolved: Resolved,
    ) -> Result<Reply, InputError> {
        let record = async |request: Option<Arc<RequestStep>>| {
            let input = Input::Resolved(resolved.clone());
            let recorded =
                Shared::record_all(&self.shared, session, seen, vec![input], request.clone()).await;
            match recorded.map_err(|refused| refused.error) {
                Err(InputError::Refused(Refusal::NeedsOwner)) => {
                    Shared::input(&self.shared, session, Input::Resolved(resolved), request).await
                }
                recorded => recorded,
            }
        };
        as_a_step(|it| it.step_in(session), record).await
    }

    /// Records an input that needs no owner, then has the session looked at.
    pub(crate) async fn record(
        &self,
        session: SessionId,
        input: Input,
    ) -> Result<Reply, InputError> {
        as_a_step(
            |it| it.step_in(session),
            |request| Shared::record(&self.shared, session, input, request),
        )
        .await
    }

    /// A call of an earlier turn is no longer in the session's state; the store knows who
    /// decided about it.
    async fn decided(&self, session: SessionId, call: CallId) -> Result<DecidedBy, InputError> {
        let known = self.shared.store.call(session, call).await?;
        let unknown = InputError::Refused(Refusal::Stale(Stale::Unknown));
        known.and_then(|call| call.decided).ok_or(unknown)
    }

    /// Has a session looked at: started here if it is at rest and nobody else owns it.
    pub fn wake(&self, session: SessionId) {
        Shared::wake(&self.shared, session, None);
    }

    /// Returns the live events from here on.
    pub fn live(&self) -> &LiveStream {
        &self.shared.live
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Returns what this node is called in the store.
    pub fn node(&self) -> &NodeId {
        &self.shared.node
    }

    /// Returns how many sessions are at work here.
    pub fn n_at_work(&self) -> usize {
        self.shared.table().at_work.len()
    }

    /// Returns the pools of this node, in which calls wait for their turn.
    pub fn pools(&self) -> &Pools {
        &self.shared.pools
    }

    /// Returns where a session stands that is at work here, without asking the store.
    pub(crate) fn state_at_work(&self, session: SessionId) -> Option<Arc<State>> {
        let table = self.shared.table();
        // A task that panicked could not take itself off the table.
        let at_work = table.at_work.get(&session).filter(|it| !it.mailbox.is_closed())?;
        at_work.state.clone()
    }

    /// Waits until nothing new is begun any more.
    pub(crate) async fn drained(&self) {
        self.shared.draining.cancelled().await;
    }

    /// Returns fresh bits for an id.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
    pub fn fresh(&self) -> Result<u128, InputError> {
        fresh_bits(self.shared.clock.now())
            .map_err(|error| InputError::NoRandomness(error.to_string()))
    }

    /// Takes no more inputs and begins nothing, waits for what runs, and lets the sessions go.
    /// What still runs when `patience` is over is stopped, and left to the next owner, who treats
    /// it like a crash.
    pub async fn shutdown(&self, patience: Duration) {
        self.sweeper.abort();
        self.shared.drain();
        self.shared.all_at_rest(patience).await;
        self.shared.leave_for_good(&self.heart.abort_handle()).await;
    }
}

/// Returns what ends a node whose last handle was dropped: nothing new is begun from that moment
/// on, and the rest is done by a task of the runtime that the node was started in.
fn end_of<P: Performer>(
    shared: &Arc<Shared<P>>,
    sweeper: &JoinHandle<()>,
    heart: &JoinHandle<()>,
) -> impl FnOnce() + Send + Sync + use<P> {
    let (shared, runtime) = (Arc::clone(shared), Handle::current());
    let (sweeper, heart) = (sweeper.abort_handle(), heart.abort_handle());
    move || {
        sweeper.abort();
        if shared.has_retired.load(Ordering::Relaxed) {
            return;
        }
        shared.drain();
        // A runtime that shuts down drops this, and with it all that the node has.
        drop(runtime.spawn(async move { shared.leave_for_good(&heart).await }));
    }
}

impl<P> Shared<P> {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        // A panic while the table is held leaves it whole: every change is one insert or remove.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_at_work(&self, session: SessionId) -> bool {
        self.table().at_work.contains_key(&session)
    }

    /// Lets others see where a session at work stands.
    pub(crate) fn show(&self, session: SessionId, state: &Arc<State>) {
        if let Some(at_work) = self.table().at_work.get_mut(&session) {
            at_work.state = Some(Arc::clone(state));
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns how long a session at rest may stay on the table; `None` when it is to leave.
    pub(crate) fn may_linger(&self) -> Option<Duration> {
        let has_room = || self.table().at_work.len() <= LINGERING_MAX;
        let lingers = !self.linger.is_zero() && !self.is_draining() && has_room();
        lingers.then_some(self.linger)
    }

    /// Returns when nothing new is begun any more.
    pub(crate) async fn drained(&self) {
        self.draining.cancelled().await;
    }

    /// Begins nothing new from here on.
    fn drain(&self) {
        let _table = self.table();
        self.draining.cancel();
    }

    /// Stops what runs, waits until it has stopped, and tells the store that this node is gone.
    async fn leave_for_good(&self, heart: &AbortHandle) {
        self.leaving.cancel();
        // Twice the grace is what a task gives its jobs; the rest is for recording what they did.
        self.all_at_rest(self.stop_grace * 2 + RECORDING_MAX).await;
        // Only now: what runs until here is this node's own.
        heart.abort();
        match self.store.retire(&self.node).await {
            Ok(()) => self.has_retired.store(true, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(%error, "the sessions are not handed over; their leases will run out");
            }
        }
    }

    async fn all_at_rest(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while !self.table().at_work.is_empty() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Says that this node is alive.
    pub(crate) async fn beat(&self) -> Result<(), StoreError> {
        let sent = Uptime::now();
        self.store.heartbeat(&self.node, self.clock.moment(), self.lease.ttl().into()).await?;
        self.lease.heard(sent);
        Ok(())
    }

    /// Returns the term in which this node is alive, after saying so if it was silent for long: a
    /// node that the store has not heard of owns nothing.
    pub(crate) async fn current_term(&self) -> Result<Term, InputError> {
        if let Some(term) = self.lease.term() {
            return Ok(term);
        }
        self.beat().await?;
        self.lease.term().ok_or(InputError::LeaseLapsed)
    }

    /// Says who looks after a session that something is appended to without its owner. When that
    /// can be this node, no other need hear of it.
    fn followed_by(&self, owner: Option<&NodeId>) -> FollowedBy {
        if self.is_draining() || owner.is_some_and(|owner| *owner != self.node) {
            return FollowedBy::Anyone;
        }
        FollowedBy::Appender { now: self.clock.moment(), hold: FOLLOW_UP_MAX }
    }

    /// Returns whether anyone has asked for anything since this was last called.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// Takes a session off the table if, with nobody able to write to it, it still wants to go.
    pub(crate) fn leave(&self, session: SessionId, wants_to_go: impl FnOnce() -> bool) -> bool {
        let mut table = self.table();
        let goes = wants_to_go();
        if goes {
            table.at_work.remove(&session);
        }
        goes
    }
}

impl<P: Performer> Shared<P> {
    /// Gives a session an input, here or, when another node owns it, by its log.
    pub(crate) async fn input(
        shared: &Arc<Self>,
        session: SessionId,
        input: Input,
        request: Option<Arc<RequestStep>>,
    ) -> Result<Reply, InputError> {
        let (answer, answered) = oneshot::channel();
        let input = Arc::new(input);
        let letter = Letter::Input(Arc::clone(&input), request.clone(), answer);
        Self::post(shared, session, letter)?;
        match answered.await.unwrap_or(Err(InputError::ShuttingDown)) {
            Err(InputError::OwnedElsewhere { node }) => {
                match Self::record(shared, session, Arc::unwrap_or_clone(input), request).await {
                    Err(InputError::Refused(Refusal::NeedsOwner)) => {
                        Err(InputError::OwnedElsewhere { node })
                    }
                    recorded => recorded,
                }
            }
            answer => answer,
        }
    }

    /// Sends a letter to a session's task, starting one if it is at rest.
    fn post(shared: &Arc<Self>, session: SessionId, mut letter: Letter) -> Result<(), InputError> {
        let mut table = shared.table();
        if shared.is_draining() {
            return Err(InputError::ShuttingDown);
        }
        // A task that panicked could not take itself off the table.
        if table.at_work.get(&session).is_some_and(|it| it.mailbox.is_closed()) {
            table.at_work.remove(&session);
        }
        let at_work = table.at_work.entry(session).or_insert_with(|| {
            let (mailbox, letters) = mpsc::channel(MAILBOX_MAX);
            let standing = letter.take_standing();
            let shared = Arc::clone(shared);
            let task = SessionTask::new(shared, session, letters, mailbox.clone(), standing);
            tokio::spawn(task.run());
            AtWork { mailbox, state: None }
        });
        at_work.mailbox.try_send(letter).map_err(|_| InputError::Overloaded)
    }

    pub(crate) fn wake(shared: &Arc<Self>, session: SessionId, wake: Option<Wake>) {
        // A full mailbox is being read, and when this node goes away another one will look.
        Self::post(shared, session, Letter::Wake(wake, None)).unwrap_or_default();
    }

    /// Tells what a job did whose session went on without it: if the call is in doubt, nobody need
    /// find out what is known. The next owner may have to come and see that it is in doubt first.
    pub(crate) fn report_late(shared: &Arc<Self>, session: SessionId, done: Done) {
        if !done.is_known() || !matches!(*done.input, Input::AttemptEnded(_)) {
            return;
        }
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let tries = Self::try_to_report(&shared, session, *done.input);
            if tokio::time::timeout(shared.lease.ttl() * 4, tries).await.is_err() {
                tracing::debug!(%session, "a late report changes nothing");
            }
        });
    }

    async fn try_to_report(shared: &Arc<Self>, session: SessionId, input: Input) {
        loop {
            match Self::record(shared, session, input.clone(), None).await {
                Err(InputError::Refused(Refusal::NeedsOwner) | InputError::Store(_)) => {
                    tokio::time::sleep(LATE_EVERY).await;
                }
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Has a session looked at by whoever finds its wake.
    fn leave_to_others(shared: &Arc<Self>, session: SessionId) {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            if let Err(error) = shared.store.wake(session).await {
                tracing::debug!(%session, %error, "its wake is found when its claim lapses");
            }
        });
    }

    /// Records an input on behalf of nobody in particular, then has the session looked at here.
    pub(crate) async fn record(
        shared: &Arc<Self>,
        session: SessionId,
        input: Input,
        request: Option<Arc<RequestStep>>,
    ) -> Result<Reply, InputError> {
        let recorded = Self::record_all(shared, session, None, vec![input], request).await;
        recorded.map_err(|refused| refused.error)
    }

    /// Records inputs likewise, in one append, in a session that has perhaps just been loaded;
    /// returns the reply to the last of them.
    async fn record_all(
        shared: &Arc<Self>,
        session: SessionId,
        mut seen: Option<Loaded>,
        inputs: Vec<Input>,
        request: Option<Arc<RequestStep>>,
    ) -> Result<Reply, BatchError> {
        loop {
            let was_seen = seen.is_some();
            let loaded = match seen.take() {
                Some(loaded) => loaded,
                None => {
                    let loaded = shared.store.load(session).await.map_err(InputError::from)?;
                    loaded.ok_or(InputError::UnknownSession)?
                }
            };
            let now = shared.clock.now();
            let (state, events, reply) = match accept_all(loaded.state, now, &inputs) {
                // The session may have moved on since it was looked at.
                Err(_) if was_seen => continue,
                accepted => accepted?,
            };
            if events.is_empty() {
                return Ok(reply);
            }
            let append = Append {
                session,
                fence: Fence::Anyone,
                expected: loaded.head,
                at: now,
                events,
                snapshot: None,
                followed_by: shared.followed_by(loaded.owner.as_ref()),
                request: request.clone().map(|step| noted(step, &reply)),
            };
            shared.observer.pass(Boundary::Decided);
            match shared.store.append(&append).await {
                Ok(head) => {
                    shared.observer.pass(Boundary::Appended);
                    let snapshot_seq = loaded.head.seq - loaded.replayed;
                    Self::recorded(shared, append, Standing { state, head, snapshot_seq });
                    return Ok(reply);
                }
                Err(AppendError::HeadMoved { .. } | AppendError::Fenced { .. }) => {}
                Err(AppendError::UnknownSession) => return Err(InputError::UnknownSession.into()),
                Err(AppendError::Store(error)) => return Err(InputError::from(error).into()),
            }
        }
    }

    /// Tells of what was recorded, and has the session looked at here by whoever finds it standing
    /// as it does now.
    fn recorded(shared: &Arc<Self>, append: Append, standing: Standing) {
        let (session, seq) = (append.session, standing.head.seq);
        let (first_seq, events) = (append.expected.seq + 1, append.events.into());
        shared.live.send(Live::Appended { session, first_seq, events });
        let wake = Wake { session, seq };
        let letter = Letter::Wake(Some(wake), Some(Box::new(standing)));
        if Self::post(shared, session, letter).is_err() {
            Self::leave_to_others(shared, session);
        }
    }
}

/// Decides upon inputs one after another, each where the one before has led.
fn accept_all(
    mut state: State,
    now: Timestamp,
    inputs: &[Input],
) -> Result<(State, Vec<Event>, Reply), BatchError> {
    let (mut events, mut reply) = (Vec::new(), Reply::Accepted);
    for (at, input) in inputs.iter().enumerate() {
        let decision = accept(&state, now, input.clone());
        let decision = decision.map_err(|error| BatchError::new(at, error))?;
        (state, reply) = (decision.state, decision.reply);
        events.extend(decision.events);
    }
    Ok((state, events, reply))
}

/// Makes a write to a session as a step of the request that the current task works on; what an
/// earlier run of that request has recorded is not recorded again.
async fn as_a_step<E>(
    step: impl FnOnce(&Request) -> Step,
    write: impl AsyncFnOnce(Option<Arc<RequestStep>>) -> Result<Reply, E>,
) -> Result<Reply, E> {
    let Some(request) = Request::current() else { return write(None).await };
    match step(&request) {
        Step::Done(Some(note)) if note.ends_with(ENDORSED) => Ok(Reply::Endorsed),
        Step::Done(_) => Ok(Reply::AlreadyRecorded),
        Step::New(step) => {
            let written = write(Some(Arc::clone(&step))).await;
            if written.is_err() {
                request.retract(&step);
            }
            written
        }
    }
}

/// The note of a step that recorded the first of two approvals, which is answered as such again.
const ENDORSED: &str = "endorsed";

fn noted(mut step: Arc<RequestStep>, reply: &Reply) -> Arc<RequestStep> {
    if *reply == Reply::Endorsed {
        Arc::make_mut(&mut step).note = Some(ENDORSED.to_owned());
    }
    step
}
