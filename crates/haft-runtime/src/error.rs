//! Why an input did not get through.

use haft_core::session::Refusal;
use haft_store::{Error as StoreError, ErrorKind, NodeId};

use crate::request::RequestError;

/// Why an input did not get through to its session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InputError {
    /// The session says no. Nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no such session.
    #[error("no such session")]
    UnknownSession,
    /// Another node owns the session, and only the owner can do this.
    #[error("node `{node}` owns the session; ask there, or wait until it lets go")]
    OwnedElsewhere {
        /// The owner.
        node: NodeId,
    },
    /// This node has not been heard of for so long that another may own the session.
    #[error(
        "this node lost its lease; the input may be recorded, and the session goes on elsewhere"
    )]
    LeaseLapsed,
    /// Too much waits for this session already.
    #[error("the session has too much waiting; try again shortly")]
    Overloaded,
    /// What a tool did cannot be recorded at the moment, and comes first. Nothing has changed.
    #[error("the session waits for its store, and takes nothing meanwhile; try again shortly: {0}")]
    StoreAway(StoreError),
    /// This node is going away. Nothing has changed.
    #[error("this node is shutting down; ask another one, or try again shortly")]
    ShuttingDown,
    /// The store could not do it. Whether it took effect is not known for an input that was
    /// being appended; the same input may be sent again.
    #[error(transparent)]
    Store(StoreError),
    /// Another node works on the same request, and has recorded this part of it. Nothing has changed
    /// here.
    #[error("the same request is being worked on by another node; send it again shortly")]
    UnderWayElsewhere,
    /// The idempotency key was sent before, with another request.
    #[error("{0}")]
    Key(#[from] RequestError),
    /// No randomness for an id.
    #[error("the system gives no randomness: {0}")]
    NoRandomness(String),
}

impl From<StoreError> for InputError {
    fn from(error: StoreError) -> Self {
        match error.kind() {
            ErrorKind::Repeated => Self::UnderWayElsewhere,
            _ => Self::Store(error),
        }
    }
}

/// Why none of several inputs was recorded.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct BatchError {
    /// Which of them is to blame, counted from 0; `None` when it is none of them.
    pub at: Option<usize>,
    /// Why.
    pub error: InputError,
}

impl BatchError {
    pub(crate) fn new(at: usize, error: impl Into<InputError>) -> Self {
        Self { at: Some(at), error: error.into() }
    }
}

impl From<InputError> for BatchError {
    fn from(error: InputError) -> Self {
        Self { at: None, error }
    }
}
