//! Why a tool is not taken, and why a call is not admitted.

use haft_core::ToolName;
use haft_core::session::Check;
use haft_core::tool::DefinitionError;

use crate::schema::{CompileError, Misfit};

/// Why a tool is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The definition contradicts itself.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A schema cannot be used.
    #[error("tool `{tool}`, `{field}`: {error}")]
    Schema {
        /// The tool.
        tool: ToolName,
        /// The field that holds the schema.
        field: &'static str,
        /// What is wrong with it.
        error: CompileError,
    },
    /// A schema can never work, or shows a secret.
    #[error("tool `{tool}`, `{field}`: {found}; {fix}")]
    Fault {
        /// The tool.
        tool: ToolName,
        /// The field that holds the schema.
        field: &'static str,
        /// What is wrong with it.
        found: String,
        /// What to do.
        fix: &'static str,
    },
    /// The name is taken.
    #[error(
        "expected a name that is not taken, found a second `{tool}`; rename it, or call `replace`"
    )]
    Duplicate {
        /// The name.
        tool: ToolName,
    },
    /// The name looks like another one.
    #[error(
        "expected a name that cannot be mistaken, found `{tool}` beside `{other}`; rename one of \
         them"
    )]
    Confusable {
        /// The name.
        tool: ToolName,
        /// The registered name that it looks like.
        other: ToolName,
    },
    /// What a provider would call the tool is another tool's name.
    #[error(
        "expected a name of its own for `{tool}` with {provider}, found `{alias}`, which is \
         `{other}` there; choose another alias"
    )]
    AliasTaken {
        /// The tool.
        tool: ToolName,
        /// The provider.
        provider: String,
        /// The name in question.
        alias: String,
        /// Whose name it is.
        other: ToolName,
    },
    /// A server tool without code.
    #[error(
        "expected code for `{tool}`, whose executor is `server`, found a bare definition; register \
         an implementation, or declare another executor"
    )]
    CodeMissing {
        /// The tool.
        tool: ToolName,
    },
    /// A replacement of nothing.
    #[error("expected a registered tool to replace, found no `{tool}`; call `register`")]
    NotRegistered {
        /// The tool.
        tool: ToolName,
    },
}

/// Why a call is not admitted, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such tool among those that are offered.
    #[error("{message}")]
    UnknownTool {
        /// What to tell the model.
        message: String,
    },
    /// The arguments are not strict JSON.
    #[error("{message}")]
    Malformed {
        /// The start of the arguments, as they came.
        raw: String,
        /// What to tell the model.
        message: String,
    },
    /// The arguments do not fit.
    #[error("the arguments do not fit: {0}")]
    Invalid(#[from] Misfit),
}

impl From<Refusal> for Check {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::UnknownTool { .. } => Self::UnknownTool { message },
            Refusal::Malformed { raw, .. } => Self::Malformed { raw, message },
            Refusal::Invalid(_) => Self::Invalid { message },
        }
    }
}
