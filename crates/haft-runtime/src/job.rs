//! Running one job: its time limit, its panics, and what is reported when it does not end.

use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{
    AttemptEnded, AttemptReport, Input, ModelFailed, Preview, Previewed, Returned, Verification,
    Verified,
};
use haft_core::{CallId, CallResult, Digest, ErrorClass, Failure, SessionId};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::attempt_timer::AttemptTimer;
use crate::cancellation::CancellationToken;
use crate::performer::{Job, Performer, Task};
use crate::pools::Slot;

/// What a job is known by within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum JobKey {
    Model {
        turn: u32,
        attempt: u32,
    },
    Preview {
        call: CallId,
    },
    /// A call that waits for room in its pools.
    Queue {
        call: CallId,
    },
    Execute {
        call: CallId,
        attempt: u32,
    },
    Verify {
        call: CallId,
        attempt: u32,
    },
    /// An errand to a child.
    Child {
        child: SessionId,
    },
    /// An errand to the parent.
    Parent,
    /// An errand to the session at the top.
    Root,
}

impl JobKey {
    /// Returns the call that the job is for.
    pub(crate) fn call(self) -> Option<CallId> {
        match self {
            Self::Model { .. } | Self::Child { .. } | Self::Parent | Self::Root => None,
            Self::Preview { call }
            | Self::Queue { call }
            | Self::Execute { call, .. }
            | Self::Verify { call, .. } => Some(call),
        }
    }
}

/// A job that ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) key: JobKey,
    /// Which of the jobs with this key.
    pub(crate) number: u64,
    pub(crate) input: Box<Input>,
    /// Whether it had been asked to stop.
    pub(crate) stopped: bool,
}

impl Done {
    /// Returns whether it says what became of something. A job that failed after it was asked to
    /// stop may have done anything.
    pub(crate) fn is_known(&self) -> bool {
        !self.stopped || is_success(&self.input)
    }
}

impl Task {
    pub(crate) fn key(&self) -> JobKey {
        match self {
            Self::AskModel { turn, attempt, .. } => {
                JobKey::Model { turn: *turn, attempt: *attempt }
            }
            Self::Preview { call } => JobKey::Preview { call: call.id },
            Self::Execute { call, attempt, .. } => {
                JobKey::Execute { call: call.id, attempt: *attempt }
            }
            Self::Verify { call, attempt } => JobKey::Verify { call: call.id, attempt: *attempt },
        }
    }

    /// What a tool's code does is bounded by the tool's own clock; a model's is its client's
    /// affair.
    fn time_limit(&self) -> Option<Duration> {
        match self {
            Self::Execute { call, .. } | Self::Preview { call } | Self::Verify { call, .. } => {
                Some(call.contract.exec_timeout.into())
            }
            Self::AskModel { .. } => None,
        }
    }
}

/// A job under way, in a task of its own: panics end there, and nothing else catches any.
pub(crate) struct Work {
    key: JobKey,
    limit: Option<Duration>,
    stop: CancellationToken,
    timer: AttemptTimer,
    task: JoinHandle<Input>,
}

impl Work {
    /// Begins a job; what it does is told within the span. It keeps its places in pools until its
    /// code has ended, also if nobody waits for that any more.
    pub(crate) fn begin<P: Performer>(
        performer: Arc<P>,
        job: Job,
        slot: Option<Slot>,
        within: Span,
    ) -> Self {
        let (key, limit, stop) = (job.task.key(), job.task.time_limit(), job.stop.clone());
        let timer = job.timer.clone();
        let task = async move {
            let _slot = slot;
            performer.perform(job).await
        };
        Self { key, limit, stop, timer, task: tokio::spawn(task.instrument(within)) }
    }

    pub(crate) fn key(&self) -> JobKey {
        self.key
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the input that its session waits for, if there is one by then.
    pub(crate) async fn ended_by(&mut self, until: Instant) -> Option<Input> {
        let joined = tokio::time::timeout_at(until, &mut self.task).await.ok()?;
        Some(reported(joined, self.key))
    }

    /// Returns the input that its session waits for, whatever happens.
    pub(crate) async fn ended(mut self, grace: Duration) -> Input {
        let (key, task) = (self.key, &mut self.task);
        let overrun = tokio::select! {
            joined = &mut *task => return reported(joined, key),
            () = elapsed(self.limit, &self.timer) => Overrun::OutOfTime,
            () = stopped_for(&self.stop, grace) => Overrun::WouldNotStop,
        };
        match overrun {
            Overrun::OutOfTime => {
                self.stop.cancel();
                match tokio::time::timeout(grace, task).await {
                    // It was done after all: what a tool did is told as it was.
                    Ok(Ok(input)) if answers(&input, key) && is_success(&input) => input,
                    Ok(_) => failed(key, ErrorClass::Timeout, "it ran out of time and was stopped"),
                    Err(_) => {
                        let message =
                            "it ran out of time and could not be stopped; it may still be running";
                        failed(key, ErrorClass::Timeout, message)
                    }
                }
            }
            Overrun::WouldNotStop => {
                let message = "[cancelled] it could not be stopped; it may still be running";
                failed(key, ErrorClass::Cancelled, message)
            }
        }
    }
}

/// Why a job is no longer waited for.
enum Overrun {
    OutOfTime,
    WouldNotStop,
}

fn reported(joined: Result<Input, JoinError>, key: JobKey) -> Input {
    match joined {
        Ok(input) if answers(&input, key) => input,
        Ok(_) => failed(key, ErrorClass::Internal, "the tool's host gave no answer to this"),
        Err(error) if error.is_panic() => failed(key, ErrorClass::Internal, "the tool panicked"),
        Err(_) => failed(key, ErrorClass::Cancelled, "[cancelled]"),
    }
}

async fn elapsed(limit: Option<Duration>, timer: &AttemptTimer) {
    match limit {
        Some(limit) => timer.elapsed(limit).await,
        None => std::future::pending().await,
    }
}

async fn stopped_for(stop: &CancellationToken, grace: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(grace).await;
}

/// Returns whether an input is the answer to a job; anything else would go to another call.
fn answers(input: &Input, key: JobKey) -> bool {
    match (input, key) {
        (Input::ModelAnswered(answer), JobKey::Model { turn, attempt }) => {
            (answer.turn, answer.attempt) == (turn, attempt)
        }
        (Input::ModelFailed(failed), JobKey::Model { turn, attempt }) => {
            (failed.turn, failed.attempt) == (turn, attempt)
        }
        (Input::ContextSummarised(summarised), JobKey::Model { turn, attempt }) => {
            (summarised.turn, summarised.attempt) == (turn, attempt)
        }
        (Input::Previewed(previewed), JobKey::Preview { call }) => previewed.call == call,
        (Input::AttemptEnded(ended), JobKey::Execute { call, attempt }) => {
            (ended.call, ended.attempt) == (call, attempt)
        }
        (Input::Verified(verified), JobKey::Verify { call, attempt }) => {
            (verified.call, verified.attempt) == (call, attempt)
        }
        _ => false,
    }
}

fn is_success(input: &Input) -> bool {
    match input {
        Input::AttemptEnded(ended) => match &ended.report {
            AttemptReport::Returned(returned) => matches!(returned.result, CallResult::Ok(_)),
            AttemptReport::WorldMoved { .. } | AttemptReport::Delegated(_) => true,
        },
        Input::ModelAnswered(_) | Input::ContextSummarised(_) => true,
        Input::Previewed(previewed) => previewed.preview.trouble.is_none(),
        Input::Verified(verified) => !matches!(verified.verdict, Verification::Unknown),
        _ => false,
    }
}

fn failed(key: JobKey, class: ErrorClass, message: &str) -> Input {
    let failure = Failure::new(class, message);
    match key {
        JobKey::Model { turn, attempt } => {
            Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off: false })
        }
        JobKey::Preview { call } => {
            let trouble = Some(message.to_owned());
            let preview =
                Preview { fingerprint: Digest::ZERO, targets: Vec::new(), diff: None, trouble };
            Input::Previewed(Previewed { call, preview })
        }
        JobKey::Execute { call, attempt } => {
            let report = AttemptReport::Returned(Returned::from(CallResult::Err(failure)));
            Input::AttemptEnded(AttemptEnded { call, attempt, report })
        }
        JobKey::Verify { call, attempt } => {
            Input::Verified(Verified { call, attempt, verdict: Verification::Unknown })
        }
        // An errand that was cut short is run again by whoever looks next.
        JobKey::Queue { .. } | JobKey::Child { .. } | JobKey::Parent | JobKey::Root => Input::Woken,
    }
}
