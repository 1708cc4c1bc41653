//! From a schema document to something that can check values.

use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, error::ValidationErrorKind};
use serde_json::Value;

/// The most memory that one compiled pattern may take; `a{1000}{1000}` is refused, not built.
const PATTERN_BYTES_MAX: usize = 512 << 10;
/// How much of a foreign message is passed on.
const MESSAGE_CHARS: usize = 300;

/// Why a document cannot be used as a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A reference leads out of the document.
    #[error(
        "expected references within the schema, found `{target}`; copy what it names into `$defs`: \
         nothing is fetched or read to check arguments"
    )]
    OutsideReference {
        /// Where it leads.
        target: String,
    },
    /// A pattern that is no pattern, or that only a backtracking engine can match.
    #[error(
        "expected a pattern without look-around and back-references at `{path}`, found {found}; \
         write it without, patterns are matched in linear time"
    )]
    Pattern {
        /// The pattern's place in the schema.
        path: String,
        /// The pattern, and what is wrong with it.
        found: String,
    },
    /// Checking a value would take too much work.
    #[error("expected a schema of at most {max} {what}, found more; split the tool or simplify it")]
    TooCostly {
        /// What was counted.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Not a schema by the draft that it declares.
    #[error("expected a JSON Schema, found trouble at `{path}`: {message}")]
    NotASchema {
        /// Where in the document.
        path: String,
        /// What is wrong.
        message: String,
    },
}

/// Compiles a document; its cost is known to be bounded.
pub(super) fn compile(document: &Value) -> Result<jsonschema::Validator, CompileError> {
    jsonschema::options()
        .with_retriever(Nowhere)
        .with_pattern_options(
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX),
        )
        .build(document)
        .map_err(|error| explain(document, &error))
}

/// Where references outside the document lead: nowhere.
struct Nowhere;

impl Retrieve for Nowhere {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("it is outside the document".into())
    }
}

fn explain(document: &Value, error: &ValidationError<'_>) -> CompileError {
    let path = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::Referencing(trouble) => outside(trouble),
        ValidationErrorKind::Format { format } if format == "regex" => {
            pattern(document, path, "it is not a regular expression")
        }
        _ => NotASchemaPath { path, message: clip(&error.to_string()) }.into_error(),
    }
}

struct NotASchemaPath {
    path: String,
    message: String,
}

impl NotASchemaPath {
    fn into_error(self) -> CompileError {
        CompileError::NotASchema { path: self.path, message: self.message }
    }
}

fn outside(trouble: &jsonschema::ReferencingError) -> CompileError {
    CompileError::OutsideReference { target: clip(&trouble.to_string()) }
}

fn pattern(document: &Value, path: String, wrong: &str) -> CompileError {
    let found = document.pointer(&path).map_or_else(String::new, ToString::to_string);
    CompileError::Pattern { path, found: format!("{}: {wrong}", clip(&found)) }
}

fn clip(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS).collect()
}
