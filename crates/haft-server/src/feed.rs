//! A session's events, read from its log: all of them so far, or as they come.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use haft_core::SessionId;
use haft_runtime::Live;
use haft_store::Store;
use haft_wire::managed::{Place, Projection, WireEvent};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::error::Error;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// How often the log is looked at beside the live events: another node may append to it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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

/// Reads every event so far.
pub(crate) async fn all(store: &Store, session: SessionId) -> Result<Vec<WireEvent>, Error> {
    Reader::new(store.clone(), session).news().await
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Since {
    /// With what comes after now.
    Now,
    /// After an event.
    After(Place),
}

/// Follows a session's events, without gap and without repetition, until the server goes away or
/// the store cannot be read. Whatever is appended after this returns is part of it.
pub(crate) async fn follow(
    app: &App,
    session: SessionId,
    since: Since,
) -> Result<impl Stream<Item = WireEvent> + use<>, Error> {
    let live = app.haft().live().subscribe();
    let mut reader = Reader::new(app.store().clone(), session);
    let mut ready: VecDeque<WireEvent> = reader.news().await?.into();
    match since {
        Since::Now => ready.clear(),
        Since::After(place) => ready.retain(|event| event.place > place),
    }
    let follower = Follower { reader, live, ready, shutdown: app.shutdown().clone() };
    Ok(stream::unfold(follower, |mut follower| async {
        let event = follower.next().await?;
        Some((event, follower))
    }))
}

struct Follower {
    reader: Reader,
    live: Receiver<Live>,
    ready: VecDeque<WireEvent>,
    shutdown: CancellationToken,
}

impl Follower {
    async fn next(&mut self) -> Option<WireEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.wait().await {
                return None;
            }
            // A client that misses something reconnects and asks for what it missed.
            self.ready = self.reader.news().await.ok()?.into();
        }
    }

    /// Waits until it is worth looking; false when nothing comes any more.
    async fn wait(&mut self) -> bool {
        let session = self.reader.session;
        let live = &mut self.live;
        let appended = async {
            loop {
                match live.recv().await {
                    Ok(Live::Appended { session: of, .. }) if of == session => return,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = self.shutdown.cancelled() => false,
            () = appended => true,
            () = tokio::time::sleep(LOOK_EVERY) => true,
        }
    }
}
