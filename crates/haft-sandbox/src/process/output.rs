//! What a command says: its beginning and its end in memory, all of it to the caller's sink.

use std::collections::VecDeque;
use std::io::Write;

/// How much of each stream stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Of its beginning, in bytes.
    pub head: usize,
    /// Of its end, in bytes.
    pub tail: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { head: 16 * 1024, tail: 48 * 1024 }
    }
}

/// Where all that a command says goes, both streams as they come.
pub struct Sink {
    to: Box<dyn Write + Send>,
    /// How much more it takes, in bytes.
    left: u64,
    state: SinkState,
}

/// How a sink fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkState {
    /// Everything went there.
    Whole,
    /// It took as much as it may.
    Full,
    /// It failed; what went there before stands.
    Failed,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink")
            .field("left", &self.left)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Sink {
    /// A sink that takes at most `limit` bytes.
    pub fn new(to: impl Write + Send + 'static, limit: u64) -> Self {
        Self { to: Box::new(to), left: limit, state: SinkState::Whole }
    }

    pub(crate) fn state(&self) -> SinkState {
        self.state
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.state != SinkState::Whole {
            return;
        }
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        let (fits, rest) = bytes.split_at(count);
        self.left -= count as u64;
        if self.to.write_all(fits).and_then(|()| self.to.flush()).is_err() {
            self.state = SinkState::Failed;
        } else if !rest.is_empty() {
            self.state = SinkState::Full;
        }
    }
}

/// The beginning and the end of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its beginning.
    pub head: Vec<u8>,
    /// How many bytes between the two were let go.
    pub omitted: u64,
    /// Its end; empty when all of it is in `head`.
    pub tail: Vec<u8>,
}

impl Said {
    /// All that was kept, as text, with a note where something is missing.
    pub fn text(&self) -> String {
        let (head, tail) =
            (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        match self.omitted {
            0 => String::from_utf8_lossy(&[self.head.as_slice(), self.tail.as_slice()].concat())
                .into_owned(),
            omitted => format!("{head}\n[… {omitted} bytes left out …]\n{tail}"),
        }
    }

    /// How much was said in all, in bytes.
    pub fn total(&self) -> u64 {
        self.head.len() as u64 + self.omitted + self.tail.len() as u64
    }
}

/// A stream as it comes.
#[derive(Debug)]
pub(crate) struct Stream {
    keep: Keep,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Stream {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep, head: Vec::new(), tail: VecDeque::new(), omitted: 0 }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let room = self.keep.head.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.keep.tail);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    pub(crate) fn said(&self) -> Said {
        Said {
            head: self.head.clone(),
            omitted: self.omitted,
            tail: self.tail.iter().copied().collect(),
        }
    }
}
