//! The effects: what the driver does once the events are durable, and what it answers.

use super::event::Event;
use super::state::State;
use crate::digest::Digest;
use crate::id::{CallId, SessionId};
use crate::time::Timestamp;

/// What comes of an input.
#[derive(Debug, Clone)]
pub struct Decision {
    /// What to append, in one transaction. Empty when the input changes nothing.
    pub events: Vec<Event>,
    /// What to answer, once the events are durable.
    pub reply: Reply,
    /// What to do, once the events are durable and the answer is sent.
    pub effects: Vec<Effect>,
    /// The state that the events lead to.
    pub state: State,
}

/// What the driver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask the model.
    RunModel {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
    },
    /// Stop asking the model.
    AbortModel {
        /// The turn.
        turn: u32,
    },
    /// Find out what a call would do.
    Preview {
        /// The call.
        call: CallId,
    },
    /// Wait until each pool of a call's tool has room, and report [`super::SlotTaken`]. Whoever
    /// does it stops waiting when the call is not queued any more.
    Queue {
        /// The call.
        call: CallId,
    },
    /// Run a call. The call's id is the key for whoever recognises keys.
    Execute {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
        /// The digest of the arguments that may run, to be checked once more.
        digest: Digest,
        /// The state of the world that the approver was shown, to be checked once more.
        fingerprint: Option<Digest>,
    },
    /// Ask whatever is done for a call to stop. A running attempt reports when it has, or that it
    /// would not; nobody waits for a preview or a verification any more.
    Cancel {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// Ask the tool's verify hook what became of an attempt.
    Verify {
        /// The call.
        call: CallId,
        /// The attempt.
        attempt: u32,
    },
    /// Open the child that does a call's work, unless it exists.
    OpenChild {
        /// The call.
        call: CallId,
    },
    /// Stop a child that nobody waits for, and report [`super::ChildStopped`].
    StopChild {
        /// The child.
        child: SessionId,
    },
    /// Tell the parent what came of the run that a turn ended, and report
    /// [`super::ParentTold`].
    TellParent {
        /// The turn.
        turn: u32,
    },
    /// Tell the session at the top where this one stands, and report [`super::Input::RootTold`].
    ReportUp {
        /// The session at the top.
        root: SessionId,
    },
    /// Come back with [`super::RetryDue`] at the time; the store keeps the timer too.
    ScheduleRetry {
        /// The call.
        call: CallId,
        /// When.
        due: Timestamp,
    },
}

/// What is answered to whoever caused an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is recorded.
    Accepted,
    /// The very same resolution had been recorded before.
    AlreadyRecorded,
    /// The yes is recorded, and the call waits for that of another person.
    Endorsed,
    /// The message waits for the next turn.
    Queued,
}
