//! Work that waits: suspensions in the inbox, what falls due, and sessions to look at.
//!
//! Work is claimed for a while and not taken away: a claim that its node does not finish lapses,
//! and another node finds the work again. Claims only save double work; what may happen once is
//! settled by the head of the log.

use haft_core::session::SuspensionKind;
use haft_core::{CallId, SessionId, Timestamp};

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
}

/// Where a page of the inbox ended. The inbox is ordered by deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingCursor {
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
        PendingCursor { expires_at: self.expires_at, session: self.session, call: self.call }
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
