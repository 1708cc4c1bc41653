//! From a schema document to something that can check values.

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{PatternOptions, ReferencingError, Retrieve, Uri, ValidationError};
use serde_json::Value;

use super::expectation::violations;
use super::misfit::Violation;

/// The most memory that one compiled pattern may take. How much work it may make is counted apart.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// The memory in which matching may remember states, to be faster than its worst case.
const PATTERN_CACHE_BYTES: usize = 1 << 20;
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
    /// A pattern that is none, that only a backtracking engine can match, or that is too large
    /// once compiled.
    #[error(
        "expected a pattern that can be matched in linear time at `{path}`, found {found}; write it \
         without look-around, back-references and vast repetitions"
    )]
    Pattern {
        /// The pattern's place in the schema.
        path: String,
        /// The pattern.
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
    /// Matching a pattern would take too much work.
    #[error(
        "expected a pattern in which a character can stand in at most {max} places, found {found} \
         in {pattern}; anchor it with `^` and bound its repetitions, or repeat less"
    )]
    CostlyPattern {
        /// The pattern.
        pattern: String,
        /// How many places.
        found: usize,
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

impl CompileError {
    pub(super) fn costly_pattern(pattern: &str, found: usize, max: usize) -> Self {
        Self::CostlyPattern { pattern: clip(&format!("`{pattern}`")), found, max }
    }
}

/// Compiles a document; its cost is known to be bounded.
pub(super) fn compile(document: &Value) -> Result<jsonschema::Validator, CompileError> {
    jsonschema::options()
        .with_retriever(Nowhere)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_CACHE_BYTES),
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
    // What the meta-schema finds is an instance to it; what compiling finds is a schema.
    let instance = error.instance_path().as_str();
    let path = if instance.is_empty() { error.schema_path().as_str() } else { instance };
    let not_a_schema = |path: &str, message: &str| CompileError::NotASchema {
        path: path.to_owned(),
        message: clip(message),
    };
    match error.kind() {
        Kind::Referencing(
            ReferencingError::Unretrievable { uri, .. }
            | ReferencingError::UnknownSpecification { specification: uri },
        ) => CompileError::OutsideReference { target: clip(uri) },
        Kind::Format { format } if format == "regex" => {
            // Among `patternProperties` the pattern is the last step of the path.
            let key = path.rsplit('/').next().unwrap_or_default();
            let found = document.pointer(path).and_then(Value::as_str).unwrap_or(key);
            CompileError::Pattern { path: path.to_owned(), found: clip(&format!("`{found}`")) }
        }
        Kind::Referencing(_) | Kind::Custom { .. } => not_a_schema(path, &error.to_string()),
        _ => match violations(error).as_slice() {
            [first, ..] if !instance.is_empty() => {
                let Violation { path, expected, found } = first;
                not_a_schema(path, &format!("expected {expected}, found {found}"))
            }
            _ => not_a_schema(path, &error.to_string()),
        },
    }
}

fn clip(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS).collect()
}
