//! Sessions as the store knows them: loading, owning, listing.

use haft_core::journal::{Entry, Head, JournalError, replay};
use haft_core::session::{DecidedBy, State};
use haft_core::{Actor, CallId, ErrorClass, SessionId, Timestamp, json};

use crate::append::SNAPSHOT_FORMAT;
use crate::error::Error;
use crate::name::{NodeId, Tenant};
use crate::rows::{CallStage, SessionStatus};

/// After how many entries since the last one a driver should hand in another snapshot.
///
/// Loading reads at most about this many entries, whatever the length of the log; a snapshot is
/// about as large as five to ten entries and takes the place of the one before.
pub const SNAPSHOT_EVERY: u64 = 32;

/// For how long a dead node is remembered. To its sessions one that is not known is as dead; this
/// is for whoever looks at the table to find out what became of it.
pub(crate) const DEAD_REMEMBERED_MS: i64 = 86_400_000;

/// A session as loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Whose it is.
    pub tenant: Tenant,
    /// Where it stands.
    pub state: State,
    /// The end of its log.
    pub head: Head,
    /// How often it has changed hands.
    pub epoch: u64,
    /// The node that owns it, or owned it last without giving it back.
    pub owner: Option<NodeId>,
    /// How many entries were replayed; see [`SNAPSHOT_EVERY`].
    pub replayed: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last appended to.
    pub updated_at: Timestamp,
}

/// The right to append to a session, until someone takes it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// The node that owns it.
    pub node: NodeId,
    /// What [`crate::Fence::Owner`] takes.
    pub epoch: u64,
    /// The end of the log at the moment of taking over: whoever has read that far need not read
    /// the session again.
    pub head: Head,
}

/// Why a session was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// A node that is alive owns it.
    #[error("node `{owner}` owns the session and is alive")]
    Held {
        /// That node.
        owner: NodeId,
    },
    /// There is no such session.
    #[error("no such session")]
    UnknownSession,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Which sessions are wanted.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only those of one tenant.
    pub tenant: Option<Tenant>,
    /// Only those with this status.
    pub status: Option<SessionStatus>,
    /// Only those of one agent, by its id.
    pub agent: Option<String>,
    /// Only those that this session opened.
    pub parent: Option<SessionId>,
    /// Only those that this actor opened.
    pub opened_by: Option<Actor>,
}

/// A session in a list; the newest come first, as ids are ordered by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// Its id, which is also where the next page starts.
    pub session: SessionId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it is doing.
    pub status: SessionStatus,
    /// How many of its calls wait for someone.
    pub n_waiting: u64,
    /// The place of its last entry.
    pub head_seq: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last appended to.
    pub updated_at: Timestamp,
    /// Which agent's it is.
    pub agent: Option<String>,
    /// The session that opened it.
    pub parent: Option<SessionId>,
}

/// What is known about a call, also about one of an earlier turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// The name that was asked for; no tool's name if the call was refused for that.
    pub tool: String,
    /// Where it stands.
    pub stage: CallStage,
    /// The class of its error, if it ended in one.
    pub class: Option<ErrorClass>,
    /// The latest decision about it, so that a late resolver can be told who and when.
    pub decided: Option<DecidedBy>,
    /// When it last moved.
    pub updated_at: Timestamp,
}

/// A call, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCall {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: CallId,
    /// What is known about it.
    pub known: StoredCall,
}

/// What is wrong with a stored log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// There is no such session.
    #[error("no such session")]
    UnknownSession,
    /// An entry is missing, out of place, changed or unreadable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The log does not end where the session's row says, or not with what it says.
    #[error("the log ends with entry {found}, the session with entry {expected}")]
    Cut {
        /// Where the session's row says that it ends.
        expected: u64,
        /// Where it ends.
        found: u64,
    },
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What a backend read of a session, before anything is folded.
pub(crate) struct RawSession {
    pub(crate) tenant: Tenant,
    pub(crate) epoch: u64,
    pub(crate) owner: Option<NodeId>,
    /// Where the session's row says that the log ends, at least.
    pub(crate) head_seq: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) snapshot: Option<RawSnapshot>,
    /// The snapshot's own entry and all that follow; the whole log without a snapshot.
    pub(crate) entries: Vec<Entry>,
}

pub(crate) struct RawSnapshot {
    pub(crate) seq: u64,
    pub(crate) format: u32,
    pub(crate) body: String,
}

impl RawSnapshot {
    /// Reads the state, unless another version of Haft wrote it in a form of its own.
    pub(crate) fn state(&self) -> Option<State> {
        if self.format != SNAPSHOT_FORMAT {
            return None;
        }
        // The log is the truth: a snapshot that cannot be read only costs the longer way round.
        json::read_stored(self.body.as_bytes()).ok()
    }
}

impl RawSession {
    /// Folds snapshot and tail, checking the chain of what is read; `None` when the snapshot
    /// cannot be used and the whole log is needed.
    pub(crate) fn fold(self) -> Result<Option<Loaded>, Error> {
        let Self { tenant, epoch, owner, head_seq, created_at, updated_at, snapshot, entries } =
            self;
        let (state, mut head, tail) = match snapshot {
            None => (State::Unopened, Head::EMPTY, &entries[..]),
            Some(snapshot) => {
                let Some(state) = snapshot.state() else { return Ok(None) };
                let Some((base, tail)) = entries.split_first() else { return Ok(None) };
                if base.seq != snapshot.seq {
                    return Ok(None);
                }
                (state, Head { seq: base.seq, hash: base.hash }, tail)
            }
        };
        for entry in tail {
            head.verify(entry).map_err(Error::corrupt)?;
        }
        // Every append would be refused, and decided anew, without end.
        if head.seq < head_seq {
            let missing = format!("the log ends with entry {}, not with {head_seq}", head.seq);
            return Err(Error::corrupt(missing));
        }
        let state = replay(state, tail).map_err(Error::corrupt)?;
        let replayed = tail.len() as u64;
        let loaded = Loaded { tenant, state, head, epoch, owner, replayed, created_at, updated_at };
        Ok(Some(loaded))
    }
}
