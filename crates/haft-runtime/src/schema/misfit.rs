//! What is wrong with a value, in words that its author can act upon.

use std::fmt;

use haft_core::JsonPointer;
use haft_core::tool::Redaction;
use jsonschema::ValidationError;
use serde_json::Value;

use super::expectation;

/// How many violations are told; the rest is counted.
const TOLD_MAX: usize = 8;

/// A value that does not fit a schema.
///
/// Its text is for whoever made the value: each place, what was expected there and what was found,
/// and nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    violations: Vec<Violation>,
    untold: usize,
}

/// One place where a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a JSON pointer; empty for the whole value.
    pub path: String,
    /// What was expected there.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Misfit {
    /// Collects what is told of some errors; `None` when there are none.
    pub(super) fn of<'a>(errors: impl Iterator<Item = ValidationError<'a>>) -> Option<Self> {
        let mut misfit = Self { violations: Vec::new(), untold: 0 };
        for error in errors {
            for violation in expectation::violations(&error) {
                misfit.add(violation);
            }
        }
        (!misfit.violations.is_empty()).then_some(misfit)
    }

    /// Says one thing about a value as a whole.
    pub(super) fn whole(expected: &str, found: &str) -> Self {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        Self { violations: vec![Violation { path: String::new(), expected, found }], untold: 0 }
    }

    fn add(&mut self, violation: Violation) {
        if self.violations.contains(&violation) {
            return;
        }
        if self.violations.len() < TOLD_MAX {
            self.violations.push(violation);
        } else {
            self.untold += 1;
        }
    }

    /// Returns the violations that are told, at most eight.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Takes out what was found in secret places: the text will be recorded.
    #[must_use]
    pub fn without_secrets(mut self, secret: &Redaction) -> Self {
        for violation in &mut self.violations {
            let is_secret = |place: &JsonPointer| is_at_or_under(&violation.path, place.as_str());
            if secret.secret.iter().any(is_secret) {
                Redaction::MASK.clone_into(&mut violation.found);
            }
        }
        self
    }
}

/// Returns whether a path is a place or leads through it.
pub(super) fn is_at_or_under(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl std::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.violations.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        if self.untold > 0 {
            write!(f, "; and {} more", self.untold)?;
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

/// Returns whether an error may be due to a place that is not known yet.
pub(super) fn is_excused(error: &ValidationError<'_>, unknown: &[JsonPointer]) -> bool {
    use jsonschema::error::ValidationErrorKind as Kind;
    let path = error.instance_path().as_str();
    if unknown.iter().any(|place| is_at_or_under(path, place.as_str())) {
        return true;
    }
    let holds_unknown = || unknown.iter().any(|place| is_at_or_under(place.as_str(), path));
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            context.iter().any(|branch| branch.iter().all(|error| is_excused(error, unknown)))
        }
        // A judgement on a whole that has an unknown part.
        Kind::Constant { .. }
        | Kind::Contains
        | Kind::Enum { .. }
        | Kind::Not { .. }
        | Kind::OneOfMultipleValid { .. }
        | Kind::UniqueItems => holds_unknown(),
        _ => false,
    }
}

/// Says what a value is, in few words; what is inside it has its own place.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => clip(&value.to_string(), 80),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

pub(super) fn clip(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
