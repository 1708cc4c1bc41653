//! Why something cannot be lifted from a dialect, or projected into one.

use std::borrow::Cow;
use std::fmt;

use haft_core::ToolName;
use haft_core::json::JsonError;

use crate::dialect::Dialect;
use crate::provider_schema::SchemaProjectionError;

/// What was being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tool's definition.
    Definition,
    /// A call of a tool.
    Call,
    /// What came out of a call.
    Result,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Definition => "definition",
            Self::Call => "call",
            Self::Result => "result",
        })
    }
}

/// A body that is not what its dialect says it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiftError {
    dialect: Dialect,
    kind: Kind,
    path: String,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Json(JsonError),
    Mismatch { expected: String, found: String, fix: Option<Cow<'static, str>> },
}

impl LiftError {
    pub(crate) fn json(dialect: Dialect, kind: Kind, error: JsonError) -> Self {
        Self { dialect, kind, path: String::new(), reason: Reason::Json(error) }
    }

    pub(crate) fn mismatch(
        (dialect, kind): (Dialect, Kind),
        path: String,
        expected: String,
        found: String,
    ) -> Self {
        Self { dialect, kind, path, reason: Reason::Mismatch { expected, found, fix: None } }
    }

    /// Says what to do about it.
    #[must_use]
    pub(crate) fn with_fix(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        if let Reason::Mismatch { fix, .. } = &mut self.reason {
            *fix = Some(text.into());
        }
        self
    }

    /// Returns the dialect in which the body was read.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns what the body was read as.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns where the trouble is, as a JSON pointer; empty for the whole body.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns what to do, where that can be said.
    pub fn fix(&self) -> Option<&str> {
        match &self.reason {
            Reason::Mismatch { fix, .. } => fix.as_deref(),
            Reason::Json(_) => None,
        }
    }
}

impl std::error::Error for LiftError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            Reason::Json(error) => Some(error),
            Reason::Mismatch { .. } => None,
        }
    }
}

impl fmt::Display for LiftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dialect, self.kind)?;
        if !self.path.is_empty() {
            write!(f, " at `{}`", self.path)?;
        }
        match &self.reason {
            Reason::Json(error) => write!(f, ": {error}"),
            Reason::Mismatch { expected, found, fix } => {
                write!(f, ": expected {expected}, found {found}")?;
                fix.iter().try_for_each(|fix| write!(f, "; {fix}"))
            }
        }
    }
}

/// A definition that a dialect cannot say without inventing something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// The dialect requires what the definition leaves open, and forbids inferring it.
    #[error("expected tool `{tool}` to declare `{field}` for {dialect}, found it unset; {fix}")]
    Undeclared {
        /// The dialect.
        dialect: Dialect,
        /// The tool.
        tool: ToolName,
        /// The canonical field to set.
        field: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The schema cannot be derived for the provider.
    #[error("the schema of tool `{tool}` cannot be derived for {dialect}: {source}")]
    Schema {
        /// The dialect.
        dialect: Dialect,
        /// The tool.
        tool: ToolName,
        /// Why not.
        source: SchemaProjectionError,
    },
}
