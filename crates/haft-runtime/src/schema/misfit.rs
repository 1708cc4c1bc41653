//! What is wrong with a value, in words that its author can act upon.

use std::fmt;

use haft_core::JsonPointer;
use jsonschema::ValidationError;
use serde_json::Value;

/// How many violations are told; the rest is counted.
const TOLD_MAX: usize = 8;

/// A value that does not fit a schema.
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
    pub(super) fn of<'a>(
        _value: &Value,
        errors: impl Iterator<Item = ValidationError<'a>>,
    ) -> Result<(), Self> {
        let mut violations = Vec::new();
        let mut untold = 0;
        for error in errors {
            if violations.len() < TOLD_MAX {
                violations.push(Violation {
                    path: error.instance_path().to_string(),
                    expected: error.to_string(),
                    found: String::new(),
                });
            } else {
                untold += 1;
            }
        }
        if violations.is_empty() { Ok(()) } else { Err(Self { violations, untold }) }
    }

    pub(super) fn somewhere(_value: &Value) -> Self {
        Self { violations: Vec::new(), untold: 1 }
    }

    /// Returns the violations, at most eight.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }
}

impl Violation {
    pub(super) fn is_excused(error: &ValidationError<'_>, unknown: &[JsonPointer]) -> bool {
        unknown.iter().any(|place| is_at_or_under(error.instance_path().as_str(), place.as_str()))
    }
}

fn is_at_or_under(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl std::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, violation) in self.violations.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}`{}`: expected {}", violation.path, violation.expected)?;
        }
        if self.untold > 0 {
            write!(f, "; and {} more", self.untold)?;
        }
        Ok(())
    }
}
