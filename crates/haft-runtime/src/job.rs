//! Running one job: its time limit, its panics, and what is reported when it does not end.

use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{
    AttemptEnded, AttemptReport, EffectUnknown, Input, ModelFailed, Preview, Previewed, Returned,
    Verification, Verified,
};
use haft_core::{CallId, CallResult, Digest, ErrorClass, Failure, SessionId};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::attempt_timer::AttemptTimer;
use crate::cancellation::CancellationToken;
use crate::performer::{Entry, Job, Performer, Task};
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
    entry: Entry,
    /// None once its end is known.
    task: Option<JoinHandle<Input>>,
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
        let (key, limit) = (job.task.key(), job.task.time_limit());
        let (stop, timer, entry) = (job.stop.clone(), job.timer.clone(), job.entry.clone());
        let task = async move {
            let _slot = slot;
            performer.perform(job).await
        };
        let task = Some(tokio::spawn(task.instrument(within)));
        Self { key, limit, stop, timer, entry, task }
    }

    pub(crate) fn key(&self) -> JobKey {
        self.key
    }

    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Ends the task at its next wait, whether it wants to stop or not; nobody hears of it.
    pub(crate) fn abort(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Returns the input that its session waits for, if there is one by then.
    pub(crate) async fn ended_by(&mut self, until: Instant) -> Option<Input> {
        let task = self.task.as_mut()?;
        let joined = tokio::time::timeout_at(until, task).await.ok()?;
        self.task = None;
        Some(self.reported(joined))
    }

    /// Returns the input that its session waits for, whatever happens.
    pub(crate) async fn ended(&mut self, grace: Duration) -> Input {
        let Some(task) = self.task.as_mut() else { return self.reported_nothing() };
        let overrun = tokio::select! {
            joined = &mut *task => {
                self.task = None;
                return self.reported(joined);
            }
            () = elapsed(self.limit, &self.timer) => Overrun::OutOfTime,
            () = stopped_for(&self.stop, grace) => Overrun::WouldNotStop,
        };
        match overrun {
            Overrun::OutOfTime => {
                self.stop.cancel();
                let stopped = tokio::time::timeout(grace, task).await;
                if stopped.is_ok() {
                    self.task = None;
                }
                self.ended_late(stopped.ok())
            }
            Overrun::WouldNotStop => {
                let message =
                    "[cancelled] it was told to stop and did not; it may still be running";
                self.failed(ErrorClass::Cancelled, message)
            }
        }
    }

    /// Returns the input for a job whose time was up, and which then ended like this or did not.
    fn ended_late(&self, joined: Option<Result<Input, JoinError>>) -> Input {
        let limit = self.limit.map(|limit| format!(" ({limit:?})")).unwrap_or_default();
        match joined {
            // It was done after all: what a tool did is told as it was.
            Some(Ok(input)) if answers(&input, self.key) && is_success(&input) => input,
            Some(Ok(input)) if answers(&input, self.key) && did_nothing(&input) => {
                let message = format!("its time was up{limit} before it did anything");
                returned_failure(self.key, Failure::new(ErrorClass::Timeout, message))
            }
            Some(_) => {
                let message = format!("its time was up{limit}, and it was told to stop");
                self.failed(ErrorClass::Timeout, &message)
            }
            None => {
                let message = format!(
                    "its time was up{limit}, it was told to stop and did not; it may still be running"
                );
                self.failed(ErrorClass::Timeout, &message)
            }
        }
    }

    /// Returns what the tool of an attempt did in the end, after its session was told that nobody
    /// knows. Waits for as long as that takes.
    pub(crate) async fn late_word(&mut self) -> Option<Input> {
        if !matches!(self.key, JobKey::Execute { .. }) {
            return None;
        }
        let joined = self.task.as_mut()?.await;
        self.task = None;
        joined.ok().filter(|input| answers(input, self.key) && is_success(input))
    }

    fn reported(&self, joined: Result<Input, JoinError>) -> Input {
        match joined {
            Ok(input) if !answers(&input, self.key) => self.reported_nothing(),
            Ok(input) if self.stop.is_cancelled() => doubted(input),
            Ok(input) => input,
            Err(error) if error.is_panic() => {
                self.failed(ErrorClass::Internal, "the tool panicked")
            }
            Err(_) => self.failed(ErrorClass::Cancelled, "[cancelled]"),
        }
    }

    fn reported_nothing(&self) -> Input {
        self.failed(ErrorClass::Internal, "the tool's host gave no answer to this")
    }

    /// Returns the input for a job that did not answer. An attempt whose tool may have been
    /// entered may have done anything.
    fn failed(&self, class: ErrorClass, message: &str) -> Input {
        let failure = Failure::new(class, message);
        match self.key {
            JobKey::Model { turn, attempt } => {
                Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off: false })
            }
            JobKey::Preview { call } => {
                let trouble = Some(message.to_owned());
                let preview =
                    Preview { fingerprint: Digest::ZERO, targets: Vec::new(), diff: None, trouble };
                Input::Previewed(Previewed { call, preview })
            }
            JobKey::Execute { call, attempt } if !self.entry.close() => {
                let may_still_run = self.task.is_some();
                let unknown = EffectUnknown { failure, may_still_run };
                let report = AttemptReport::EffectUnknown(unknown);
                Input::AttemptEnded(AttemptEnded { call, attempt, report })
            }
            JobKey::Execute { .. } => {
                let message = format!("its tool was not run: {message}");
                returned_failure(self.key, Failure { message, ..failure })
            }
            JobKey::Verify { call, attempt } => {
                Input::Verified(Verified { call, attempt, verdict: Verification::Unknown })
            }
            // An errand that was cut short is run again by whoever looks next.
            JobKey::Queue { .. } | JobKey::Child { .. } | JobKey::Parent | JobKey::Root => {
                Input::Woken
            }
        }
    }
}

/// Why a job is no longer waited for.
enum Overrun {
    OutOfTime,
    WouldNotStop,
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
            AttemptReport::EffectUnknown(_) => false,
        },
        Input::ModelAnswered(_) | Input::ContextSummarised(_) => true,
        Input::Previewed(previewed) => previewed.preview.trouble.is_none(),
        Input::Verified(verified) => !matches!(verified.verdict, Verification::Unknown),
        _ => false,
    }
}

/// Returns whether an attempt ended before it did anything.
fn did_nothing(input: &Input) -> bool {
    match attempt_failure(input) {
        Some(failure) => match failure.class {
            ErrorClass::Cancelled
            | ErrorClass::InvalidArgs
            | ErrorClass::UnknownTool
            | ErrorClass::Denied
            | ErrorClass::Policy
            | ErrorClass::Gate => true,
            ErrorClass::Timeout
            | ErrorClass::Expired
            | ErrorClass::Interrupted
            | ErrorClass::ToolError
            | ErrorClass::Upstream
            | ErrorClass::RateLimited
            | ErrorClass::Auth
            | ErrorClass::Internal => false,
        },
        None => false,
    }
}

fn attempt_failure(input: &Input) -> Option<&Failure> {
    let Input::AttemptEnded(ended) = input else { return None };
    match &ended.report {
        AttemptReport::Returned(Returned { result: CallResult::Err(failure), .. }) => Some(failure),
        AttemptReport::Returned(_)
        | AttemptReport::WorldMoved { .. }
        | AttemptReport::Delegated(_)
        | AttemptReport::EffectUnknown(_) => None,
    }
}

/// What a tool says that was told to stop and failed may be about the stopping, and not about what
/// it did.
fn doubted(input: Input) -> Input {
    if did_nothing(&input) {
        return input;
    }
    match (attempt_failure(&input).cloned(), input) {
        (Some(failure), Input::AttemptEnded(AttemptEnded { call, attempt, .. })) => {
            let unknown = EffectUnknown { failure, may_still_run: false };
            let report = AttemptReport::EffectUnknown(unknown);
            Input::AttemptEnded(AttemptEnded { call, attempt, report })
        }
        (_, input) => input,
    }
}

fn returned_failure(key: JobKey, failure: Failure) -> Input {
    let JobKey::Execute { call, attempt } = key else { return Input::Woken };
    let report = AttemptReport::Returned(Returned::from(CallResult::Err(failure)));
    Input::AttemptEnded(AttemptEnded { call, attempt, report })
}
