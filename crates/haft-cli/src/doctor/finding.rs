//! What a check has found.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    /// It works, and someone should know.
    Warning,
    /// It must be fixed.
    Problem,
}

/// The result of one check: a sentence, and what to do if all is not well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was checked; the same word in every version, so that programs can look for it.
    pub(super) name: &'static str,
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) fix: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, message: message.into(), fix: None }
    }

    pub(super) fn warning(
        name: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (message, fix) = (message.into(), Some(fix.into()));
        Self { name, status: Status::Warning, message, fix }
    }

    pub(super) fn problem(
        name: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (message, fix) = (message.into(), Some(fix.into()));
        Self { name, status: Status::Problem, message, fix }
    }
}
