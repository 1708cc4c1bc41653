//! One event as the outside sees it, and where it stands.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// Where an event stands among those of its session: the log's entry, and which of the events
/// that the entry leads to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The entry's place in the log.
    pub seq: u64,
    /// Which of its events, from 1.
    pub nth: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.nth)
    }
}

/// A text that is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a place such as `12.1`, found {found:?}")]
pub struct PlaceError {
    found: String,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let place = text
            .split_once('.')
            .and_then(|(seq, nth)| Some(Self { seq: seq.parse().ok()?, nth: nth.parse().ok()? }));
        place.ok_or_else(|| PlaceError { found: text.chars().take(40).collect() })
    }
}

/// An event as the outside sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct WireEvent {
    /// Where it stands.
    pub place: Place,
    /// Its type, such as `agent.message`.
    pub kind: &'static str,
    /// Its id, the same whenever the log is read.
    pub id: String,
    /// All of it.
    pub body: Map<String, Value>,
}
