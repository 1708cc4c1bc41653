//! Which clients are connected to which node, so that every node knows whether a call for a client
//! can still find one.

use haft_core::SessionId;

/// What a node says about the clients for one tool of a session that are connected to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientNote {
    /// The session.
    pub session: SessionId,
    /// The tool that they run.
    pub tool: String,
    /// Whether there are any.
    pub attendance: Attendance,
}

/// Whether a client is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// The last one has left.
    Gone,
    /// At least one is connected.
    Here,
}

/// For how long it is remembered that a client was there: far longer than anyone waits for one.
pub(crate) const REMEMBERED_MS: i64 = 3_600_000;
