//! What a session is to achieve.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::actor::Actor;
use crate::digest::Digest;
use crate::time::Timestamp;

const TITLE_CHARS: usize = 200;
const TEXT_CHARS: usize = 4_000;
const CRITERIA_MAX: usize = 32;

/// What a session is to achieve, and how that is told: document 002's outcome.
///
/// Texts are trimmed, and no criterion stands twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Goal {
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    criteria: Vec<String>,
}

/// A goal as it comes from outside.
#[derive(Deserialize)]
struct Unchecked {
    title: String,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    criteria: Vec<String>,
}

/// A goal that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct GoalError {
    expected: &'static str,
    found: String,
}

impl Goal {
    /// Checks a goal and takes it.
    ///
    /// # Errors
    ///
    /// When the title is empty, or anything is too long to be read at a glance.
    pub fn new(
        title: &str,
        detail: Option<&str>,
        criteria: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, GoalError> {
        let detail = detail.map(str::trim).filter(|detail| !detail.is_empty());
        let mut kept: Vec<String> = Vec::new();
        for criterion in criteria {
            let criterion = criterion.as_ref().trim();
            if !criterion.is_empty() && !kept.iter().any(|known| known == criterion) {
                require("a criterion of at most 4000 characters", criterion, TEXT_CHARS)?;
                kept.push(criterion.to_owned());
            }
        }
        if kept.len() > CRITERIA_MAX {
            let found = format!("{}", kept.len());
            return Err(GoalError { expected: "at most 32 criteria", found });
        }
        let title = title.trim();
        if title.is_empty() {
            return Err(GoalError { expected: "a title", found: "an empty one".to_owned() });
        }
        require("a title of at most 200 characters", title, TITLE_CHARS)?;
        require("a detail of at most 4000 characters", detail.unwrap_or_default(), TEXT_CHARS)?;
        Ok(Self { title: title.to_owned(), detail: detail.map(str::to_owned), criteria: kept })
    }

    /// Returns what is to be achieved, in a line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns what there is to say beyond the title.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns how it is told that the goal is reached.
    pub fn criteria(&self) -> &[String] {
        &self.criteria
    }

    /// Returns what tells one goal from another.
    pub fn fingerprint(&self) -> Digest {
        let (title, detail, criteria) = (&self.title, &self.detail, &self.criteria);
        Digest::of_json(&json!({ "title": title, "detail": detail, "criteria": criteria }))
    }
}

fn require(expected: &'static str, text: &str, most: usize) -> Result<(), GoalError> {
    let length = text.chars().count();
    if length <= most {
        return Ok(());
    }
    Err(GoalError { expected, found: format!("{length} characters") })
}

impl TryFrom<Unchecked> for Goal {
    type Error = GoalError;

    fn try_from(unchecked: Unchecked) -> Result<Self, GoalError> {
        Self::new(&unchecked.title, unchecked.detail.as_deref(), unchecked.criteria)
    }
}

/// The goal that a session has, and who set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveGoal {
    /// The goal.
    pub goal: Goal,
    /// Who set it.
    pub by: Actor,
    /// When.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    // S2-44: criteria are trimmed and stand once.
    #[test]
    fn s2_44_a_goal_is_tidied_and_an_empty_title_is_refused() {
        let goal = Goal::new(" ship ", Some(" "), [" tests pass ", "tests pass", ""]).unwrap();
        assert_eq!((goal.title(), goal.detail()), ("ship", None));
        assert_eq!(goal.criteria(), ["tests pass"]);
        let none: [&str; 0] = [];
        assert!(Goal::new("  ", None, none).is_err());
        assert!(Goal::new(&"x".repeat(201), None, none).is_err());
        assert!(serde_json::from_str::<Goal>(r#"{"title":""}"#).is_err());
    }
}
