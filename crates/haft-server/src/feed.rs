//! A session's events, read from its log: all of them so far, or as they come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream};
use haft_core::SessionId;
use haft_runtime::Live;
use haft_store::Store;
use haft_wire::managed::{Place, Preview, WireEvent, session_deleted};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::deletion::Deletable;
use crate::error::Error;
use crate::pages::{Pages, Reader};

/// How often the log is looked at beside the live events: another node may append to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many sessions' events are remembered.
const REMEMBERED: usize = 16;

type Slot = Arc<tokio::sync::Mutex<Pages>>;

/// The events of sessions that were read lately, the latest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Feeds(Arc<Mutex<VecDeque<(SessionId, Slot)>>>);

impl Feeds {
    fn slot(&self, store: &Store, session: SessionId) -> Slot {
        let mut slots = self.lock();
        let known = slots.iter().position(|(of, _)| *of == session);
        let slot = match known.and_then(|at| slots.remove(at)) {
            Some((_, slot)) => slot,
            None => Arc::new(tokio::sync::Mutex::new(Pages::new(store, session))),
        };
        if slots.len() >= REMEMBERED {
            slots.pop_front();
        }
        slots.push_back((session, Arc::clone(&slot)));
        slot
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.lock().retain(|(of, _)| *of != session);
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, Slot)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a session's events, as they are by now.
pub(crate) async fn pages(app: &App, session: SessionId) -> Result<OwnedMutexGuard<Pages>, Error> {
    let mut pages = app.feeds().slot(app.store(), session).lock_owned().await;
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

/// What a stream tells.
#[derive(Debug)]
pub(crate) enum Told {
    Event(WireEvent),
    Preview(Preview),
    /// The session was deleted; nothing comes after this.
    Deleted(Value),
}

/// Follows a session's events, without gap and without repetition, until the session is deleted,
/// the server goes away or the store cannot be read. Whatever is appended after this returns is part of it.
pub(crate) async fn follow(
    app: &App,
    session: SessionId,
    deletable: Deletable,
    (since, previews): (Since, Previews),
) -> Result<impl Stream<Item = Told> + use<>, Error> {
    let live = app.haft().live().subscribe_without_steps();
    let (reader, ready) = {
        let pages = pages(app, session).await?;
        match since {
            Since::Now => (pages.reader(), Vec::new()),
            Since::After(place) => pages.since(place).await?,
        }
    };
    let ready = ready.into_iter().map(Told::Event).collect();
    let follower = Follower {
        app: app.clone(),
        reader,
        live,
        ready,
        previews,
        previewed: None,
        deletable,
        is_over: false,
    };
    Ok(stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((event, follower))
    }))
}

struct Follower {
    app: App,
    reader: Reader,
    live: Receiver<Live>,
    ready: VecDeque<Told>,
    previews: Previews,
    /// The turn whose message is being previewed, and which time the model was asked in it.
    previewed: Option<(u32, u32)>,
    deletable: Deletable,
    /// Whether the last event is told, or ready to be.
    is_over: bool,
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
    Over,
}

impl Follower {
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            if self.is_over {
                return None;
            }
            match self.wait().await {
                Woken::Over => return None,
                Woken::Gone => self.tell_deletion().await.ok()?,
                Woken::Said { turn, attempt, text } => self.preview(turn, attempt, &text),
                Woken::Look => {
                    // A client that misses something reconnects and asks for what it missed.
                    let news = self.reader.news().await.ok()?;
                    self.ready = news.into_iter().map(Told::Event).collect();
                    self.look_for_deletion().await.ok()?;
                }
            }
        }
    }

    /// A session that is deleted has ended before, so others cost nothing here.
    async fn look_for_deletion(&mut self) -> Result<(), Error> {
        match self.reader.projection.has_ended() {
            true => self.tell_deletion().await,
            false => Ok(()),
        }
    }

    async fn tell_deletion(&mut self) -> Result<(), Error> {
        if let Some(at) = self.deletable.deleted_at(&self.app).await? {
            self.ready.push_back(Told::Deleted(session_deleted(self.deletable.session, at)));
            self.is_over = true;
        }
        Ok(())
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
                    Ok(Live::Erased { session: of }) if of == session => return Woken::Gone,
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
            () = self.app.shutdown().cancelled() => Woken::Over,
            woken = told => woken,
            () = tokio::time::sleep(LOOK_EVERY) => Woken::Look,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_for_longest_is_forgotten_first() {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        let feeds = Feeds::default();
        let slot = |session| feeds.slot(&store, SessionId::from_bits(session));
        let (first, second) = (slot(1), slot(2));
        for session in 3..=16 {
            slot(session);
        }
        assert!(Arc::ptr_eq(&first, &slot(1)), "all sixteen are remembered");
        slot(17);
        assert!(Arc::ptr_eq(&first, &slot(1)), "it was read again");
        assert!(!Arc::ptr_eq(&second, &slot(2)), "it was not");
    }
}
