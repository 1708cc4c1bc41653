//! The hands: whoever runs tools and asks models on behalf of the driver.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use haft_core::session::{Call, Config, Input, Open, ToolChange};
use haft_core::{Actor, SessionId};

use crate::attempt_timer::AttemptTimer;
use crate::cancellation::CancellationToken;

/// Runs tools and asks models. The registry of tools is one; a harness that counts effects in a
/// world of its own is another.
pub trait Performer: Send + Sync + 'static {
    /// Does one thing and returns what came of it, as the input that the session waits for.
    ///
    /// It must not block, and should stop when `job.stop` is cancelled. A panic, or a return of
    /// another kind of input, is reported as an end of which nobody knows whether the call took
    /// effect; it never ends the session.
    fn perform(&self, job: Job) -> impl Future<Output = Input> + Send;

    /// Returns how a call's tool has changed since the call was admitted, if it has. Asked about
    /// every open call when its session is revived, before anything of it goes on; hands whose
    /// tools never change need not say so.
    fn tool_change(&self, _open: &Open, _call: &Call) -> Option<ToolChange> {
        None
    }

    /// Returns whether a call changes nothing, reaches nowhere and looks at no session: whether it
    /// ran before or after it was recorded then makes no difference to anyone.
    fn leaves_no_trace(&self, _open: &Open, _call: &Call) -> bool {
        false
    }
}

/// One thing to do.
#[derive(Debug)]
pub struct Job {
    /// The session it is for.
    pub session: SessionId,
    /// Who opened the session.
    pub opened_by: Actor,
    /// How the session behaves.
    pub config: Arc<Config>,
    /// The session's turn.
    pub turn: u32,
    /// What to do.
    pub task: Task,
    /// Cancelled when it should stop.
    pub stop: CancellationToken,
    /// Measures the time that it may take, and can be paused while a person is waited for.
    pub timer: AttemptTimer,
    /// Says whether a tool's code has been entered, for whoever can tell.
    pub entry: Entry,
}

/// Whether the code of a call's tool has been entered, so that an attempt which ended before that
/// is known to have done nothing. Clones are one.
///
/// Whoever says nothing may have entered it.
#[derive(Debug, Clone, Default)]
pub struct Entry(Arc<AtomicU8>);

/// The code has not been entered.
const OUTSIDE: u8 = 1;
/// The code may have been entered.
const INSIDE: u8 = 2;
/// The code has not been entered and never will be.
const CLOSED: u8 = 3;

impl Entry {
    /// Says that the code has not been entered and will not be without [`Entry::enter`].
    pub fn stay_outside(&self) {
        self.0.store(OUTSIDE, Ordering::SeqCst);
    }

    /// Says that the code is about to be entered; returns whether it still may be.
    #[must_use]
    pub fn enter(&self) -> bool {
        let entered = |at: u8| (at != CLOSED).then_some(INSIDE);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, entered).is_ok()
    }

    /// Closes it for good if the code has not been entered, and returns whether that is so.
    pub(crate) fn close(&self) -> bool {
        let closed = |at: u8| matches!(at, OUTSIDE | CLOSED).then_some(CLOSED);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, closed).is_ok()
    }
}

/// What to do. Its event is durable; doing it is what follows.
#[derive(Debug)]
pub enum Task {
    /// Ask the model; return [`Input::ModelAnswered`] or [`Input::ModelFailed`].
    AskModel {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// The session as it stands.
        open: Box<Open>,
    },
    /// Find out what a call would do; return [`Input::Previewed`].
    Preview {
        /// The call.
        call: Box<Call>,
    },
    /// Run a call; return [`Input::AttemptEnded`]. The call's id is its idempotency key.
    Execute {
        /// The call, with the arguments that were permitted.
        call: Box<Call>,
        /// The attempt.
        attempt: u32,
        /// The state of the world that an approver was shown; if it is another one by now,
        /// report [`haft_core::session::AttemptReport::WorldMoved`] and do nothing.
        fingerprint: Option<haft_core::Digest>,
    },
    /// Find out what became of an attempt; return [`Input::Verified`].
    Verify {
        /// The call.
        call: Box<Call>,
        /// The attempt.
        attempt: u32,
    },
}
