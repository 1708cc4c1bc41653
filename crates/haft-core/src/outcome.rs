//! How a call ends: exactly one outcome, and what it means for the loop.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::id::{ArtifactId, CallId};
use crate::name::ToolName;
use crate::time::{Millis, Timestamp};
use crate::tool::{Contract, Executor, Ownership};

/// The one way in which a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// Which attempt produced it; 0 when the call never ran.
    pub attempt: u32,
    /// When the final attempt started, or when the call was refused.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What came out.
    pub result: CallResult,
    /// What the tool wants the loop to do.
    #[serde(default, skip_serializing_if = "Directives::is_empty")]
    pub directives: Directives,
    /// Who produced it.
    pub provenance: Provenance,
    /// What the provider said about it, untouched.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub provider_meta: Option<Value>,
    /// Members of an open dialect that Haft has no word for, untouched.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Reads a member that is there, so that a `null` result stays a result: serde would make it
/// `None`, and a call that gave `null` would read back as one that gave nothing.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What came out of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallResult {
    /// It worked.
    Ok(Output),
    /// It did not.
    Err(Failure),
}

/// What a successful call gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// What the model reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<ContentBlock>,
    /// The structured result.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Outputs kept outside the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactRef>,
}

impl Output {
    /// A structured result alone.
    pub fn of_value(value: Value) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    /// A text alone.
    pub fn of_text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::Text { text: text.into() }], ..Self::default() }
    }

    /// Returns the first text among the content.
    pub fn first_text(&self) -> Option<&str> {
        self.content.iter().find_map(ContentBlock::as_text)
    }
}

/// One piece of what a model or a person reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A stored output, by reference.
    Artifact {
        /// The artifact.
        artifact: ArtifactRef,
    },
}

impl ContentBlock {
    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Artifact { .. } => None,
        }
    }
}

/// Points at a stored output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// Its id.
    pub id: ArtifactId,
    /// Its media type.
    pub media_type: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// A name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Why a call did not give a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure.
    pub class: ErrorClass,
    /// What the model is told.
    pub message: String,
    /// What only the log is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<String>,
    /// What had been produced before it failed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub partial: Option<Value>,
}

impl Failure {
    /// A failure with a message and nothing else.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), debug: None, partial: None }
    }

    /// The failure of a call of which nobody knows whether it took effect.
    pub fn effect_unknown(why: &str) -> Self {
        let message = format!("interrupted: it is not known whether this call took effect; {why}");
        Self::new(ErrorClass::Interrupted, message)
    }
}

/// The closed list of reasons for which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The arguments do not fit the schema.
    InvalidArgs,
    /// No such tool, or not advertised in this turn.
    UnknownTool,
    /// A person said no.
    Denied,
    /// A policy said no.
    Policy,
    /// A precondition does not hold.
    Gate,
    /// The attempt ran out of time, and it is known that it changed nothing.
    Timeout,
    /// Someone stopped it, and it is known that it changed nothing.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// It ended without a result, and whether it took effect is not known.
    Interrupted,
    /// The tool itself reports an error.
    ToolError,
    /// Something that the tool depends on failed.
    Upstream,
    /// Something that the tool depends on is busy.
    RateLimited,
    /// Credentials are missing or wrong.
    Auth,
    /// Haft or the tool's code is broken.
    Internal,
}

/// What can be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disposition {
    /// The model can do something else.
    Repairable,
    /// The same call may work later.
    Retryable,
    /// The run cannot usefully go on.
    Fatal,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [Self; 14] = [
        Self::InvalidArgs,
        Self::UnknownTool,
        Self::Denied,
        Self::Policy,
        Self::Gate,
        Self::Timeout,
        Self::Cancelled,
        Self::Expired,
        Self::Interrupted,
        Self::ToolError,
        Self::Upstream,
        Self::RateLimited,
        Self::Auth,
        Self::Internal,
    ];

    /// Returns what can be done about it.
    pub const fn disposition(self) -> Disposition {
        match self {
            Self::InvalidArgs
            | Self::UnknownTool
            | Self::Denied
            | Self::Policy
            | Self::Gate
            | Self::Cancelled
            | Self::Expired
            | Self::Interrupted
            | Self::ToolError => Disposition::Repairable,
            Self::Timeout | Self::Upstream | Self::RateLimited => Disposition::Retryable,
            Self::Auth | Self::Internal => Disposition::Fatal,
        }
    }

    /// Returns the stable code of the class.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidArgs => "invalid_args",
            Self::UnknownTool => "unknown_tool",
            Self::Denied => "denied",
            Self::Policy => "policy",
            Self::Gate => "gate",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Interrupted => "interrupted",
            Self::ToolError => "tool_error",
            Self::Upstream => "upstream",
            Self::RateLimited => "rate_limited",
            Self::Auth => "auth",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// What a tool asks of the loop beside its result (document 000).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directives {
    /// Ends the run when true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// Asks the model again, or not, after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_followup: Option<bool>,
    /// A machine-readable hint for what comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// What a person is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_message: Option<String>,
}

impl Directives {
    /// Returns whether nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Who produced a result, and so how far it can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Who ran the tool.
    pub executor: Executor,
    /// Whether it is taken at its word.
    pub trust: Trust,
}

impl Provenance {
    /// Only our own code is taken at its word (document 004's security rule).
    pub fn of(contract: &Contract) -> Self {
        let trust = match (contract.executor, contract.ownership) {
            (Executor::Server, Ownership::Managed) => Trust::Trusted,
            (Executor::Server, Ownership::Mcp | Ownership::Custom)
            | (Executor::Human | Executor::Client | Executor::Provider, _) => Trust::Untrusted,
        };
        Self { executor: contract.executor, trust }
    }
}

/// Whether a result is taken at its word. Clients, people, custom tools and MCP servers are not:
/// what they return is validated and never decides anything privileged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Produced by our own code, or by the runtime itself.
    Trusted,
    /// Came from outside.
    Untrusted,
}

/// What an outcome means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopEffect {
    /// The model may go on.
    Continue,
    /// The run is over.
    End,
}

impl Outcome {
    /// Returns what the outcome means for the run (the unified model, 2.4).
    pub fn loop_effect(&self) -> LoopEffect {
        if self.directives.terminal == Some(true) {
            return LoopEffect::End;
        }
        let CallResult::Err(failure) = &self.result else { return LoopEffect::Continue };
        match (self.directives.needs_followup, failure.class.disposition()) {
            (Some(false), _) | (None, Disposition::Fatal) => LoopEffect::End,
            (Some(true), _) | (None, Disposition::Repairable | Disposition::Retryable) => {
                LoopEffect::Continue
            }
        }
    }

    /// Returns how long the final attempt took.
    pub fn elapsed(&self) -> Millis {
        self.finished_at.since(self.started_at)
    }

    /// Returns whether the call worked.
    pub fn is_ok(&self) -> bool {
        matches!(self.result, CallResult::Ok(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(result: CallResult, directives: Directives) -> Outcome {
        Outcome {
            call: CallId::from_bits(1),
            tool: "x".parse().unwrap(),
            attempt: 1,
            started_at: Timestamp::from_ms(1),
            finished_at: Timestamp::from_ms(5),
            result,
            directives,
            provenance: Provenance { executor: Executor::Server, trust: Trust::Trusted },
            provider_meta: None,
            extra: Map::new(),
        }
    }

    // S3-22: each class says what can be done about it.
    #[test]
    fn s3_22_every_class_has_a_disposition_and_a_stable_code() {
        for class in ErrorClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.code());
        }
        assert_eq!(ErrorClass::Expired.disposition(), Disposition::Repairable);
        assert_eq!(ErrorClass::Upstream.disposition(), Disposition::Retryable);
        assert_eq!(ErrorClass::Internal.disposition(), Disposition::Fatal);
    }

    // S0-9, S0-10, S0-31: the table of the loop's end.
    #[test]
    fn s0_9_s0_10_s0_31_the_loop_ends_exactly_when_it_is_told_to() {
        let ok = || CallResult::Ok(Output::of_text("x"));
        let err = |class| CallResult::Err(Failure::new(class, "x"));
        let told = |terminal, needs_followup| Directives {
            terminal,
            needs_followup,
            ..Directives::default()
        };
        let effect = |result, directives| outcome(result, directives).loop_effect();
        use LoopEffect::{Continue, End};
        assert_eq!(effect(ok(), told(None, None)), Continue);
        assert_eq!(effect(ok(), told(None, Some(false))), Continue);
        assert_eq!(effect(ok(), told(Some(true), None)), End);
        assert_eq!(effect(ok(), told(Some(true), Some(true))), End);
        assert_eq!(effect(err(ErrorClass::ToolError), told(None, None)), Continue);
        assert_eq!(effect(err(ErrorClass::ToolError), told(None, Some(false))), End);
        assert_eq!(effect(err(ErrorClass::Internal), told(None, None)), End);
        assert_eq!(effect(err(ErrorClass::Internal), told(None, Some(true))), Continue);
        assert_eq!(effect(err(ErrorClass::Internal), told(Some(true), Some(true))), End);
    }

    // S3-20: elapsed comes from the record.
    #[test]
    fn s3_20_elapsed_is_derived_from_the_record() {
        assert_eq!(
            outcome(CallResult::Ok(Output::default()), Directives::default()).elapsed(),
            Millis(4)
        );
    }

    #[test]
    fn a_null_result_is_still_a_result_after_a_round_trip() {
        let null = CallResult::Ok(Output::of_value(Value::Null));
        let mut written = outcome(null, Directives::default());
        written.provider_meta = Some(Value::Null);
        let text = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), written);
    }

    #[test]
    fn an_unknown_class_is_refused_with_the_known_ones() {
        let error = serde_json::from_str::<ErrorClass>("\"oops\"").unwrap_err().to_string();
        assert!(error.contains("`oops`") && error.contains("`rate_limited`"), "{error}");
    }
}
