//! A session's events, read from its log: all of them so far, or as they come.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use haft_core::SessionId;
use haft_runtime::Live;
use haft_store::Store;
use haft_wire::managed::{Place, Preview, Projection, Spent, WireEvent};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::Error;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// How often the log is looked at beside the live events: another node may append to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many sessions' events are remembered, and how many of each at most: whoever reads page
/// after page does not have the log folded anew for each.
const REMEMBERED: usize = 16;
const REMEMBERED_EVENTS_MAX: usize = 10_000;

/// Reads a log from its beginning; goes on where it was left.
#[derive(Debug)]
struct Reader {
    store: Store,
    session: SessionId,
    projection: Projection,
    seq: u64,
}

impl Reader {
    fn new(store: Store, session: SessionId) -> Self {
        Self { store, session, projection: Projection::new(session), seq: 0 }
    }

    /// Returns the events of what was appended since.
    async fn news(&mut self) -> Result<Vec<WireEvent>, Error> {
        let mut events = Vec::new();
        let before = self.seq;
        loop {
            let page = self.store.entries(self.session, self.seq, PAGE).await?;
            for entry in &page {
                events.extend(self.projection.take(entry)?);
                self.seq = entry.seq;
            }
            if page.len() < PAGE as usize {
                break;
            }
        }
        // An append is seen whole, so what was read last is all that belongs together.
        if self.seq > before {
            events.extend(self.projection.settle());
        }
        Ok(events)
    }
}

/// A session's events so far, with the reader that goes on from there.
#[derive(Debug)]
struct Remembered {
    reader: Reader,
    events: Vec<WireEvent>,
}

type Slot = Arc<tokio::sync::Mutex<Remembered>>;

/// The events of sessions that were read lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<HashMap<SessionId, Slot>>>);

impl Feeds {
    fn slot(&self, store: &Store, session: SessionId) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !slots.contains_key(&session) && slots.len() >= REMEMBERED {
            slots.clear();
        }
        let fresh = || {
            let reader = Reader::new(store.clone(), session);
            Arc::new(tokio::sync::Mutex::new(Remembered { reader, events: Vec::new() }))
        };
        Arc::clone(slots.entry(session).or_insert_with(fresh))
    }

    fn forget(&self, session: SessionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }
}

/// Shows every event so far to `look`, and what the session has cost.
pub(crate) async fn read<T>(
    app: &App,
    session: SessionId,
    look: impl FnOnce(&[WireEvent], Spent) -> T,
) -> Result<T, Error> {
    let slot = app.feeds().slot(app.store(), session);
    let mut remembered = slot.lock().await;
    let news = remembered.reader.news().await;
    let is_whole = news.is_ok();
    remembered.events.extend(news.unwrap_or_default());
    if !is_whole || remembered.events.len() > REMEMBERED_EVENTS_MAX {
        app.feeds().forget(session);
    }
    if !is_whole {
        return Err(Error::internal(format!("the log of {session} cannot be read")));
    }
    Ok(look(&remembered.events, remembered.reader.projection.spent()))
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    /// With what comes after now.
    Now,
    /// After an event.
    After(Place),
}

/// Whether a stream also tells what the model is about to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Previews {
    Left,
    Shown,
}

/// What a stream tells.
#[derive(Debug)]
pub(crate) enum Told {
    Event(WireEvent),
    Preview(Preview),
}

/// Follows a session's events, without gap and without repetition, until the server goes away or
/// the store cannot be read. Whatever is appended after this returns is part of it.
pub(crate) async fn follow(
    app: &App,
    session: SessionId,
    since: Since,
    previews: Previews,
) -> Result<impl Stream<Item = Told> + use<>, Error> {
    let live = app.haft().live().subscribe();
    let mut reader = Reader::new(app.store().clone(), session);
    let mut ready: VecDeque<WireEvent> = reader.news().await?.into();
    match since {
        Since::Now => ready.clear(),
        Since::After(place) => ready.retain(|event| event.place > place),
    }
    let ready = ready.into_iter().map(Told::Event).collect();
    let shutdown = app.shutdown().clone();
    let follower = Follower { reader, live, ready, previews, previewed: None, shutdown };
    Ok(stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((event, follower))
    }))
}

struct Follower {
    reader: Reader,
    live: Receiver<Live>,
    ready: VecDeque<Told>,
    previews: Previews,
    /// The turn whose message is being previewed, and which time the model was asked in it.
    previewed: Option<(u32, u32)>,
    shutdown: CancellationToken,
}

/// Why a follower stopped waiting.
enum Woken {
    Look,
    Said { turn: u32, attempt: u32, text: String },
    Over,
}

impl Follower {
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            match self.wait().await {
                Woken::Over => return None,
                Woken::Said { turn, attempt, text } => self.preview(turn, attempt, &text),
                Woken::Look => {
                    // A client that misses something reconnects and asks for what it missed.
                    let news = self.reader.news().await.ok()?;
                    self.ready = news.into_iter().map(Told::Event).collect();
                }
            }
        }
    }

    /// Previews what is said in a turn that has not been answered as far as this reader knows.
    /// A model that is asked again starts over, which a preview cannot say: it stops.
    fn preview(&mut self, turn: u32, attempt: u32, text: &str) {
        if self.previews == Previews::Left || self.reader.projection.answered() >= turn {
            return;
        }
        let session = self.reader.session;
        if self.previewed.is_none_or(|(of, _)| of < turn) {
            self.previewed = Some((turn, attempt));
            self.ready.push_back(Told::Preview(Preview::start(session, turn)));
        }
        if self.previewed == Some((turn, attempt)) {
            self.ready.push_back(Told::Preview(Preview::delta(session, turn, text)));
        }
    }

    /// Waits until it is worth looking.
    async fn wait(&mut self) -> Woken {
        let session = self.reader.session;
        let live = &mut self.live;
        let told = async {
            loop {
                match live.recv().await {
                    Ok(Live::Appended { session: of, .. }) if of == session => return Woken::Look,
                    Ok(Live::Text { session: of, turn, attempt, text }) if of == session => {
                        return Woken::Said { turn, attempt, text };
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Woken::Look,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = self.shutdown.cancelled() => Woken::Over,
            woken = told => woken,
            () = tokio::time::sleep(LOOK_EVERY) => Woken::Look,
        }
    }
}
