//! The journal: events as stored, each chained by hash to the one before.
//!
//! The hash covers the stored bytes, so whoever has the entries can verify them without knowing
//! what the events mean, and an entry that was changed, left out or moved is found.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::SessionId;
use crate::json;
use crate::session::{Corrupt, Event, State, evolve};
use crate::time::Timestamp;

/// The version of the stored form that this code writes.
pub const FORMAT: u32 = 1;

/// One stored event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the stored form.
    pub format: u32,
    /// The session.
    pub session: SessionId,
    /// Its place in the session's log, from 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The hash of this entry: of everything above, the body, and the hash of the one before.
    pub hash: Digest,
    /// The event, as JSON text.
    pub body: String,
}

/// The end of a log: what the next entry is chained to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The last entry's place; 0 for an empty log.
    pub seq: u64,
    /// The last entry's hash.
    pub hash: Digest,
}

impl Head {
    /// The head of an empty log.
    pub const EMPTY: Self = Self { seq: 0, hash: Digest::ZERO };

    /// Makes the entry that follows.
    ///
    /// # Errors
    ///
    /// When the event cannot be written as JSON.
    pub fn append(
        &mut self,
        session: SessionId,
        at: Timestamp,
        event: &Event,
    ) -> Result<Entry, JournalError> {
        let unwritable =
            |message: String| JournalError::Unwritable { event: event.name(), message };
        let mut body = Vec::with_capacity(BODY_LEN_USUAL);
        serde_json::to_writer(&mut body, event).map_err(|error| unwritable(error.to_string()))?;
        let body = String::from_utf8(body).map_err(|error| unwritable(error.to_string()))?;
        if openings(&body) > NESTING_MAX && nesting(&body) > NESTING_MAX {
            return Err(unwritable(format!("expected at most {NESTING_MAX} levels of nesting")));
        }
        let seq = self.seq + 1;
        let hash = chain(self.hash, FORMAT, session, seq, at, &body);
        *self = Self { seq, hash };
        Ok(Entry { format: FORMAT, session, seq, at, hash, body })
    }

    /// Checks that an entry follows, and moves on to it.
    ///
    /// # Errors
    ///
    /// When an entry is missing, out of place or changed.
    pub fn verify(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let expected = self.seq + 1;
        if entry.seq != expected {
            return Err(JournalError::OutOfPlace { expected, found: entry.seq });
        }
        let hash = chain(self.hash, entry.format, entry.session, entry.seq, entry.at, &entry.body);
        if hash != entry.hash {
            return Err(JournalError::Changed { seq: entry.seq });
        }
        *self = Self { seq: entry.seq, hash };
        Ok(())
    }
}

/// Most events fit, so that their text is not moved while it is written.
const BODY_LEN_USUAL: usize = 768;

/// What readers of JSON take without complaint; an entry beyond it could never be read back.
const NESTING_MAX: usize = 120;

/// Returns how many brackets are opened in a JSON text at most: it is not nested more deeply, and
/// counting them is cheap.
fn openings(body: &str) -> usize {
    body.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count()
}

/// Returns how deeply a JSON text is nested.
fn nesting(body: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0usize, false, false);
    for byte in body.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn chain(
    previous: Digest,
    format: u32,
    session: SessionId,
    seq: u64,
    at: Timestamp,
    body: &str,
) -> Digest {
    Digest::of_parts(&[
        previous.as_bytes(),
        &format.to_be_bytes(),
        &session.bits().to_be_bytes(),
        &seq.to_be_bytes(),
        &at.ms().to_be_bytes(),
        body.as_bytes(),
    ])
}

impl Entry {
    /// Reads the event.
    ///
    /// # Errors
    ///
    /// When the entry was written by a newer Haft, or its body is not an event.
    pub fn event(&self) -> Result<Event, JournalError> {
        if self.format > FORMAT {
            return Err(JournalError::Newer { seq: self.seq, found: self.format });
        }
        json::read_stored(self.body.as_bytes())
            .map_err(|error| JournalError::Unreadable { seq: self.seq, message: error.to_string() })
    }
}

/// Folds entries into the state that they lead to.
///
/// # Errors
///
/// When an entry cannot be read or cannot follow.
pub fn replay<'a>(
    state: State,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<State, JournalError> {
    let mut session = None;
    entries.into_iter().try_fold(state, |state, entry| {
        if *session.get_or_insert(entry.session) != entry.session {
            return Err(JournalError::OtherSession { seq: entry.seq, found: entry.session });
        }
        let corrupt = |source| JournalError::Corrupt { seq: entry.seq, source };
        evolve(state, entry.at, &entry.event()?).map_err(corrupt)
    })
}

/// What is wrong with a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// An entry is missing, or stands in another place.
    #[error("expected entry {expected}, found entry {found}: one is missing or out of place")]
    OutOfPlace {
        /// The place that comes next.
        expected: u64,
        /// The place that was found.
        found: u64,
    },
    /// An entry, or the one before it, is not what was written.
    #[error("entry {seq} does not match its hash: it or the one before it was changed")]
    Changed {
        /// The entry.
        seq: u64,
    },
    /// An entry belongs to another session.
    #[error("entry {seq} belongs to session `{found}`, not to the one before it")]
    OtherSession {
        /// The entry.
        seq: u64,
        /// Its session.
        found: SessionId,
    },
    /// An entry was written by a newer Haft.
    #[error("entry {seq} has format {found}, newer than {FORMAT}; use a newer haft")]
    Newer {
        /// The entry.
        seq: u64,
        /// Its format.
        found: u32,
    },
    /// An entry's body is not an event.
    #[error("entry {seq} is not an event: {message}")]
    Unreadable {
        /// The entry.
        seq: u64,
        /// What the reader says.
        message: String,
    },
    /// An event cannot be written.
    #[error("event `{event}` cannot be written: {message}")]
    Unwritable {
        /// The event.
        event: &'static str,
        /// What the writer says.
        message: String,
    },
    /// An entry cannot follow those before it.
    #[error("entry {seq}: {source}")]
    Corrupt {
        /// The entry.
        seq: u64,
        /// Why.
        source: Corrupt,
    },
}
