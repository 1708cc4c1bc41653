//! Appending: the transition's events and everything derived from them, in one transaction.
//!
//! The store makes the entries from the events itself, so that log, rows and hashes cannot
//! disagree. Both databases come to their verdict by [`Prepared::verdict`], over what they read
//! under the lock of the session's row (PostgreSQL) or in the only writer (SQLite).

use haft_core::journal::{Entry, FORMAT, Head};
use haft_core::session::{Event, State};
use haft_core::{Millis, SessionId, Timestamp};

use crate::error::{Error, ErrorKind};
use crate::name::{NodeId, Tenant};
use crate::rows::{CallChange, Notice, Rows};
use crate::work::Moment;

/// Events to append to a session, decided upon what the log said up to `expected`.
#[derive(Debug, Clone)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// Who may append.
    pub fence: Fence,
    /// The end of the log that the events were decided upon.
    pub expected: Head,
    /// When the events happened.
    pub at: Timestamp,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The state after the events, to be kept as the point from which revival starts.
    pub snapshot: Option<Box<State>>,
    /// Who looks after the session when it was not its owner who appended.
    pub followed_by: FollowedBy,
}

/// Who looks after a session once something was appended without its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowedBy {
    /// Whoever claims the wake.
    Anyone,
    /// Whoever appends, at once: the wake is as good as claimed for `hold`, and nobody is told
    /// of it. If nothing comes of it by then, it is found like any other.
    Appender {
        /// The moment.
        now: Moment,
        /// For how long.
        hold: Millis,
    },
}

/// Who may append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Any node: a resolution, an expiry or a message needs no owner. A wake is written along with
    /// it, always; whether the session can go on is for its owner to decide.
    Anyone,
    /// Only the owner, as long as nobody has taken the session over.
    Owner {
        /// What [`crate::Lease`] says.
        epoch: u64,
    },
}

/// Why events were not appended. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another node owns the session; whoever held it must stop at once.
    #[error("another node took the session over: its epoch is {current}")]
    Fenced {
        /// The session's epoch.
        current: u64,
    },
    /// Someone else appended first: load again and decide again.
    #[error("someone else appended first: the log ends with entry {}", current.seq)]
    HeadMoved {
        /// Where the log ends.
        current: Head,
    },
    /// There is no such session.
    #[error("no such session")]
    UnknownSession,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// A session to create, along with its first events.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Its id.
    pub session: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// When.
    pub at: Timestamp,
    /// Its first events.
    pub events: Vec<Event>,
    /// The node that owns it from the start.
    pub owner: Option<NodeId>,
}

/// A created session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The end of its log.
    pub head: Head,
    /// The epoch under which its owner appends; 0 without an owner.
    pub epoch: u64,
}

/// Why a session was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is one with this id.
    #[error("the session exists already")]
    Exists,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The version of the stored form of a snapshot; one of another version is left aside.
pub(crate) const SNAPSHOT_FORMAT: u32 = 1;

/// An append with everything worked out that does not need the database.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) session: SessionId,
    /// What makes it the first of a session that does not exist yet.
    pub(crate) opening: Option<Opening>,
    pub(crate) fence: Fence,
    pub(crate) expected: Head,
    pub(crate) at: Timestamp,
    pub(crate) entries: Vec<Entry>,
    pub(crate) head: Head,
    pub(crate) rows: Rows,
    pub(crate) snapshot: Option<String>,
    pub(crate) followed_by: FollowedBy,
}

#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) tenant: Tenant,
    pub(crate) owner: Option<NodeId>,
}

impl Opening {
    pub(crate) fn epoch(&self) -> u64 {
        u64::from(self.owner.is_some())
    }
}

/// What the database says about the session that is appended to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) epoch: u64,
    pub(crate) head: Head,
}

impl Prepared {
    pub(crate) fn append(append: &Append) -> Result<Self, Error> {
        let Append { session, fence, expected, at, events, snapshot, followed_by } = append;
        let mut head = *expected;
        let entries = entries(*session, &mut head, *at, events)?;
        let snapshot = snapshot.as_deref().map(serde_json::to_string).transpose();
        let snapshot = snapshot.map_err(|error| unwritable("the snapshot", &error))?;
        Ok(Self {
            session: *session,
            opening: None,
            fence: *fence,
            expected: *expected,
            at: *at,
            entries,
            head,
            rows: Rows::of(*at, events),
            snapshot,
            followed_by: *followed_by,
        })
    }

    pub(crate) fn create(new: &NewSession) -> Result<Self, Error> {
        let mut head = Head::EMPTY;
        let entries = entries(new.session, &mut head, new.at, &new.events)?;
        let opening = Opening { tenant: new.tenant.clone(), owner: new.owner.clone() };
        Ok(Self {
            session: new.session,
            fence: Fence::Owner { epoch: opening.epoch() },
            opening: Some(opening),
            expected: Head::EMPTY,
            at: new.at,
            entries,
            head,
            rows: Rows::of(new.at, &new.events),
            snapshot: None,
            followed_by: FollowedBy::Anyone,
        })
    }

    /// Says whether the append may go through. The epoch comes first: whoever is fenced must stop
    /// and not load again.
    pub(crate) fn verdict(&self, found: Option<Found>) -> Result<(), AppendError> {
        let found = found.ok_or(AppendError::UnknownSession)?;
        match self.fence {
            Fence::Owner { epoch } if epoch != found.epoch => {
                Err(AppendError::Fenced { current: found.epoch })
            }
            Fence::Owner { .. } | Fence::Anyone if self.expected != found.head => {
                Err(AppendError::HeadMoved { current: found.head })
            }
            Fence::Owner { .. } | Fence::Anyone => Ok(()),
        }
    }

    /// The place in the log of what a notice tells.
    pub(crate) fn seq_of(&self, notice: &Notice) -> u64 {
        self.expected.seq + 1 + notice.offset
    }

    /// The places in the log of what is told of a call, as its row has them.
    pub(crate) fn told(&self, change: &CallChange) -> Option<String> {
        let seq = |offset: &u64| (self.expected.seq + 1 + offset).to_string();
        let told: Vec<String> = change.told_offsets.iter().map(seq).collect();
        (!told.is_empty()).then(|| told.join(","))
    }

    /// The place in the log of what says how the session behaves from here on.
    pub(crate) fn config_seq(&self) -> Option<u64> {
        self.rows.config_offset.map(|offset| self.expected.seq + 1 + offset)
    }

    /// Whether a wake is left for whoever looks after the session.
    pub(crate) fn wakes(&self) -> bool {
        self.fence == Fence::Anyone && !self.entries.is_empty()
    }

    /// Whether anyone is to be told of that wake.
    pub(crate) fn hints(&self) -> bool {
        self.wakes() && self.followed_by == FollowedBy::Anyone
    }
}

fn entries(
    session: SessionId,
    head: &mut Head,
    at: Timestamp,
    events: &[Event],
) -> Result<Vec<Entry>, Error> {
    events
        .iter()
        .map(|event| head.append(session, at, event))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
}

fn unwritable(what: &str, error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("{what} cannot be written as JSON: {error}"))
}

const _: () = assert!(FORMAT <= i32::MAX as u32, "the format is kept as a 32-bit number");
