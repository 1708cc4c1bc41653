//! A session's events, read from its log: all of them so far, or as they come.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use haft_core::SessionId;
use haft_runtime::{Live, LiveNews, SessionListener};
use haft_store::{ChangedBy, Store, Watch};
use haft_wire::managed::{Place, Preview, session_deleted};
use tokio::sync::OwnedMutexGuard;

use crate::app::App;
use crate::deletion::Deletable;
use crate::error::Error;
use crate::pages::{NextEvents, Pages, Reader, Rest};
use crate::streams::{EncodedEvent, Frame, KEEP_ALIVE_EVERY, Source, Streams};

/// How many sessions' events are remembered.
const REMEMBERED: usize = 16;

type Slot = Arc<tokio::sync::Mutex<Pages>>;

/// The events of sessions that were read lately or are followed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<Slots>>);

#[derive(Debug, Default)]
struct Slots {
    /// The sessions whose events are remembered, the one that was read last at the end.
    recent: VecDeque<(SessionId, Slot)>,
    /// Every slot that somebody has. Who follows a session has its slot: however many others are
    /// read, what its log led to is not folded again.
    held: HashMap<SessionId, Weak<tokio::sync::Mutex<Pages>>>,
}

impl Slots {
    /// Forgets the events of the session that was not read for longest. One that is being read at
    /// this moment is left for the next time.
    fn evict(&mut self) {
        let is_free = |(_, slot): &(SessionId, Slot)| slot.try_lock().is_ok();
        let at = self.recent.iter().position(is_free).unwrap_or(0);
        if let Some((_, slot)) = self.recent.remove(at)
            && let Ok(mut pages) = slot.try_lock()
        {
            pages.forget_recent();
        }
    }
}

impl Feeds {
    fn slot(&self, store: &Store, streams: &Streams, session: SessionId) -> Slot {
        let mut slots = self.lock();
        let known = slots.recent.iter().position(|(of, _)| *of == session);
        let recent = known.and_then(|at| slots.recent.remove(at)).map(|(_, slot)| slot);
        let known = recent.or_else(|| slots.held.get(&session).and_then(Weak::upgrade));
        let slot = known.unwrap_or_else(|| {
            let pages = Pages::new(store, streams, session, REMEMBERED - 1);
            let slot = Arc::new(tokio::sync::Mutex::new(pages));
            slots.held.retain(|_, slot| slot.strong_count() > 0);
            slots.held.insert(session, Arc::downgrade(&slot));
            slot
        });
        if slots.recent.len() >= REMEMBERED {
            slots.evict();
        }
        slots.recent.push_back((session, Arc::clone(&slot)));
        slot
    }

    pub(crate) fn forget(&self, session: SessionId) {
        let mut slots = self.lock();
        slots.recent.retain(|(of, _)| *of != session);
        slots.held.remove(&session);
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a session's events, as they are by now.
pub(crate) async fn pages(app: &App, session: SessionId) -> Result<OwnedMutexGuard<Pages>, Error> {
    pages_up_to(app, session, u64::MAX).await
}

/// Returns a session's events, at least up to an entry that is known to be there.
async fn pages_up_to(
    app: &App,
    session: SessionId,
    seq: u64,
) -> Result<OwnedMutexGuard<Pages>, Error> {
    let slot = app.feeds().slot(app.store(), app.streams(), session);
    let mut pages = slot.lock_owned().await;
    if pages.seq() >= seq {
        return Ok(pages);
    }
    match pages.catch_up().await {
        Ok(()) => Ok(pages),
        Err(error) => {
            app.feeds().forget(session);
            Err(error)
        }
    }
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

/// Follows a session's events, without gap and without repetition, until the session is deleted,
/// the server goes away or the store cannot be read. Whatever is appended after this returns is part of it.
pub(crate) async fn follow(
    app: &App,
    session: SessionId,
    deletable: Deletable,
    (since, previews): (Since, Previews),
) -> Result<Follower, Error> {
    let live = app.haft().live().listen(session);
    let watch = app.store().watch(session, ChangedBy::Anyone);
    let is_below = deletable.session != session;
    let top = is_below.then(|| app.store().watch(deletable.session, ChangedBy::Anyone));
    let pages = pages(app, session).await?;
    watch.has_read(pages.seq());
    let place = match since {
        Since::Now => pages.last(),
        Since::After(place) => place,
    };
    Ok(Follower {
        app: app.clone(),
        session,
        _slot: Arc::clone(OwnedMutexGuard::mutex(&pages)),
        watch,
        top,
        live,
        place,
        cursor: Cursor::Recent,
        looks: Looks::Now,
        previews,
        previewed: None,
        answered: pages.answered(),
        has_ended: pages.has_ended(),
        deletable,
        is_over: false,
    })
}

/// Tells a session's events to one reader.
pub(crate) struct Follower {
    app: App,
    session: SessionId,
    /// Keeps what the log led to for as long as it is followed.
    _slot: Slot,
    watch: Watch,
    /// Watches the session above, whose deletion ends this stream too.
    top: Option<Watch>,
    live: SessionListener,
    /// The last event that was told.
    place: Place,
    cursor: Cursor,
    looks: Looks,
    previews: Previews,
    /// The turn whose message is being previewed, and which time the model was asked in it.
    previewed: Option<(u32, u32)>,
    answered: u32,
    has_ended: bool,
    deletable: Deletable,
    /// Whether the last event is told.
    is_over: bool,
}

/// Where a stream is.
enum Cursor {
    /// Among what is remembered for all readers.
    Recent,
    /// Before that: it reads for itself.
    Behind(Box<Reader>),
}

/// Whether there may be something new in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    Now,
    WhenTold,
}

/// Why a follower stopped waiting.
enum Woken {
    /// The log is not there any more.
    Gone,
    Look,
    Said {
        turn: u32,
        attempt: u32,
        text: String,
    },
    Silence,
    Over,
}

impl Source for Follower {
    async fn next(&mut self) -> Option<Vec<Frame>> {
        loop {
            if self.is_over {
                return None;
            }
            if self.looks == Looks::Now {
                // A client that misses something reconnects and asks for what it missed.
                let frames = match self.news().await {
                    Ok(frames) => frames,
                    // What was erased cannot be read any more; that it is gone can be told.
                    Err(_) => {
                        let last = self.tell_deletion().await.ok()?;
                        return (!last.is_empty()).then_some(last);
                    }
                };
                if !frames.is_empty() {
                    return Some(frames);
                }
            }
            let frames = match self.wait().await {
                Woken::Over => return None,
                Woken::Silence => vec![Frame::keep_alive()],
                Woken::Gone => self.tell_deletion().await.ok()?,
                Woken::Said { turn, attempt, text } => self.preview(turn, attempt, &text),
                Woken::Look => {
                    self.looks = Looks::Now;
                    Vec::new()
                }
            };
            if !frames.is_empty() {
                return Some(frames);
            }
        }
    }
}

impl Follower {
    /// Returns what was appended since, as much as one reader may hold; nothing when that is all.
    async fn news(&mut self) -> Result<Vec<Frame>, Error> {
        let mut n_rereads = 0;
        loop {
            let events = match &mut self.cursor {
                Cursor::Recent => self.recent().await?,
                Cursor::Behind(reader) => {
                    let _turn = self.app.streams().turn_to_read().await;
                    let (events, rest) = reader.after(self.place).await?;
                    if rest == Rest::Nothing {
                        self.cursor = Cursor::Recent;
                    }
                    Some(events)
                }
            };
            let Some(events) = events else {
                n_rereads += 1;
                // A log that was erased meanwhile does not have what is said to be in it.
                if n_rereads > 1 {
                    return Err(Error::internal("the log does not have what was read of it"));
                }
                continue;
            };
            if let Some(last) = events.last() {
                self.place = last.place;
                return Ok(events.iter().map(|event| Frame::shown(event)).collect());
            }
            if matches!(self.cursor, Cursor::Recent) && self.looks == Looks::WhenTold {
                return self.look_for_deletion().await;
            }
        }
    }

    /// Returns what is remembered after the last event that was told; `None` when it has to be read
    /// from the log.
    async fn recent(&mut self) -> Result<Option<Vec<Arc<EncodedEvent>>>, Error> {
        let pages = pages_up_to(&self.app, self.session, self.watch.known_seq()).await?;
        self.answered = pages.answered();
        self.has_ended = pages.has_ended();
        match pages.following(self.place, self.app.streams().batch_max()) {
            NextEvents::Events(events) => {
                if events.is_empty() {
                    self.looks = Looks::WhenTold;
                }
                Ok(Some(events))
            }
            NextEvents::Read(reader) => {
                self.cursor = Cursor::Behind(reader);
                Ok(None)
            }
        }
    }

    /// A session that is deleted has ended before, so others cost nothing here.
    async fn look_for_deletion(&mut self) -> Result<Vec<Frame>, Error> {
        match self.has_ended {
            true => self.tell_deletion().await,
            false => Ok(Vec::new()),
        }
    }

    async fn tell_deletion(&mut self) -> Result<Vec<Frame>, Error> {
        if let Some(at) = self.deletable.deleted_at(&self.app).await? {
            self.is_over = true;
            let last = session_deleted(self.deletable.session, at).to_string();
            return Ok(vec![Frame::event("session.deleted", self.app.streams().own(last))]);
        }
        Ok(Vec::new())
    }

    /// Previews what is said in a turn that has not been answered as far as this reader knows.
    /// A model that is asked again starts over, which a preview cannot say: it stops.
    fn preview(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<Frame> {
        if self.previews == Previews::Left || self.answered >= turn {
            return Vec::new();
        }
        let (session, streams) = (self.session, self.app.streams());
        let frame =
            |preview: Preview| Frame::event(preview.kind, streams.own(preview.body.to_string()));
        let mut frames = Vec::new();
        if self.previewed.is_none_or(|(of, _)| of < turn) {
            self.previewed = Some((turn, attempt));
            frames.push(frame(Preview::start(session, turn)));
        }
        if self.previewed == Some((turn, attempt)) {
            frames.push(frame(Preview::delta(session, turn, text)));
        }
        frames
    }

    /// Waits until it is worth looking. What was said before something was appended comes first.
    async fn wait(&mut self) -> Woken {
        let (live, watch, top) = (&mut self.live, &mut self.watch, &mut self.top);
        let said = async {
            loop {
                match live.heard().await {
                    LiveNews::Live(Live::Text { turn, attempt, text, .. }) => {
                        return Woken::Said { turn, attempt, text };
                    }
                    LiveNews::Live(Live::Erased { .. }) => return Woken::Gone,
                    LiveNews::Live(_) | LiveNews::Missed => {}
                }
            }
        };
        let above = async {
            match top {
                Some(top) => top.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.app.shutdown().cancelled() => Woken::Over,
            said = said => said,
            () = watch.changed() => Woken::Look,
            () = above => Woken::Look,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => Woken::Silence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::StreamSettings;

    #[test]
    fn what_was_not_read_for_longest_is_forgotten_first_unless_it_is_followed() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        let feeds = Feeds::default();
        let streams = Streams::new(StreamSettings::default());
        let slot = |session| feeds.slot(&store, &streams, SessionId::from_bits(session));
        let (first, second) = (Arc::downgrade(&slot(1)), Arc::downgrade(&slot(2)));
        let followed = slot(3);
        for session in 4..=16 {
            slot(session);
        }
        let is_there = |slot: &Weak<_>| slot.strong_count() > 0;
        assert!(is_there(&first) && is_there(&second), "all sixteen are remembered");
        slot(1);
        slot(17);
        assert!(is_there(&first), "it was read again");
        assert!(!is_there(&second), "it was not");
        for session in 18..=99 {
            slot(session);
        }
        assert!(!is_there(&first));
        assert!(Arc::ptr_eq(&followed, &slot(3)), "somebody follows it");
        slot(100);
        assert!(feeds.lock().held.len() <= REMEMBERED + 2, "those that are gone take no room");
        feeds.forget(SessionId::from_bits(3));
        assert!(!Arc::ptr_eq(&followed, &slot(3)), "it was erased");
    }
}
