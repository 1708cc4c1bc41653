//! A session's events page by page, however many there are.
//!
//! The latest events are remembered. Of what lies before them only marks are: what the fold was
//! after every so many entries, so that a page of long ago costs the entries between two marks
//! and not the whole log.

use std::collections::VecDeque;
use std::sync::Arc;

use haft_core::SessionId;
use haft_store::Store;
use haft_wire::managed::{Place, Projection, Spent, WireEvent};

use crate::error::Error;
use crate::streams::{EncodedEvent, Streams};

/// How many entries are read at once.
const PAGE: u32 = 512;

/// How many bytes of entries are read at once.
const PAGE_BYTES: usize = 256 * 1024;

/// How much is remembered of a session.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    recent_max: usize,
    recent_bytes_max: usize,
    mark_every: u64,
    /// A mark is also set after so many bytes of entries.
    mark_every_bytes: usize,
}

const BOUNDS: Bounds = Bounds {
    recent_max: 10_000,
    recent_bytes_max: 1024 * 1024,
    mark_every: 2_048,
    mark_every_bytes: 4 * 1024 * 1024,
};

/// Which events are wanted, and in which order.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) limit: usize,
    /// How many bytes they may have together; one event may have more.
    pub(crate) bytes_max: usize,
    pub(crate) after: Option<Place>,
    pub(crate) types: Vec<String>,
    pub(crate) is_descending: bool,
}

impl Wanted {
    fn has(&self, event: &EncodedEvent) -> bool {
        let is_after = match (self.after, self.is_descending) {
            (None, _) => true,
            (Some(after), false) => event.place > after,
            (Some(after), true) => event.place < after,
        };
        is_after && (self.types.is_empty() || self.types.iter().any(|kind| kind == event.kind))
    }
}

/// The events of a page.
#[derive(Debug, Default)]
struct PageEvents {
    events: Vec<Arc<EncodedEvent>>,
    bytes: usize,
    /// Whether there is at least one that does not fit.
    is_full: bool,
}

impl PageEvents {
    /// Adds those of some events that are wanted, until one does not fit.
    fn add(&mut self, wanted: &Wanted, from: impl Iterator<Item = Arc<EncodedEvent>>) {
        for event in from.filter(|event| wanted.has(event)) {
            let has_room = self.events.len() < wanted.limit
                && (self.events.is_empty() || self.bytes < wanted.bytes_max);
            if self.is_full || !has_room {
                self.is_full = true;
                return;
            }
            self.bytes += event.text.len();
            self.events.push(event);
        }
    }
}

/// Reads a log from a place in it; goes on where it was left.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    store: Store,
    streams: Streams,
    session: SessionId,
    projection: Projection,
    seq: u64,
}

/// Some events, and what it took to read them.
struct Part {
    events: Vec<Arc<EncodedEvent>>,
    bytes: usize,
    rest: Rest,
    /// The threads that were created, by their ids.
    threads: Vec<String>,
}

impl Reader {
    fn new(store: Store, streams: Streams, session: SessionId) -> Self {
        Self { store, streams, session, projection: Projection::new(session), seq: 0 }
    }

    /// Reads some entries, at most up to one; returns their events and whether more are there.
    async fn part(&mut self, to: u64) -> Result<Part, Error> {
        let room = to.saturating_sub(self.seq).min(u64::from(PAGE));
        let limit = u32::try_from(room).unwrap_or(PAGE);
        let entries = self.store.entries_within(self.session, self.seq, limit, PAGE_BYTES).await?;
        let (n_entries, mut bytes) = (entries.len(), 0);
        let (mut events, mut threads) = (Vec::new(), Vec::new());
        for entry in entries {
            bytes += entry.body.len();
            for event in self.projection.take(&entry)? {
                if event.kind == "session.thread_created" {
                    let id = event.body.get("session_thread_id").and_then(|id| id.as_str());
                    threads.extend(id.map(str::to_owned));
                }
                events.push(self.streams.shown(self.session, event));
            }
            self.seq = entry.seq;
        }
        let is_all = n_entries < limit as usize && bytes < PAGE_BYTES;
        let rest = if is_all { Rest::Nothing } else { Rest::More };
        Ok(Part { events, bytes, rest, threads })
    }

    /// Returns what the entries so far lead to, given that there are no more.
    fn settle(&mut self) -> Vec<Arc<EncodedEvent>> {
        let shown = |event: WireEvent| self.streams.shown(self.session, event);
        self.projection.settle().into_iter().map(shown).collect()
    }

    /// Reads on, and returns the events after a place; says whether the log goes on after them.
    pub(crate) async fn after(
        &mut self,
        place: Place,
    ) -> Result<(Vec<Arc<EncodedEvent>>, Rest), Error> {
        let Part { mut events, rest, .. } = self.part(u64::MAX).await?;
        if rest == Rest::Nothing {
            events.extend(self.settle());
        }
        events.retain(|event| event.place > place);
        Ok((events, rest))
    }
}

/// Whether a log goes on after what was read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    More,
    Nothing,
}

/// A session's events so far.
#[derive(Debug)]
pub(crate) struct Pages {
    reader: Reader,
    bounds: Bounds,
    /// Readers as they were, from the beginning on.
    marks: Vec<Reader>,
    bytes_since_mark: usize,
    recent: VecDeque<Arc<EncodedEvent>>,
    recent_bytes: usize,
    /// The last event that is not remembered any more.
    forgotten: Option<Place>,
    /// The last event.
    last: Place,
    /// Whether it was told what the last entries lead to.
    is_settled: bool,
    /// The threads that were created, by their ids.
    threads: Vec<String>,
}

/// What comes next for someone who has read up to a place.
pub(crate) enum NextEvents {
    /// These, as far as they fit.
    Events(Vec<Arc<EncodedEvent>>),
    /// It is not remembered: this reads it from the log.
    Read(Box<Reader>),
}

impl Pages {
    /// Starts to read a session of which others remember as much, so many of them.
    pub(crate) fn new(
        store: &Store,
        streams: &Streams,
        session: SessionId,
        n_others: usize,
    ) -> Self {
        let recent_bytes_max = BOUNDS.recent_bytes_max.min(streams.remembered_max(n_others + 1));
        Self::bounded(store, streams, session, Bounds { recent_bytes_max, ..BOUNDS })
    }

    fn bounded(store: &Store, streams: &Streams, session: SessionId, bounds: Bounds) -> Self {
        let reader = Reader::new(store.clone(), streams.clone(), session);
        Self {
            marks: vec![reader.clone()],
            reader,
            bounds,
            bytes_since_mark: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
            forgotten: None,
            last: Place::default(),
            is_settled: true,
            threads: Vec::new(),
        }
    }

    /// Reads what was appended since. After an error, nothing is certain any more.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        loop {
            let marked = self.marks.last().map_or(0, |mark| mark.seq);
            let next = marked + self.bounds.mark_every;
            let Part { events, bytes, rest, threads } = self.reader.part(next).await?;
            // From here on there is nothing to wait for: whoever asked may go away at any time.
            self.is_settled &= bytes == 0;
            self.bytes_since_mark += bytes;
            self.threads.extend(threads);
            self.remember(events);
            if self.reader.seq >= next || self.bytes_since_mark >= self.bounds.mark_every_bytes {
                self.marks.push(self.reader.clone());
                self.bytes_since_mark = 0;
            }
            if rest == Rest::Nothing {
                break;
            }
        }
        // An append is seen whole, so what was read last is all that belongs together.
        if !std::mem::replace(&mut self.is_settled, true) {
            let settled = self.reader.settle();
            self.remember(settled);
        }
        Ok(())
    }

    fn remember(&mut self, events: Vec<Arc<EncodedEvent>>) {
        for event in events {
            self.last = event.place;
            self.recent_bytes += event.text.len();
            self.recent.push_back(event);
        }
        let Bounds { recent_max, recent_bytes_max, .. } = self.bounds;
        while self.recent.len() > recent_max || self.recent_bytes > recent_bytes_max {
            let Some(forgotten) = self.recent.pop_front() else { break };
            self.recent_bytes -= forgotten.text.len();
            self.forgotten = Some(forgotten.place);
        }
    }

    /// Forgets the events themselves. What they led to and where the log ends stays known, so that
    /// whoever follows reads what comes next and nothing again.
    pub(crate) fn forget_recent(&mut self) {
        self.forgotten = self.recent.back().map(|event| event.place).or(self.forgotten);
        self.recent = VecDeque::new();
        self.recent_bytes = 0;
    }

    pub(crate) fn spent(&self) -> Spent {
        self.reader.projection.spent()
    }

    pub(crate) fn threads(&self) -> &[String] {
        &self.threads
    }

    /// Returns the last turn in which the model will say nothing more.
    pub(crate) fn answered(&self) -> u32 {
        self.reader.projection.answered()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.reader.projection.has_ended()
    }

    /// Returns the last entry that was read.
    pub(crate) fn seq(&self) -> u64 {
        self.reader.seq
    }

    /// Returns the place of the last event.
    pub(crate) fn last(&self) -> Place {
        self.last
    }

    /// Returns the latest event of a type.
    pub(crate) async fn latest(&self, kind: &str) -> Result<Option<Arc<EncodedEvent>>, Error> {
        let (limit, bytes_max, types) = (1, usize::MAX, vec![kind.to_owned()]);
        let wanted = Wanted { limit, bytes_max, after: None, types, is_descending: true };
        Ok(self.page(&wanted).await?.0.pop())
    }

    /// Returns the events after a place, as many as there is room for.
    pub(crate) fn following(&self, place: Place, bytes_max: usize) -> NextEvents {
        if !self.remembers_after(Some(place)) {
            return NextEvents::Read(Box::new(self.mark_before(place).clone()));
        }
        let first = self.recent.partition_point(|event| event.place <= place);
        let mut bytes = 0;
        let fits = self.recent.range(first..).take_while(|event| {
            let has_room = bytes < bytes_max;
            bytes += event.text.len();
            has_room
        });
        NextEvents::Events(fits.cloned().collect())
    }

    /// Returns a page, and where the next one starts.
    pub(crate) async fn page(
        &self,
        wanted: &Wanted,
    ) -> Result<(Vec<Arc<EncodedEvent>>, Option<Place>), Error> {
        let mut chosen = PageEvents::default();
        match wanted.is_descending {
            true => self.descend(wanted, &mut chosen).await?,
            false => self.ascend(wanted, &mut chosen).await?,
        }
        let PageEvents { events, is_full, .. } = chosen;
        let next = events.last().filter(|_| is_full).map(|last| last.place);
        Ok((events, next))
    }

    /// Whether all that comes after a place is remembered.
    fn remembers_after(&self, place: Option<Place>) -> bool {
        self.forgotten.is_none() || place >= self.forgotten
    }

    /// The index of the last mark from which everything after a place is read.
    fn mark_index(&self, place: Place) -> usize {
        self.marks.partition_point(|mark| mark.seq < place.seq).saturating_sub(1)
    }

    fn mark_before(&self, place: Place) -> &Reader {
        // There is always the one at the beginning.
        self.marks.get(self.mark_index(place)).unwrap_or(&self.reader)
    }

    async fn ascend(&self, wanted: &Wanted, chosen: &mut PageEvents) -> Result<(), Error> {
        if self.remembers_after(wanted.after) {
            chosen.add(wanted, self.recent.iter().cloned());
            return Ok(());
        }
        let mut reader = self.mark_before(wanted.after.unwrap_or_default()).clone();
        let mut rest = Rest::More;
        while reader.seq < self.reader.seq && !chosen.is_full && rest == Rest::More {
            let part = reader.part(self.reader.seq).await?;
            rest = part.rest;
            chosen.add(wanted, part.events.into_iter());
        }
        // What the last entries of a log lead to is told by what comes after them.
        if reader.seq >= self.reader.seq {
            chosen.add(wanted, reader.settle().into_iter());
        }
        Ok(())
    }

    async fn descend(&self, wanted: &Wanted, chosen: &mut PageEvents) -> Result<(), Error> {
        chosen.add(wanted, self.recent.iter().rev().cloned());
        let Some(forgotten) = self.forgotten else { return Ok(()) };
        for at in (0..self.marks.len()).rev() {
            if chosen.is_full {
                break;
            }
            let events = self.between(at).await?.into_iter().rev();
            let older = events.filter(|event| event.place <= forgotten);
            chosen.add(wanted, older);
        }
        Ok(())
    }

    /// Folds what lies between a mark and the next, or the end.
    async fn between(&self, at: usize) -> Result<Vec<Arc<EncodedEvent>>, Error> {
        let Some(mut reader) = self.marks.get(at).cloned() else { return Ok(Vec::new()) };
        let end = self.marks.get(at + 1).map_or(self.reader.seq, |next| next.seq);
        let (mut events, mut rest) = (Vec::new(), Rest::More);
        while reader.seq < end && rest == Rest::More {
            let part = reader.part(end).await?;
            rest = part.rest;
            events.extend(part.events);
        }
        if at + 1 == self.marks.len() {
            events.extend(reader.settle());
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ContentBlock;
    use haft_core::session::{Activity, Config};
    use haft_runtime::Haft;
    use haft_runtime::testing::{QueuedModel, TestNode, user};

    use super::*;
    use crate::streams::StreamSettings;

    /// A session that answers so often.
    async fn session(n: usize) -> (TestNode, SessionId) {
        let model =
            (0..n).fold(QueuedModel::new(), |model, at| model.says(&format!("answer {at}")));
        let node = TestNode::start(Haft::builder().model(model));
        let session = node.session_with(Config::default()).await;
        (node, session)
    }

    /// Asks, and waits for the answer.
    async fn ask(node: &TestNode, session: SessionId) {
        let content = vec![ContentBlock::Text { text: "and then?".to_owned() }];
        node.haft().say(session, user("ann"), content).await.unwrap();
        loop {
            let loaded = node.haft().store().load(session).await.unwrap().unwrap();
            if loaded.state.as_open().unwrap().activity == Activity::Idle {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Everything, read from the beginning.
    async fn whole(store: &Store, session: SessionId) -> Vec<Arc<EncodedEvent>> {
        let mut reader = Reader::new(store.clone(), streams(), session);
        reader.after(Place::default()).await.unwrap().0
    }

    fn streams() -> Streams {
        Streams::new(StreamSettings::default())
    }

    const ALL: usize = usize::MAX;

    async fn all(pages: &Pages, wanted: &Wanted) -> Vec<Arc<EncodedEvent>> {
        let (mut all, mut wanted) = (Vec::new(), wanted.clone());
        loop {
            let (page, next) = pages.page(&wanted).await.unwrap();
            assert!(page.len() <= wanted.limit);
            all.extend(page);
            let Some(next) = next else { return all };
            wanted.after = Some(next);
        }
    }

    fn wanted(is_descending: bool) -> Wanted {
        let (limit, bytes_max) = (ALL, ALL);
        Wanted { limit, bytes_max, after: None, types: Vec::new(), is_descending }
    }

    /// What comes after a place, as a stream reads it.
    async fn since(pages: &Pages, place: Place) -> Vec<Arc<EncodedEvent>> {
        match pages.following(place, ALL) {
            NextEvents::Events(events) => events,
            NextEvents::Read(mut reader) => {
                let mut all = Vec::new();
                loop {
                    let (events, rest) = reader.after(place).await.unwrap();
                    all.extend(events);
                    if rest == Rest::Nothing {
                        return all;
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn pages_are_those_of_the_whole_log_however_little_is_remembered() {
        let (node, session) = session(12).await;
        for _ in 0..12 {
            ask(&node, session).await;
        }
        let store = node.haft().store();
        let whole = whole(store, session).await;
        assert!(whole.len() > 40, "{}", whole.len());
        for (recent_max, mark_every, bytes) in
            [(5, 7, ALL), (1, 1, ALL), (20, 3, 500), (1000, 1000, 1), (1000, 1000, ALL)]
        {
            let (recent_bytes_max, mark_every_bytes) = (bytes, bytes);
            let bounds = Bounds { recent_max, recent_bytes_max, mark_every, mark_every_bytes };
            let mut pages = Pages::bounded(store, &streams(), session, bounds);
            pages.catch_up().await.unwrap();
            for (limit, is_descending) in
                [(1, false), (7, false), (100, false), (1, true), (9, true)]
            {
                let wanted = Wanted { limit, ..wanted(is_descending) };
                let mut expected = whole.clone();
                if is_descending {
                    expected.reverse();
                }
                assert_eq!(
                    all(&pages, &wanted).await,
                    expected,
                    "{limit} {recent_max} {mark_every}"
                );
                let types = vec!["agent.message".to_owned()];
                expected.retain(|event| event.kind == "agent.message");
                assert_eq!(all(&pages, &Wanted { types, ..wanted }).await, expected);
            }
            let few = Wanted { bytes_max: 300, ..wanted(false) };
            assert_eq!(all(&pages, &few).await, whole, "{recent_max} {mark_every} {bytes}");
            for (at, event) in whole.iter().enumerate() {
                let since = since(&pages, event.place).await;
                assert_eq!(since, whole[at + 1..], "{recent_max} {mark_every} {bytes}");
            }
        }
    }

    #[tokio::test]
    async fn what_was_forgotten_is_read_again_and_what_comes_next_is_not_read_from_the_start() {
        let (node, session) = session(3).await;
        let store = node.haft().store();
        let mut pages = Pages::bounded(store, &streams(), session, BOUNDS);
        for _ in 0..3 {
            ask(&node, session).await;
            pages.catch_up().await.unwrap();
            let (seq, last) = (pages.seq(), pages.last());
            pages.forget_recent();
            assert_eq!((pages.seq(), pages.last(), pages.recent.len()), (seq, last, 0));
            let next = pages.following(last, ALL);
            assert!(matches!(next, NextEvents::Events(events) if events.is_empty()));
        }
        let whole = whole(store, session).await;
        let said = whole.iter().rfind(|event| event.kind == "agent.message");
        assert_eq!(pages.latest("agent.message").await.unwrap().as_ref(), said);
        assert_eq!(all(&pages, &wanted(false)).await, whole);
        assert_eq!(since(&pages, whole[0].place).await, whole[1..]);
    }

    #[tokio::test]
    async fn what_is_read_while_it_happens_is_what_is_read_later() {
        let (node, session) = session(6).await;
        let store = node.haft().store();
        let bounds =
            Bounds { recent_max: 3, recent_bytes_max: ALL, mark_every: 2, mark_every_bytes: ALL };
        let mut pages = Pages::bounded(store, &streams(), session, bounds);
        for _ in 0..6 {
            ask(&node, session).await;
            pages.catch_up().await.unwrap();
        }
        let wanted = Wanted { limit: 4, ..wanted(false) };
        let whole = whole(store, session).await;
        assert_eq!(all(&pages, &wanted).await, whole);
        assert!(pages.recent.len() <= 3);
    }
}
