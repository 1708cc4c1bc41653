//! How a tool's code says that it failed.

use std::fmt;

use haft_core::session::Returned;
use haft_core::{CallResult, Directives, ErrorClass, Failure};
use serde_json::Value;

/// Why a call failed, as the tool's code puts it.
///
/// Any error turns into one with `?`; the model then reads its text. Say more where it matters:
/// whether it is worth another try, what only the log should know, what was done before it failed.
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

    /// The call was stopped, in the words that document 001 fixes.
    pub fn cancelled() -> Self {
        Self::of(ErrorClass::Cancelled, "Request was cancelled")
    }

    /// The tool's own code is broken.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::of(ErrorClass::Internal, message)
    }

    /// A failure of any class.
    pub fn from_failure(failure: Failure) -> Self {
        Self(Box::new(Inner { failure, directives: Directives::default() }))
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

    /// Returns the kind of failure.
    pub fn class(&self) -> ErrorClass {
        self.0.failure.class
    }

    /// Returns it as what the tool returned.
    pub fn into_returned(self) -> Returned {
        let Inner { failure, directives } = *self.0;
        Returned { directives, ..Returned::from(CallResult::Err(failure)) }
    }

    fn of(class: ErrorClass, message: impl Into<String>) -> Self {
        Self::from_failure(Failure::new(class, message))
    }
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
