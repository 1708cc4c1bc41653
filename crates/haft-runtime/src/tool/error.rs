//! How a tool's code says that it failed.

use std::fmt;

use haft_core::session::Returned;
use haft_core::{CallResult, Directives, ErrorClass, Failure};
use serde_json::Value;

use crate::toolbox::Redactor;

/// Why a call failed, as the tool's code puts it.
///
/// Any error turns into one with `?`; the model then reads its text. Say more where it matters:
/// whether it is worth another try, what only the log should know, what was done before it failed.
///
/// **Say so if you do not know whether the call took effect**: return [`ToolError::unknown`], for
/// example when a connection broke after the request was sent. Haft then treats the call like one
/// whose process died: it asks the tool's `verify` function, runs the call again if that is
/// declared to be safe, and otherwise asks a person. Every other error says that the call did not
/// do what was asked.
///
/// ```
/// use haft_runtime::ToolError;
///
/// fn parse(text: &str) -> Result<u8, ToolError> {
///     Ok(text.parse()?)
/// }
/// assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError(Box<Inner>);

#[derive(Debug, Clone, PartialEq)]
struct Inner {
    failure: Failure,
    directives: Directives,
    effect: Effect,
}

/// What a tool's code says about whether a call that failed took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing: then a timeout and a cancellation leave it open, and every other error means that
    /// the call did not do what was asked.
    Unsaid,
    /// It certainly did not.
    Absent,
    /// It may have.
    Unknown,
    /// It may have, and the code that ran it may still be at it.
    UnknownAndRunning,
}

impl ToolError {
    /// The tool cannot do what was asked; the model reads why and may try something else.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::ToolError, message)
    }

    /// The arguments make no sense, for a reason that no schema can say.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::InvalidArgs, message)
    }

    /// Something the tool depends on failed; the same call may work later.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::Upstream, message)
    }

    /// Something the tool depends on wants fewer calls; the same call may work later.
    pub fn rate_limited(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::RateLimited, message)
    }

    /// Credentials are missing or wrong: nobody but an operator can help.
    pub fn auth(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::Auth, message)
    }

    /// The call was stopped while it ran. If its tool may change something, it is then not known
    /// whether the call took effect; add [`ToolError::without_effect`] if it certainly did not.
    pub fn cancelled() -> Self {
        Self::of(ErrorClass::Cancelled, "Request was cancelled")
    }

    /// Nobody knows whether the call took effect: it is not claimed to have failed, and is not
    /// repeated unless its tool declares that this is safe.
    ///
    /// ```
    /// use haft_runtime::ToolError;
    ///
    /// let error = ToolError::unknown("the connection broke after the request was sent");
    /// assert!(error.is_effect_unknown());
    /// ```
    pub fn unknown(message: impl Into<String>) -> Self {
        let mut error = Self::of(ErrorClass::Interrupted, message);
        error.0.effect = Effect::Unknown;
        error
    }

    /// As [`ToolError::unknown`], of code that may still be running somewhere else: then a `verify`
    /// function that finds nothing proves nothing, and a person is asked.
    pub fn unknown_and_running(message: impl Into<String>) -> Self {
        let mut error = Self::of(ErrorClass::Interrupted, message);
        error.0.effect = Effect::UnknownAndRunning;
        error
    }

    /// The tool's own code is broken.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::Internal, message)
    }

    /// A failure of any class.
    pub fn from_failure(failure: Failure) -> Self {
        let (directives, effect) = (Directives::default(), Effect::Unsaid);
        Self(Box::new(Inner { failure, directives, effect }))
    }

    /// Adds what only the log is told.
    #[must_use]
    pub fn with_debug(mut self, debug: impl Into<String>) -> Self {
        self.0.failure.debug = Some(debug.into());
        self
    }

    /// Adds what had been produced before it failed.
    #[must_use]
    pub fn with_partial(mut self, partial: Value) -> Self {
        self.0.failure.partial = Some(partial);
        self
    }

    /// Adds what the tool asks of the loop.
    #[must_use]
    pub fn with_directives(mut self, directives: Directives) -> Self {
        self.0.directives = directives;
        self
    }

    /// Says that the call certainly changed nothing, although it was stopped or ran out of time.
    #[must_use]
    pub fn without_effect(mut self) -> Self {
        self.0.effect = Effect::Absent;
        self
    }

    /// Returns whether the call may have taken effect all the same. It is so for
    /// [`ToolError::unknown`], and for a timeout or a cancellation that does not say otherwise.
    pub fn is_effect_unknown(&self) -> bool {
        match self.0.effect {
            Effect::Unsaid => leaves_effect_open(self.0.failure.class),
            Effect::Absent => false,
            Effect::Unknown | Effect::UnknownAndRunning => true,
        }
    }

    /// Returns whether the code that ran the call may still be running.
    pub fn may_still_run(&self) -> bool {
        self.0.effect == Effect::UnknownAndRunning
    }

    /// Masks the secrets in what it says.
    #[must_use]
    pub fn masked(mut self, redactor: &Redactor) -> Self {
        redactor.failure(&mut self.0.failure);
        redactor.directives(&mut self.0.directives);
        self
    }

    /// Returns the kind of failure.
    pub fn class(&self) -> ErrorClass {
        self.0.failure.class
    }

    /// Returns it as what the tool returned.
    pub fn into_returned(self) -> Returned {
        let Inner { failure, directives, .. } = *self.0;
        Returned { directives, ..Returned::from(CallResult::Err(failure)) }
    }

    fn of(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::from_failure(Failure::new(class, message))
    }
}

/// Returns whether a failure of this class leaves open whether the call took effect.
pub(crate) fn leaves_effect_open(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Timeout | ErrorClass::Cancelled | ErrorClass::Interrupted)
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.failure.message)
    }
}

// `ToolError` is no `std::error::Error` itself, or this would contradict `From<T> for T`.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut causes = String::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push_str(&format!("; because {error}"));
            cause = error.source();
        }
        let plain = Self::new(error.to_string());
        if causes.is_empty() { plain } else { plain.with_debug(format!("{error}{causes}")) }
    }
}
