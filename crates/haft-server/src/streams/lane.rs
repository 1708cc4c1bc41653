//! What is ready for one reader and not taken yet. It is apart from the stream that the reader
//! takes it from, because a stream whose reader takes nothing is not asked for anything.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use tokio::time::Instant;

use super::text::{EncodedEvent, Text};

/// How much is handed over at once: what lies in the buffers of a connection is a copy of its own,
/// so that it is not to be much.
const PIECE_LEN: usize = 16 * 1024;

/// One server-sent event.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    kind: Option<&'static str>,
    id: Option<String>,
    /// `None` for a comment, which keeps the connection open.
    data: Option<Arc<Text>>,
}

impl Frame {
    /// An event without a name.
    pub(crate) fn data(data: Arc<Text>) -> Self {
        Self { kind: None, id: None, data: Some(data) }
    }

    /// An event of a type.
    pub(crate) fn event(kind: &'static str, data: Arc<Text>) -> Self {
        Self { kind: Some(kind), id: None, data: Some(data) }
    }

    /// Gives it the id after which a client resumes.
    pub(crate) fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Nothing, so that the connection is not taken for dead.
    pub(crate) fn keep_alive() -> Self {
        Self { kind: None, id: None, data: None }
    }

    pub(crate) fn shown(shown: &EncodedEvent) -> Self {
        Self::event(shown.kind, Arc::clone(&shown.text)).with_id(shown.place.to_string())
    }

    /// What comes before the data, and what comes after it. The id of an event that may be cut off
    /// comes last: nobody resumes after an event that is not whole.
    fn around(&self, len: usize) -> (String, String) {
        let kind = self.kind.map_or(String::new(), |kind| format!("event: {kind}\n"));
        let id = self.id.as_ref().map_or(String::new(), |id| format!("id: {id}\n"));
        match len <= PIECE_LEN {
            true => (format!("{kind}{id}data: "), "\n\n".to_owned()),
            false => (format!("{kind}data: "), format!("\n{id}\n")),
        }
    }
}

/// What is ready for one reader.
#[derive(Debug)]
pub(super) struct Lane(Mutex<Ready>);

#[derive(Debug)]
struct Ready {
    frames: VecDeque<Frame>,
    /// How much of the first frame's data was taken; `None` before its head was.
    taken: Option<usize>,
    /// When something was last taken, or became ready where nothing was.
    since: Instant,
    /// The id of the last event that was taken whole.
    last_id: Option<String>,
    is_ended: bool,
}

/// What a stream is to do when its reader asks for more.
#[derive(Debug)]
pub(super) enum Next {
    Piece(Bytes),
    /// Nothing is ready.
    Nothing,
    /// The reader was too slow: what was ready is gone. It resumes after this event. Whether the
    /// last event that it was sent is not whole.
    Ended {
        after: Option<String>,
        is_cut: bool,
    },
}

impl Default for Lane {
    fn default() -> Self {
        Self(Mutex::new(Ready {
            frames: VecDeque::new(),
            taken: None,
            since: Instant::now(),
            last_id: None,
            is_ended: false,
        }))
    }
}

impl Lane {
    pub(super) fn put(&self, frames: Vec<Frame>) {
        let mut ready = self.lock();
        if ready.frames.is_empty() {
            ready.since = Instant::now();
        }
        ready.frames.extend(frames);
    }

    pub(super) fn take(&self) -> Next {
        let mut ready = self.lock();
        ready.since = Instant::now();
        if ready.is_ended {
            return Next::Ended { after: ready.last_id.take(), is_cut: ready.taken.is_some() };
        }
        match ready.piece() {
            Some(piece) => Next::Piece(piece),
            None => Next::Nothing,
        }
    }

    /// Returns since when the reader has taken nothing although something is ready.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        let ready = self.lock();
        (!ready.is_ended && !ready.frames.is_empty()).then_some(ready.since)
    }

    /// Lets go of what is ready; returns whether that was not done before.
    pub(super) fn end(&self) -> bool {
        let mut ready = self.lock();
        ready.frames = VecDeque::new();
        !std::mem::replace(&mut ready.is_ended, true)
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ready {
    fn piece(&mut self) -> Option<Bytes> {
        let frame = self.frames.front()?;
        let Some(data) = &frame.data else {
            self.frames.pop_front();
            return Some(Bytes::from_static(b":\n\n"));
        };
        let (head, end) = frame.around(data.len());
        let from = self.taken.unwrap_or(0);
        let to = data.len().min(from + PIECE_LEN);
        let mut piece = Vec::with_capacity(head.len() + (to - from) + end.len());
        if self.taken.is_none() {
            piece.extend_from_slice(head.as_bytes());
        }
        piece.extend_from_slice(data.bytes().get(from..to).unwrap_or_default());
        self.taken = Some(to);
        if to == data.len() {
            piece.extend_from_slice(end.as_bytes());
            self.taken = None;
            let frame = self.frames.pop_front();
            self.last_id = frame.and_then(|frame| frame.id).or_else(|| self.last_id.take());
        }
        Some(piece.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn text(text: &str) -> Arc<Text> {
        Arc::new(Text::new(text.as_bytes().to_vec(), &Arc::new(AtomicUsize::new(0))))
    }

    fn all(lane: &Lane) -> String {
        let mut all = Vec::new();
        while let Next::Piece(piece) = lane.take() {
            assert!(piece.len() <= PIECE_LEN + 80, "{}", piece.len());
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn frames_are_taken_whole_in_pieces_that_are_not_large() {
        let large = "x".repeat(3 * PIECE_LEN + 17);
        let lane = Lane::default();
        lane.put(vec![
            Frame::event("first", text("{}")).with_id("1.1"),
            Frame::keep_alive(),
            Frame::event("large", text(&large)).with_id("1.2"),
            Frame::data(text("")),
        ]);
        let expected = format!(
            "event: first\nid: 1.1\ndata: {{}}\n\n:\n\n\
             event: large\ndata: {large}\nid: 1.2\n\ndata: \n\n"
        );
        assert_eq!(all(&lane), expected);
    }

    #[test]
    fn a_lane_that_was_ended_holds_nothing_and_knows_where_its_reader_was() {
        let lane = Lane::default();
        let large = text(&"x".repeat(2 * PIECE_LEN));
        lane.put(vec![
            Frame::event("small", text("{}")).with_id("4.1"),
            Frame::event("large", Arc::clone(&large)).with_id("5.1"),
        ]);
        assert!(matches!(lane.take(), Next::Piece(_)));
        assert!(matches!(lane.take(), Next::Piece(_)));
        assert!(lane.stalled_since().is_some());
        assert!(lane.end() && !lane.end());
        assert_eq!(Arc::strong_count(&large), 1);
        assert!(lane.stalled_since().is_none());
        let Next::Ended { after, is_cut } = lane.take() else { panic!("it was ended") };
        assert_eq!((after.as_deref(), is_cut), (Some("4.1"), true));
    }
}
