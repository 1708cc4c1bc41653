//! A session's events page by page, however many there are.
//!
//! The latest events are remembered. Of what lies before them only marks are: what the fold was
//! after every so many entries, so that a page of long ago costs the entries between two marks
//! and not the whole log.

use std::collections::VecDeque;

use haft_core::SessionId;
use haft_store::Store;
use haft_wire::managed::{Place, Projection, Spent, WireEvent};

use crate::error::Error;

/// How many entries are read at once.
const PAGE: u32 = 512;

/// How much is remembered of a session.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    recent_max: usize,
    mark_every: u64,
}

const BOUNDS: Bounds = Bounds { recent_max: 10_000, mark_every: 2_048 };

/// Which events are wanted, and in which order.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) limit: usize,
    pub(crate) after: Option<Place>,
    pub(crate) types: Vec<String>,
    pub(crate) is_descending: bool,
}

impl Wanted {
    fn has(&self, event: &WireEvent) -> bool {
        let is_after = match (self.after, self.is_descending) {
            (None, _) => true,
            (Some(after), false) => event.place > after,
            (Some(after), true) => event.place < after,
        };
        is_after && (self.types.is_empty() || self.types.iter().any(|kind| kind == event.kind))
    }

    /// Adds those of some events that are wanted, until there is one more than fits.
    fn choose(&self, from: impl Iterator<Item = WireEvent>, chosen: &mut Vec<WireEvent>) {
        let left = (self.limit + 1).saturating_sub(chosen.len());
        chosen.extend(from.filter(|event| self.has(event)).take(left));
    }
}

/// Reads a log from a place in it; goes on where it was left.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    store: Store,
    pub(crate) session: SessionId,
    pub(crate) projection: Projection,
    seq: u64,
}

impl Reader {
    fn new(store: Store, session: SessionId) -> Self {
        Self { store, session, projection: Projection::new(session), seq: 0 }
    }

    /// Reads some entries, at most up to one; returns their events and whether more are there.
    async fn part(&mut self, to: u64) -> Result<(Vec<WireEvent>, Rest), Error> {
        let room = to.saturating_sub(self.seq).min(u64::from(PAGE));
        let limit = u32::try_from(room).unwrap_or(PAGE);
        let entries = self.store.entries(self.session, self.seq, limit).await?;
        let mut events = Vec::new();
        for entry in &entries {
            events.extend(self.projection.take(entry)?);
            self.seq = entry.seq;
        }
        let rest = if entries.len() == limit as usize { Rest::More } else { Rest::Nothing };
        Ok((events, rest))
    }

    /// Returns the events of what was appended since.
    pub(crate) async fn news(&mut self) -> Result<Vec<WireEvent>, Error> {
        let (mut events, before) = (Vec::new(), self.seq);
        loop {
            let (part, rest) = self.part(u64::MAX).await?;
            events.extend(part);
            if rest == Rest::Nothing {
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

/// Whether a log goes on after what was read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
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
    recent: VecDeque<WireEvent>,
    /// Whether there were events before those.
    before: Before,
    /// The threads that were created, by their ids.
    threads: Vec<String>,
}

/// What lies before the events that are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Others,
}

impl Pages {
    pub(crate) fn new(store: &Store, session: SessionId) -> Self {
        Self::bounded(store, session, BOUNDS)
    }

    fn bounded(store: &Store, session: SessionId, bounds: Bounds) -> Self {
        let reader = Reader::new(store.clone(), session);
        let (marks, recent, threads) = (vec![reader.clone()], VecDeque::new(), Vec::new());
        Self { reader, bounds, marks, recent, before: Before::Nothing, threads }
    }

    /// Reads what was appended since. After an error, nothing is certain any more.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Error> {
        let before = self.reader.seq;
        loop {
            let marked = self.marks.last().map_or(0, |mark| mark.seq);
            let next = marked + self.bounds.mark_every;
            let (events, rest) = self.reader.part(next).await?;
            self.remember(events);
            if self.reader.seq >= next {
                self.marks.push(self.reader.clone());
            }
            if rest == Rest::Nothing {
                break;
            }
        }
        if self.reader.seq > before {
            let settled = self.reader.projection.settle();
            self.remember(settled);
        }
        Ok(())
    }

    fn remember(&mut self, events: Vec<WireEvent>) {
        for event in events {
            if event.kind == "session.thread_created" {
                let id = event.body.get("session_thread_id").and_then(|id| id.as_str());
                self.threads.extend(id.map(str::to_owned));
            }
            self.recent.push_back(event);
            if self.recent.len() > self.bounds.recent_max {
                self.recent.pop_front();
                self.before = Before::Others;
            }
        }
    }

    pub(crate) fn spent(&self) -> Spent {
        self.reader.projection.spent()
    }

    pub(crate) fn threads(&self) -> &[String] {
        &self.threads
    }

    /// The latest event of a type, among those that are remembered.
    pub(crate) fn latest(&self, kind: &str) -> Option<&WireEvent> {
        self.recent.iter().rfind(|event| event.kind == kind)
    }

    /// Returns a reader that goes on from here, and what came after a place until here.
    pub(crate) async fn since(&self, place: Place) -> Result<(Reader, Vec<WireEvent>), Error> {
        let all = usize::MAX - 1;
        let wanted =
            Wanted { limit: all, after: Some(place), types: Vec::new(), is_descending: false };
        Ok((self.reader.clone(), self.page(&wanted).await?.0))
    }

    /// Returns a reader that goes on from here.
    pub(crate) fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Returns a page, and where the next one starts.
    pub(crate) async fn page(
        &self,
        wanted: &Wanted,
    ) -> Result<(Vec<WireEvent>, Option<Place>), Error> {
        let mut chosen = Vec::new();
        match wanted.is_descending {
            true => self.descend(wanted, &mut chosen).await?,
            false => self.ascend(wanted, &mut chosen).await?,
        }
        let more = chosen.len() > wanted.limit;
        chosen.truncate(wanted.limit);
        let next = chosen.last().filter(|_| more).map(|last| last.place);
        Ok((chosen, next))
    }

    /// Whether all that comes after a place is remembered.
    fn remembers_after(&self, place: Option<Place>) -> bool {
        let first = self.recent.front().map(|first| first.place);
        self.before == Before::Nothing || place.is_some_and(|place| Some(place) >= first)
    }

    async fn ascend(&self, wanted: &Wanted, chosen: &mut Vec<WireEvent>) -> Result<(), Error> {
        if self.remembers_after(wanted.after) {
            wanted.choose(self.recent.iter().cloned(), chosen);
            return Ok(());
        }
        let after = wanted.after.unwrap_or_default();
        let first = self.marks.partition_point(|mark| mark.seq < after.seq).saturating_sub(1);
        for at in first..self.marks.len() {
            wanted.choose(self.between(at).await?.into_iter(), chosen);
            if chosen.len() > wanted.limit {
                break;
            }
        }
        Ok(())
    }

    async fn descend(&self, wanted: &Wanted, chosen: &mut Vec<WireEvent>) -> Result<(), Error> {
        wanted.choose(self.recent.iter().rev().cloned(), chosen);
        if self.before == Before::Nothing {
            return Ok(());
        }
        let remembered = self.recent.front().map(|first| first.place);
        for at in (0..self.marks.len()).rev() {
            if chosen.len() > wanted.limit {
                break;
            }
            let events = self.between(at).await?.into_iter().rev();
            let older = events.filter(|event| Some(event.place) < remembered);
            wanted.choose(older, chosen);
        }
        Ok(())
    }

    /// Folds what lies between a mark and the next, or the end.
    async fn between(&self, at: usize) -> Result<Vec<WireEvent>, Error> {
        let Some(mut reader) = self.marks.get(at).cloned() else { return Ok(Vec::new()) };
        let end = self.marks.get(at + 1).map_or(self.reader.seq, |next| next.seq);
        let mut events = Vec::new();
        while reader.seq < end {
            events.extend(reader.part(end).await?.0);
        }
        // What the last entries of a log lead to is told by what comes after them.
        if at + 1 == self.marks.len() {
            events.extend(reader.projection.settle());
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

    async fn all(pages: &Pages, wanted: &Wanted) -> Vec<WireEvent> {
        let (mut all, mut wanted) = (Vec::new(), wanted.clone());
        loop {
            let (page, next) = pages.page(&wanted).await.unwrap();
            assert!(page.len() <= wanted.limit);
            all.extend(page);
            let Some(next) = next else { return all };
            wanted.after = Some(next);
        }
    }

    #[tokio::test]
    async fn pages_are_those_of_the_whole_log_however_little_is_remembered() {
        let (node, session) = session(12).await;
        for _ in 0..12 {
            ask(&node, session).await;
        }
        let store = node.haft().store();
        let whole = Reader::new(store.clone(), session).news().await.unwrap();
        assert!(whole.len() > 40, "{}", whole.len());
        for (recent_max, mark_every) in [(5, 7), (1, 1), (20, 3), (1000, 1000)] {
            let mut pages = Pages::bounded(store, session, Bounds { recent_max, mark_every });
            pages.catch_up().await.unwrap();
            for (limit, is_descending) in
                [(1, false), (7, false), (100, false), (1, true), (9, true)]
            {
                let wanted = Wanted { limit, after: None, types: Vec::new(), is_descending };
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
            for (at, event) in whole.iter().enumerate() {
                let (_, since) = pages.since(event.place).await.unwrap();
                assert_eq!(since, whole[at + 1..], "{recent_max} {mark_every}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_read_while_it_happens_is_what_is_read_later() {
        let (node, session) = session(6).await;
        let store = node.haft().store();
        let mut pages = Pages::bounded(store, session, Bounds { recent_max: 3, mark_every: 2 });
        for _ in 0..6 {
            ask(&node, session).await;
            pages.catch_up().await.unwrap();
        }
        let wanted = Wanted { limit: 4, after: None, types: Vec::new(), is_descending: false };
        let whole = Reader::new(store.clone(), session).news().await.unwrap();
        assert_eq!(all(&pages, &wanted).await, whole);
        assert!(pages.recent.len() <= 3);
    }
}
