//! Work that waits: suspensions in the inbox, what falls due, and sessions to look at.
//!
//! Work is claimed for a while and not taken away: a claim that its node does not finish lapses,
//! and another node finds the work again. Claims only save double work; what may happen once is
//! settled by the head of the log.

use std::fmt;
use std::str::FromStr;

use haft_core::session::SuspensionKind;
use haft_core::{Actor, CallId, SessionId, Timestamp};

use crate::error::Error;
use crate::name::Tenant;

/// What time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// This moment, for tests and replays.
    At(Timestamp),
    /// The store's own clock: the database's, so that nodes with different clocks agree; this
    /// machine's when the database is embedded.
    Clock,
}

/// Which suspensions are wanted.
#[derive(Debug, Clone, Default)]
pub struct PendingFilter {
    /// Only those of one tenant.
    pub tenant: Option<Tenant>,
    /// Only those of one session.
    pub session: Option<SessionId>,
    /// Only those that wait for this.
    pub kind: Option<SuspensionKind>,
    /// Only those in sessions that this actor opened.
    pub opened_by: Option<Actor>,
    /// Only those whose deadline is later than this.
    pub expires_after: Option<Timestamp>,
}

/// A call that waits for someone outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// Whose it is.
    pub tenant: Tenant,
    /// The tool.
    pub tool: String,
    /// Which wait of the call.
    pub round: u32,
    /// What is waited for.
    pub kind: SuspensionKind,
    /// When the wait ends by itself.
    pub expires_at: Timestamp,
    /// Since when it waits.
    pub since: Timestamp,
    /// The places in the session's log of the entries that tell of the call: its proposal, what
    /// changed about it, its waits and how they ended. Incomplete for calls that were proposed
    /// before Haft kept them.
    pub told: Vec<u64>,
    /// The place of the entry that says how the session behaves.
    pub config_seq: u64,
}

/// Where a page of the inbox ended. Calls in doubt come first, then the nearest deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingCursor {
    /// Whether the call is in doubt.
    pub in_doubt: bool,
    /// The deadline.
    pub expires_at: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
}

impl Pending {
    /// Returns where a page that ends with this one ends.
    pub const fn cursor(&self) -> PendingCursor {
        let in_doubt = matches!(self.kind, SuspensionKind::Settlement);
        let Self { expires_at, session, call, .. } = *self;
        PendingCursor { in_doubt, expires_at, session, call }
    }
}

impl PendingCursor {
    /// Returns the number by which the inbox is ordered first.
    pub(crate) fn rank(self) -> i16 {
        i16::from(!self.in_doubt)
    }
}

/// Written as the text that a caller gives back to go on with a list.
impl fmt::Display for PendingCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { in_doubt, expires_at, session, call } = self;
        write!(f, "{}.{}.{session}.{call}", u8::from(*in_doubt), expires_at.ms())
    }
}

impl FromStr for PendingCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let parse = || {
            let mut parts = text.split('.');
            let in_doubt = match parts.next()? {
                "0" => false,
                "1" => true,
                _ => return None,
            };
            let expires_at = Timestamp::from_ms(parts.next()?.parse().ok()?);
            let (session, call) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let cursor = Self { in_doubt, expires_at, session, call };
            parts.next().is_none().then_some(cursor)
        };
        parse().ok_or(CursorError)
    }
}

/// A text that names no place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected the cursor that came with an earlier page, found something else")]
pub struct CursorError;

/// Reads the list of places that a call's row has.
pub(crate) fn told(list: Option<&str>) -> Result<Vec<u64>, Error> {
    let places = list.into_iter().flat_map(|list| list.split(','));
    places.map(|place| place.parse().map_err(Error::corrupt)).collect()
}

/// A call for a client that has been away for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// The tool that a client would run.
    pub tool: String,
    /// Which wait of the call.
    pub round: u32,
    /// Since when nobody was there for it.
    pub since: Timestamp,
}

/// A look at calls that may have no client.
pub(crate) struct Looked {
    pub(crate) abandoned: Vec<Abandoned>,
    /// Whether as many were looked at as were asked for, so that there may be more.
    pub(crate) is_full: bool,
}

/// Where a page of abandoned calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbandonedCursor {
    /// Since when nobody was there.
    pub since: Timestamp,
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
}

impl Abandoned {
    /// Returns where a page that ends with this one ends.
    pub const fn cursor(&self) -> AbandonedCursor {
        AbandonedCursor { since: self.since, session: self.session, call: self.call }
    }
}

/// Something whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// What is due.
    pub work: DueWork,
    /// Since when.
    pub due_at: Timestamp,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DueWork {
    /// A wait has run out.
    Expiry {
        /// Which wait of the call.
        round: u32,
    },
    /// An attempt is to be made again.
    Retry,
}

/// A session to look at, because someone who does not own it appended to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The session.
    pub session: SessionId,
    /// The entry that caused it; what [`crate::Store::finish_wake`] takes, so that a later wake
    /// is not finished along with this one.
    pub seq: u64,
}
