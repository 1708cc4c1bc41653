//! The live plane: what is told to whoever listens right now. Bounded and lossy; the log is where
//! nothing is missing.
//!
//! Whoever listens to one session, or waits for one call, is in a table by session and hears of
//! nothing else. The broadcast is for who wants to hear everything.

mod listeners;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use haft_core::session::Event;
use haft_core::{CallId, SessionId};
use serde_json::Value;
use tokio::sync::broadcast;

use self::listeners::Listeners;
pub(crate) use self::listeners::{AboutCall, CallListener};
pub use self::listeners::{LiveNews, SessionListener};

/// Something to tell whoever listens.
#[derive(Debug, Clone)]
pub enum Live {
    /// Events were appended; read the log from here.
    Appended {
        /// The session.
        session: SessionId,
        /// The place of the first of them.
        first_seq: u64,
        /// The events.
        events: Arc<[Event]>,
    },
    /// A call reached a step of its way.
    Step {
        /// The session.
        session: SessionId,
        /// The call.
        call: CallId,
        /// The step.
        step: Step,
    },
    /// The model is saying this; the whole answer is in the log once it has ended.
    Text {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: u32,
        /// Which time the model is asked in this turn: what an earlier one said is void.
        attempt: u32,
        /// The next piece.
        text: String,
    },
    /// A session was erased: there is no log of it any more.
    Erased {
        /// The session.
        session: SessionId,
    },
    /// A running call says how far it is.
    Progress {
        /// The session.
        session: SessionId,
        /// The call.
        call: CallId,
        /// What it says.
        progress: Value,
    },
}

/// The steps of a call's way that leave nothing in the log, in their order. What lies between
/// is: proposed or rejected, suspended and resolved, started, and exactly one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The name is a tool's.
    NameKnown,
    /// The arguments fit.
    ArgumentsFit,
    /// Middleware looks at it; it is logged as started.
    Before,
    /// The tool's code is entered.
    Executing,
    /// Middleware looks at what came back.
    After,
    /// What the model will read is made.
    Message,
    /// What is too large for it is kept.
    Artifacts,
}

/// Where live events are sent and heard.
#[derive(Clone)]
pub struct LiveStream {
    sender: broadcast::Sender<Live>,
    /// Whether anyone has ever listened: the sender's own count takes a lock, and every call
    /// passes here several times.
    is_heard: Arc<AtomicBool>,
    /// Whether anyone has ever listened to steps.
    steps_are_heard: Arc<AtomicBool>,
    listeners: Listeners,
    taps: Arc<RwLock<Vec<Weak<Tapped>>>>,
}

/// Keeps something told of live events; it is told no more when this is dropped.
pub struct Tap(Arc<Tapped>);

type Tapped = dyn Fn(&Live) + Send + Sync;

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tap").field(&Arc::as_ptr(&self.0)).finish()
    }
}

/// How many live events a slow listener may fall behind before it misses some. It then reads
/// the log, so this only bounds memory.
const BACKLOG_MAX: usize = 1024;

impl LiveStream {
    /// A stream that nobody listens to yet.
    pub(crate) fn new() -> Self {
        let sender = broadcast::channel(BACKLOG_MAX).0;
        let (is_heard, steps_are_heard) = (Arc::default(), Arc::default());
        let (listeners, taps) = (Listeners::default(), Arc::default());
        Self { sender, is_heard, steps_are_heard, listeners, taps }
    }

    pub(crate) fn steps_are_heard(&self) -> bool {
        self.steps_are_heard.load(Ordering::Relaxed)
    }

    pub(crate) fn step(&self, session: SessionId, call: CallId, step: Step) {
        if self.steps_are_heard() {
            self.broadcast(Live::Step { session, call, step });
        }
    }

    /// Listens from here on.
    pub fn subscribe(&self) -> broadcast::Receiver<Live> {
        self.steps_are_heard.store(true, Ordering::Relaxed);
        self.subscribe_without_steps()
    }

    /// Has `told` called with whatever is sent, except for steps, where it is sent: what is waited
    /// for need not pass through another task, and nothing is missed. It must be quick and not wait.
    pub fn tap(&self, told: impl Fn(&Live) + Send + Sync + 'static) -> Tap {
        let told: Arc<Tapped> = Arc::new(told);
        let mut taps = self.taps.write().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| tap.strong_count() > 0);
        taps.push(Arc::downgrade(&told));
        Tap(told)
    }

    /// Listens from here on to everything but steps, which come along where someone else listens
    /// to them.
    pub fn subscribe_without_steps(&self) -> broadcast::Receiver<Live> {
        self.is_heard.store(true, Ordering::Relaxed);
        self.sender.subscribe()
    }

    /// Listens from here on to what a model says and how far calls are in one session. That its log
    /// grew is not told here: [`haft_store::Store::watch`] tells it, whichever node appended.
    pub fn listen(&self, session: SessionId) -> SessionListener {
        self.listeners.to_session(session)
    }

    /// Listens from here on to what becomes of one call.
    pub(crate) fn listen_for(&self, session: SessionId, call: CallId) -> CallListener {
        self.listeners.for_call(session, call)
    }

    /// Has whoever waits for a call of a session ask the store: something may have been missed.
    pub(crate) fn look_again(&self, session: SessionId) {
        self.listeners.look_again(session);
    }

    /// Tells whoever listens; nobody listening is fine.
    pub fn send(&self, live: Live) {
        let taps = self.taps.read().unwrap_or_else(PoisonError::into_inner);
        taps.iter().filter_map(Weak::upgrade).for_each(|tap| tap(&live));
        drop(taps);
        self.listeners.tell(&live);
        self.broadcast(live);
    }

    fn broadcast(&self, live: Live) {
        if self.is_heard.load(Ordering::Relaxed) {
            self.sender.send(live).unwrap_or_default();
        }
    }
}

impl fmt::Debug for LiveStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveStream").field("is_heard", &self.is_heard).finish_non_exhaustive()
    }
}
