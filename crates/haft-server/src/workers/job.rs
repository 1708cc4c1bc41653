//! One piece of work for a worker, and what a worker says came of it.

use std::time::Duration;

use haft_core::session::{Preview, Returned, Verification};
use haft_core::{
    Actor, ArtifactRef, CallResult, ContentBlock, Digest, Directives, ErrorClass, Failure, Output,
    SessionId, ToolName,
};
use haft_core::{CallId, Millis};
use haft_runtime::{ToolArguments, ToolContext, ToolError};
use haft_store::Tenant;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What a worker is to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum JobKind {
    /// Run it.
    Run,
    /// Find out what it would do.
    Preview,
    /// Find out whether an interrupted attempt took effect.
    Verify,
}

impl JobKind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Preview => "preview",
            Self::Verify => "verify",
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        let mut kinds = [Self::Run, Self::Preview, Self::Verify].into_iter();
        kinds.find(|kind| kind.word() == word)
    }
}

/// A piece of work, with all that a worker is told.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) kind: JobKind,
    pub(super) tool: ToolName,
    /// Of the definition that the worker must have registered.
    pub(super) digest: Digest,
    pub(super) tenant: Tenant,
    pub(super) arguments: ToolArguments,
    pub(super) timeout: Millis,
    pub(super) context: ToolContext,
}

impl Job {
    pub(super) fn session(&self) -> SessionId {
        self.context.session()
    }

    pub(super) fn call(&self) -> CallId {
        self.context.call()
    }

    pub(super) fn attempt(&self) -> u32 {
        self.context.attempt()
    }

    /// What the worker reads. Secret arguments are in it, so it goes nowhere else.
    pub(super) fn shown(&self, lease: &str, lasts: Duration) -> Value {
        let actor: &Actor = self.context.actor();
        json!({
            "lease": lease, "lease_ms": lasts.as_millis() as u64,
            "kind": self.kind.word(), "tool": self.tool, "digest": self.digest,
            "session": self.session(), "turn": self.context.turn(), "call": self.call(),
            "attempt": self.attempt(), "key": self.context.idempotency_key(),
            "timeout_ms": self.timeout, "arguments": self.arguments,
            "tenant": self.tenant.as_str(), "actor": actor,
        })
    }
}

/// What a worker says came of a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum WorkerOutcome {
    /// The call worked.
    Ok {
        /// The structured result.
        #[serde(default)]
        value: Option<Value>,
        /// What the model reads, if not the value.
        #[serde(default)]
        text: Option<String>,
        /// What was uploaded for this call.
        #[serde(default)]
        #[schemars(with = "Vec<Value>")]
        artifacts: Vec<ArtifactRef>,
        /// What the tool asks of the loop.
        #[serde(default)]
        #[schemars(with = "Map<String, Value>")]
        directives: Directives,
    },
    /// The call failed.
    Error {
        /// The kind of failure.
        #[serde(default = "tool_error")]
        #[schemars(with = "String")]
        class: ErrorClass,
        /// What the model reads.
        message: String,
        /// What only the log is told.
        #[serde(default)]
        debug: Option<String>,
        /// What had been produced before it failed.
        #[serde(default)]
        partial: Option<Value>,
        /// Whether it took effect all the same.
        #[serde(default)]
        effect: SaidEffect,
        /// What the tool asks of the loop.
        #[serde(default)]
        #[schemars(with = "Map<String, Value>")]
        directives: Directives,
    },
    /// The job was not begun, and another worker may have it.
    Released,
    /// What the call would do.
    Preview {
        /// What the preview rests on: if it has changed when the call runs, the approver is asked
        /// again.
        #[serde(default)]
        state: Value,
        /// What it would touch.
        #[serde(default)]
        targets: Vec<String>,
        /// The difference it would make, as a unified diff or a sentence.
        #[serde(default)]
        diff: Option<String>,
    },
    /// The interrupted attempt took effect, and this is what it gave.
    Applied {
        /// The structured result.
        #[serde(default)]
        value: Option<Value>,
    },
    /// The interrupted attempt did not take effect.
    Absent,
    /// Nobody can tell whether the interrupted attempt took effect.
    Unknown,
}

/// What a failed call says about its effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SaidEffect {
    /// As the class says: a timeout and a cancellation leave it open, all else means none.
    #[default]
    Unsaid,
    /// It certainly did not take effect.
    None,
    /// It may have taken effect.
    Unknown,
}

const fn tool_error() -> ErrorClass {
    ErrorClass::ToolError
}

impl WorkerOutcome {
    /// The end of a job that was to stop before a worker began with it.
    pub(super) fn stopped_before_it_began() -> Self {
        Self::Error {
            class: ErrorClass::Cancelled,
            message: "Request was cancelled".to_owned(),
            debug: None,
            partial: None,
            effect: SaidEffect::None,
            directives: Directives::default(),
        }
    }

    /// Whether it is an answer to this kind of job.
    pub(super) fn answers(&self, kind: JobKind) -> bool {
        match self {
            Self::Released | Self::Error { .. } => true,
            Self::Ok { .. } => kind == JobKind::Run,
            Self::Preview { .. } => kind == JobKind::Preview,
            Self::Applied { .. } | Self::Absent | Self::Unknown => kind == JobKind::Verify,
        }
    }

    /// Whether it may leave open what the attempt did, so that the log says no more than that the
    /// attempt was interrupted.
    pub(super) fn may_leave_open(&self) -> bool {
        matches!(self, Self::Error { effect, .. } if *effect != SaidEffect::None)
    }

    /// Reads it as the end of an attempt.
    pub(super) fn returned(self) -> Result<Returned, ToolError> {
        match self {
            Self::Ok { value, text, artifacts, directives } => {
                let content = text.map(|text| ContentBlock::Text { text }).into_iter().collect();
                let result = CallResult::Ok(Output { content, value, artifacts });
                Ok(Returned { directives, ..Returned::from(result) })
            }
            Self::Error { class, message, debug, partial, effect, directives } => {
                let failure = Failure { class, message, debug, partial };
                Err(failed(failure, effect).with_directives(directives))
            }
            _ => Err(ToolError::unknown("the worker gave no result of a run")),
        }
    }

    /// Reads it as what a call would do.
    pub(super) fn preview(self) -> Result<Preview, ToolError> {
        match self {
            Self::Preview { state, targets, diff } => {
                let shown = json!({ "state": state, "targets": targets, "diff": diff });
                let fingerprint = Digest::of_json(&shown);
                Ok(Preview { fingerprint, targets, diff, trouble: None })
            }
            Self::Error { class, message, debug, partial, .. } => {
                Err(ToolError::from_failure(Failure { class, message, debug, partial }))
            }
            _ => Err(ToolError::internal("the worker gave no preview")),
        }
    }

    /// Reads it as what became of an interrupted attempt.
    pub(super) fn verification(self) -> Verification {
        match self {
            Self::Applied { value } => Verification::Applied(match value {
                Some(value) => Output::of_value(value),
                None => Output::default(),
            }),
            Self::Absent => Verification::Absent,
            _ => Verification::Unknown,
        }
    }
}

fn failed(failure: Failure, effect: SaidEffect) -> ToolError {
    match effect {
        SaidEffect::Unsaid => ToolError::from_failure(failure),
        SaidEffect::None => ToolError::from_failure(failure).without_effect(),
        SaidEffect::Unknown => match failure.debug {
            Some(debug) => ToolError::unknown(failure.message).with_debug(debug),
            None => ToolError::unknown(failure.message),
        },
    }
}
