//! What is told to others: who wants to hear of what, and what became of each telling.
//!
//! A delivery is written in the transaction of the event that it tells of, so that none is lost
//! and none tells of what did not happen. It is attempted by whoever has claimed it: the attempt
//! is counted by the claim, so that no two nodes make the same one.

use haft_core::{Actor, SessionId, Timestamp};

use crate::error::Error;
use crate::name::Tenant;

/// What can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// A call waits to be approved.
    CallWaitingApproval,
    /// A call waits for an answer.
    CallWaitingElicitation,
    /// A call waits for a client to run it.
    CallWaitingClientExec,
    /// Nobody knows whether a call took effect; a person has to say.
    CallInDoubt,
    /// A wait was ended by someone.
    CallResolved,
    /// A call has its outcome.
    CallFinished,
    /// A session has done what it was asked for, or could not go on.
    SessionIdle,
    /// A session is over.
    SessionEnded,
}

impl NoticeKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::CallWaitingApproval,
        Self::CallWaitingElicitation,
        Self::CallWaitingClientExec,
        Self::CallInDoubt,
        Self::CallResolved,
        Self::CallFinished,
        Self::SessionIdle,
        Self::SessionEnded,
    ];

    /// Returns the word for it, outside as well.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallWaitingApproval => "call.waiting.approval",
            Self::CallWaitingElicitation => "call.waiting.elicitation",
            Self::CallWaitingClientExec => "call.waiting.client_exec",
            Self::CallInDoubt => "call.in_doubt",
            Self::CallResolved => "call.resolved",
            Self::CallFinished => "call.finished",
            Self::SessionIdle => "session.idle",
            Self::SessionEnded => "session.ended",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }

    pub(crate) fn stored(word: &str) -> Result<Self, Error> {
        Self::parse(word).ok_or_else(|| Error::corrupt("a notice's kind is not a known word"))
    }
}

/// Someone who wants to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: String,
    /// Whose sessions.
    pub tenant: Tenant,
    /// Where to.
    pub url: String,
    /// Of what.
    pub kinds: Vec<NoticeKind>,
    /// The secret that signs, as only the node's key opens it.
    pub sealed: Vec<u8>,
    /// Who wanted it.
    pub by: Actor,
    /// Since when.
    pub at: Timestamp,
}

/// A delivery that whoever holds it may attempt once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedDelivery {
    /// What [`crate::Store::settle_delivery`] takes.
    pub claim: DeliveryClaim,
    /// To whom.
    pub webhook: String,
    /// Whose session.
    pub tenant: Tenant,
    /// Where to.
    pub url: String,
    /// The secret that signs, sealed.
    pub sealed: Vec<u8>,
    /// Of which session.
    pub session: SessionId,
    /// Which entry of its log.
    pub seq: u64,
    /// What is told.
    pub kind: NoticeKind,
    /// When it happened.
    pub at: Timestamp,
}

/// Which attempt of which delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryClaim {
    pub(crate) key: i64,
    /// Which attempt, from 1.
    pub attempt: u32,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    /// What follows from it.
    pub next: NextAttempt,
    /// What the receiver said, if it said anything.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What follows from an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextAttempt {
    /// Nothing: it was taken.
    Delivered,
    /// Nothing: it is given up.
    GivenUp,
    /// Another attempt.
    At(Timestamp),
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// It was taken.
    Delivered,
    /// It is given up.
    GivenUp,
    /// It is tried, or will be.
    Pending,
}

impl DeliveryState {
    /// Returns the stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::GivenUp => "given_up",
            Self::Pending => "pending",
        }
    }

    pub(crate) fn stored(word: &str) -> Result<Self, Error> {
        let known = [Self::Delivered, Self::GivenUp, Self::Pending];
        let found = known.into_iter().find(|known| known.as_str() == word);
        found.ok_or_else(|| Error::corrupt("a delivery's state is not a known word"))
    }
}

impl NextAttempt {
    pub(crate) const fn state(self) -> DeliveryState {
        match self {
            Self::Delivered => DeliveryState::Delivered,
            Self::GivenUp => DeliveryState::GivenUp,
            Self::At(_) => DeliveryState::Pending,
        }
    }

    pub(crate) const fn due(self) -> Option<i64> {
        match self {
            Self::Delivered | Self::GivenUp => None,
            Self::At(at) => Some(at.ms()),
        }
    }
}

/// A delivery as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// Where a page that ends with this one ends.
    pub cursor: u64,
    /// Of which session.
    pub session: SessionId,
    /// Which entry of its log.
    pub seq: u64,
    /// What is told.
    pub kind: NoticeKind,
    /// When it happened.
    pub at: Timestamp,
    /// How it stands.
    pub state: DeliveryState,
    /// How many attempts have begun.
    pub attempts: u32,
    /// When the latest one ended.
    pub attempted_at: Option<Timestamp>,
    /// When the next one is due.
    pub due_at: Option<Timestamp>,
    /// What the receiver said last.
    pub status: Option<u16>,
    /// What went wrong last.
    pub error: Option<String>,
}

/// How many deliveries to one receiver are under way at once, so that a slow one holds nobody up.
pub(crate) const PER_WEBHOOK: u32 = 4;
