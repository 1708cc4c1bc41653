//! What the streams of a node hold in memory, and whose reader is too slow.
//!
//! A stream is read from the log, so that it has to keep only what its reader is about to take: a
//! batch, bounded in bytes. What is large is kept once for all readers. A reader that takes
//! nothing for long, or that is the slowest when the node's streams hold too much, is ended: it is
//! told so, and resumes where it was.

mod lane;
mod sse;
mod text;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use haft_core::SessionId;
use haft_store::Store;
use haft_wire::managed::{Place, WireEvent};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::lane::Frame;
pub(crate) use self::sse::{KEEP_ALIVE_EVERY, Source, TooSlow, respond};
pub(crate) use self::text::{EncodedEvent, Text};

use self::lane::Lane;

/// How much the streams of a node may hold, and how slow their readers may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// How many bytes all streams of the node may hold. When they hold more, readers that take
    /// nothing are ended, the slowest first.
    pub memory_max: usize,
    /// How many bytes are read ahead for one reader. One event may be larger.
    pub reader_memory_max: usize,
    /// How long a reader may take nothing of what is ready for it before its stream is ended.
    pub stalled_max: Duration,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            memory_max: 128 * 1024 * 1024,
            reader_memory_max: 256 * 1024,
            stalled_max: Duration::from_secs(60),
        }
    }
}

/// How many logs are read for streams at once: what is read is larger in memory for a moment.
const READ_AT_ONCE: usize = 4;

/// What is at least as large is kept once for all readers, also when each reads it for itself.
const SHARED_FROM: usize = 32 * 1024;

/// How long a reader may take nothing before it can be ended because the node's streams hold too
/// much, and for how long others wait for that.
const STALLED_UNDER_PRESSURE: Duration = Duration::from_secs(1);

/// How often it is looked for readers that take nothing.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(5);

/// In which form something is shown: the same place in a log is shown differently to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// As events of the wire API.
    Events,
    /// As entries of the log.
    Log,
}

/// The streams of a node. A clone is the same.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: StreamSettings,
    bytes: Arc<AtomicUsize>,
    n_ended: AtomicU64,
    reading: Semaphore,
    lanes: Mutex<Vec<Weak<Lane>>>,
    large: Mutex<HashMap<(SessionId, View, Place), Weak<Text>>>,
}

impl Streams {
    pub(crate) fn new(settings: StreamSettings) -> Self {
        Self(Arc::new(Inner {
            settings,
            bytes: Arc::default(),
            n_ended: AtomicU64::new(0),
            reading: Semaphore::new(READ_AT_ONCE),
            lanes: Mutex::default(),
            large: Mutex::default(),
        }))
    }

    /// Returns how many bytes the streams hold.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many streams there are.
    pub(crate) fn n_open(&self) -> usize {
        lock(&self.0.lanes).iter().filter(|lane| lane.strong_count() > 0).count()
    }

    /// Returns how many streams were ended because their reader was too slow.
    pub(crate) fn n_ended(&self) -> u64 {
        self.0.n_ended.load(Ordering::Relaxed)
    }

    /// Returns how many bytes a stream may read ahead: less while the streams hold much.
    pub(crate) fn batch_max(&self) -> usize {
        let StreamSettings { memory_max, reader_memory_max, .. } = self.0.settings;
        match self.bytes() > memory_max / 2 {
            true => (reader_memory_max / 8).max(1),
            false => reader_memory_max,
        }
    }

    /// Returns how many bytes may be remembered of each of so many sessions, for whoever reads them
    /// next: not more than half of what the streams may hold.
    pub(crate) fn remembered_max(&self, n_sessions: usize) -> usize {
        self.0.settings.memory_max / 2 / n_sessions
    }

    /// Waits for one's turn to read a log for a stream.
    pub(crate) async fn turn_to_read(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.0.reading.acquire().await.ok()
    }

    /// Keeps a text that only one reader is sent.
    pub(crate) fn own(&self, text: impl Into<Vec<u8>>) -> Arc<Text> {
        Arc::new(Text::new(text.into(), &self.0.bytes))
    }

    /// Keeps an event as all of its readers are sent it.
    pub(crate) fn shown(&self, session: SessionId, event: WireEvent) -> Arc<EncodedEvent> {
        let WireEvent { place, kind, body, .. } = event;
        let key = (session, View::Events, place);
        let text = self.shared(key, || serde_json::to_vec(&body).unwrap_or_default());
        Arc::new(EncodedEvent { place, kind, text })
    }

    /// Keeps a text once for all readers while any of them has it, if it is large.
    pub(crate) fn shared(
        &self,
        key: (SessionId, View, Place),
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Arc<Text> {
        if let Some(text) = lock(&self.0.large).get(&key).and_then(Weak::upgrade) {
            return text;
        }
        let text = self.own(encode());
        if text.len() < SHARED_FROM {
            return text;
        }
        let mut large = lock(&self.0.large);
        large.retain(|_, known| known.strong_count() > 0);
        // Someone else may have been faster meanwhile.
        if let Some(known) = large.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        large.insert(key, Arc::downgrade(&text));
        text
    }

    fn lane(&self) -> Arc<Lane> {
        let lane = Arc::new(Lane::default());
        let mut lanes = lock(&self.0.lanes);
        lanes.retain(|lane| lane.strong_count() > 0);
        lanes.push(Arc::downgrade(&lane));
        lane
    }

    /// Returns when the streams hold little enough to read on: at once as a rule, and after a
    /// moment in any case, because a reader that takes what it is sent holds nobody up.
    async fn make_room(&self) {
        let until = Instant::now() + STALLED_UNDER_PRESSURE;
        while self.bytes() > self.0.settings.memory_max {
            self.end_stalled(STALLED_UNDER_PRESSURE, Some(self.0.settings.memory_max));
            if self.bytes() <= self.0.settings.memory_max || Instant::now() >= until {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends streams whose reader has taken nothing for so long, the slowest first, until the
    /// streams hold no more than `enough` bytes if that is given.
    fn end_stalled(&self, stalled_for: Duration, enough: Option<usize>) {
        let lanes: Vec<_> = lock(&self.0.lanes).iter().filter_map(Weak::upgrade).collect();
        let mut stalled: Vec<_> =
            lanes.iter().filter_map(|lane| Some((lane.stalled_since()?, lane))).collect();
        stalled.sort_by_key(|(since, _)| *since);
        for (since, lane) in stalled {
            let is_enough = enough.is_some_and(|enough| self.bytes() <= enough);
            if is_enough || since.elapsed() < stalled_for {
                return;
            }
            if lane.end() {
                self.0.n_ended.fetch_add(1, Ordering::Relaxed);
                tracing::info!(
                    stalled_ms = since.elapsed().as_millis() as u64,
                    "a stream is ended because its reader is too slow"
                );
            }
        }
    }

    /// Looks for readers that take nothing until the server goes away, whatever panics meanwhile.
    pub(crate) async fn supervise(self, store: Store, shutdown: CancellationToken) {
        let watch = move || self.clone().watch(shutdown.clone());
        haft_runtime::supervise(store, "streams", watch).await;
    }

    async fn watch(self, shutdown: CancellationToken) {
        let stalled_max = self.0.settings.stalled_max;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep((stalled_max / 4).min(LOOK_EVERY_MAX)) => {}
            }
            self.end_stalled(stalled_max, None);
        }
    }
}

/// A panic while one of these is held leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
