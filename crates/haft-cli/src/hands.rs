//! Hands for commands that bring their own tools and no model.

use haft_core::session::{
    AttemptEnded, AttemptReport, Call, Input, ModelFailed, Preview, Previewed, Returned,
    Verification, Verified,
};
use haft_core::{CallResult, Digest, ErrorClass, Failure};
use haft_runtime::Task;

/// Runs a tool as `execute` does; everything else is answered with what there is not.
pub(crate) fn perform(task: Task, execute: impl FnOnce(&Call) -> CallResult) -> Input {
    match task {
        Task::Execute { call, attempt, .. } => {
            let report = AttemptReport::Returned(Returned::from(execute(&call)));
            Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
        }
        Task::AskModel { turn, attempt, .. } => {
            let failure = Failure::new(ErrorClass::Upstream, "there is no model here");
            Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off: false })
        }
        Task::Preview { call } => {
            let (fingerprint, targets) = (Digest::ZERO, Vec::new());
            let preview = Preview { fingerprint, targets, diff: None, trouble: None };
            Input::Previewed(Previewed { call: call.id, preview })
        }
        Task::Verify { call, attempt } => {
            let verdict = Verification::Unknown;
            Input::Verified(Verified { call: call.id, attempt, verdict })
        }
    }
}
