//! Who listens to which session, and who waits for which call.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft_core::session::{Event, Rejection};
use haft_core::{CallId, Outcome, SessionId};
use tokio::sync::Notify;

use super::Live;

/// How much a slow listener of a session may be behind, in bytes, before it misses something.
const BACKLOG_MAX: usize = 256 * 1024;

/// Whoever listens, by session. A clone is the same table.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Table>);

#[derive(Default)]
struct Table {
    sessions: Mutex<HashMap<SessionId, Vec<Listener>>>,
    /// How many sessions there are in the table, to be read without its lock: every call passes
    /// here several times.
    len: AtomicUsize,
}

#[derive(Clone)]
enum Listener {
    /// What it is told comes with the bytes that it takes.
    ToSession(Arc<Inbox<(Live, usize)>>),
    ForCall(CallId, Arc<Inbox<AboutCall>>),
}

/// What a listener has not taken yet.
struct Inbox<T> {
    waiting: Mutex<Backlog<T>>,
    came: Notify,
}

struct Backlog<T> {
    items: VecDeque<T>,
    bytes: usize,
    has_missed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let waiting = Backlog { items: VecDeque::new(), bytes: 0, has_missed: false };
        Self { waiting: Mutex::new(waiting), came: Notify::new() }
    }
}

impl<T> Inbox<T> {
    fn put(&self, item: T) {
        self.lock().items.push_back(item);
        self.came.notify_one();
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Backlog<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listeners {
    pub(super) fn to_session(&self, session: SessionId) -> SessionListener {
        let inbox = Arc::new(Inbox::default());
        let place = self.add(session, Listener::ToSession(Arc::clone(&inbox)));
        SessionListener { inbox, place }
    }

    pub(super) fn for_call(&self, session: SessionId, call: CallId) -> CallListener {
        let inbox = Arc::new(Inbox::default());
        let place = self.add(session, Listener::ForCall(call, Arc::clone(&inbox)));
        CallListener { inbox, place }
    }

    fn add(&self, session: SessionId, listener: Listener) -> Place {
        let mut sessions = self.lock();
        sessions.entry(session).or_default().push(listener.clone());
        self.0.len.store(sessions.len(), Ordering::SeqCst);
        Place { listeners: self.clone(), session, listener }
    }

    /// Tells those whom it concerns.
    pub(super) fn tell(&self, live: &Live) {
        if self.0.len.load(Ordering::SeqCst) == 0 {
            return;
        }
        match live {
            Live::Appended { session, events, .. } => self.to_each(*session, |listener| {
                if let Listener::ForCall(call, inbox) = listener {
                    events.iter().filter_map(|event| about(event, *call)).for_each(|it| {
                        inbox.put(it);
                    });
                }
            }),
            Live::Text { session, .. }
            | Live::Progress { session, .. }
            | Live::Erased { session } => {
                let bytes = size(live);
                self.to_each(*session, |listener| {
                    if let Listener::ToSession(inbox) = listener {
                        inbox.put_bounded(live, bytes);
                    }
                });
            }
            Live::Step { .. } => {}
        }
    }

    pub(super) fn look_again(&self, session: SessionId) {
        self.to_each(session, |listener| {
            if let Listener::ForCall(_, inbox) = listener {
                inbox.put(AboutCall::Look);
            }
        });
    }

    fn to_each(&self, session: SessionId, tell: impl FnMut(&Listener)) {
        self.lock().get(&session).into_iter().flatten().for_each(tell);
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Listener>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inbox<(Live, usize)> {
    fn put_bounded(&self, live: &Live, bytes: usize) {
        let mut waiting = self.lock();
        if waiting.bytes + bytes > BACKLOG_MAX {
            // What comes after something that is missing is of no use either.
            waiting.items.clear();
            waiting.bytes = 0;
            waiting.has_missed = true;
        } else if !waiting.has_missed {
            waiting.items.push_back((live.clone(), bytes));
            waiting.bytes += bytes;
        }
        drop(waiting);
        self.came.notify_one();
    }
}

/// About as many bytes as it takes to keep one.
fn size(live: &Live) -> usize {
    let content = match live {
        Live::Text { text, .. } => text.len(),
        // How far a call is takes a few words as a rule; what is longer is measured as it is sent.
        Live::Progress { progress, .. } => {
            serde_json::to_vec(progress).map_or(0, |progress| progress.len())
        }
        Live::Appended { .. } | Live::Erased { .. } | Live::Step { .. } => 0,
    };
    content + size_of::<Live>()
}

/// A listener's place in the table, until this is dropped.
struct Place {
    listeners: Listeners,
    session: SessionId,
    listener: Listener,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sessions = self.listeners.lock();
        let Some(there) = sessions.get_mut(&self.session) else { return };
        if let Some(at) = there.iter().position(|other| other.is_same(&self.listener)) {
            there.swap_remove(at);
        }
        if there.is_empty() {
            sessions.remove(&self.session);
        }
        self.listeners.0.len.store(sessions.len(), Ordering::SeqCst);
    }
}

impl Listener {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ToSession(one), Self::ToSession(other)) => Arc::ptr_eq(one, other),
            (Self::ForCall(_, one), Self::ForCall(_, other)) => Arc::ptr_eq(one, other),
            (Self::ToSession(_), Self::ForCall(..)) | (Self::ForCall(..), Self::ToSession(_)) => {
                false
            }
        }
    }
}

/// Hears what is said in one session, and nothing else.
pub struct SessionListener {
    inbox: Arc<Inbox<(Live, usize)>>,
    place: Place,
}

/// What a listener of a session hears next.
#[derive(Debug, Clone)]
pub enum LiveNews {
    /// A model said something, or a call told how far it is.
    Live(Live),
    /// The listener was too slow: what was said up to here is missing. The log has all that lasts.
    Missed,
}

impl SessionListener {
    /// Waits for what is heard next. It can be dropped while it waits without missing anything.
    pub async fn heard(&mut self) -> LiveNews {
        loop {
            if let Some(heard) = self.take() {
                return heard;
            }
            self.inbox.came.notified().await;
        }
    }

    fn take(&self) -> Option<LiveNews> {
        let mut waiting = self.inbox.lock();
        if std::mem::take(&mut waiting.has_missed) {
            return Some(LiveNews::Missed);
        }
        let (live, bytes) = waiting.items.pop_front()?;
        waiting.bytes -= bytes;
        Some(LiveNews::Live(live))
    }
}

impl fmt::Debug for SessionListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionListener").field(&self.place.session).finish()
    }
}

/// What is told to whoever waits for a call.
pub(crate) enum AboutCall {
    Outcome(Box<Outcome>),
    Rejection(Rejection),
    /// Something that the store knows more about.
    Look,
}

/// Hears what becomes of one call, and nothing else.
pub(crate) struct CallListener {
    inbox: Arc<Inbox<AboutCall>>,
    #[expect(dead_code, reason = "it keeps the place in the table until it is dropped")]
    place: Place,
}

impl CallListener {
    /// Waits for what is heard next. It can be dropped while it waits without missing anything.
    pub(crate) async fn heard(&mut self) -> AboutCall {
        loop {
            let about = self.inbox.lock().items.pop_front();
            if let Some(about) = about {
                return about;
            }
            self.inbox.came.notified().await;
        }
    }
}

fn about(event: &Event, wanted: CallId) -> Option<AboutCall> {
    match event {
        Event::CallFinished { outcome } if outcome.call == wanted => {
            Some(AboutCall::Outcome(outcome.clone().into()))
        }
        Event::CallRejected { call, rejection, .. } if *call == wanted => {
            Some(AboutCall::Rejection(rejection.clone()))
        }
        Event::CallSuspended { call, .. } if *call == wanted => Some(AboutCall::Look),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const SESSION: SessionId = SessionId::from_bits(7);

    fn said(session: SessionId, text: &str) -> Live {
        Live::Text { session, turn: 1, attempt: 1, text: text.to_owned() }
    }

    fn next(listener: &mut SessionListener) -> Option<LiveNews> {
        match pin!(listener.heard()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(heard) => Some(heard),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_listener_hears_its_own_session_and_is_forgotten_when_it_goes() {
        let listeners = Listeners::default();
        let mut listener = listeners.to_session(SESSION);
        listeners.tell(&said(SessionId::from_bits(8), "not for it"));
        listeners.tell(&said(SESSION, "for it"));
        assert!(matches!(
            next(&mut listener),
            Some(LiveNews::Live(Live::Text { text, .. })) if text == "for it"
        ));
        assert!(next(&mut listener).is_none());
        drop(listener);
        assert!(listeners.lock().is_empty());
    }

    #[test]
    fn a_slow_listener_misses_something_instead_of_keeping_all_of_it() {
        let listeners = Listeners::default();
        let mut listener = listeners.to_session(SESSION);
        let text = "x".repeat(10_000);
        for _ in 0..100 {
            listeners.tell(&said(SESSION, &text));
            assert!(listener.inbox.lock().bytes <= BACKLOG_MAX);
        }
        assert!(matches!(next(&mut listener), Some(LiveNews::Missed)));
        listeners.tell(&said(SESSION, "heard again"));
        assert!(matches!(next(&mut listener), Some(LiveNews::Live(_))));
    }
}
