//! Tool names: canonical, provider-safe, and hard to confuse.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The canonical name of a tool: ASCII `snake_case`, `[a-z][a-z0-9_]{0,63}`.
///
/// Events, stores and permissions know a tool by this name only. Whatever a provider calls it is
/// a [`ToolAlias`] beside it (document 003, "Tool Names").
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolName(Arc<str>);

/// Equal, ordered and hashed like its text.
impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl ToolName {
    /// The longest name that every provider takes.
    pub const LEN_MAX: usize = 64;

    /// Checks a name and takes it.
    ///
    /// # Errors
    ///
    /// When the text is empty, too long or not canonical; the error says which character and
    /// suggests a name where one can be derived.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::LEN_MAX {
            return Err(NameError::TooLong { found: text.chars().count() });
        }
        let first = text.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        match text.chars().find(|&c| !is_canonical(c)) {
            Some(' ') => Err(NameError::Spaced { suggestion: suggest(text) }),
            Some(found) => Err(NameError::Character { found, suggestion: suggest(text) }),
            None if !first => Err(NameError::Start { suggestion: suggest(text) }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_canonical(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// Derives a canonical name that a person may have meant, if one is near.
fn suggest(text: &str) -> Option<Box<str>> {
    let folded: String = text
        .chars()
        .map(|c| match c {
            c if is_canonical(c) => c,
            c if c.is_ascii_uppercase() => c.to_ascii_lowercase(),
            _ => '_',
        })
        .collect();
    let trimmed = folded.trim_matches('_');
    trimmed.starts_with(|c: char| c.is_ascii_lowercase()).then(|| trimmed.into())
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(de::Error::custom)
    }
}

/// What one provider calls a tool, when that is not its canonical name.
///
/// Providers agree on `[A-Za-z0-9_.-]`; anything else would need escaping somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ToolAlias(Box<str>);

impl ToolAlias {
    /// The longest alias that is taken; MCP allows twice what model providers do.
    pub const LEN_MAX: usize = 128;

    /// Checks an alias and takes it.
    ///
    /// # Errors
    ///
    /// When it is empty, too long or needs escaping.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::LEN_MAX {
            return Err(NameError::TooLong { found: text.chars().count() });
        }
        let needs_escape = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        match text.chars().find(needs_escape) {
            Some(found) => Err(NameError::Character { found, suggestion: suggest(text) }),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the alias as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ToolAlias {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Why a text is not a tool's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No name at all.
    #[error("expected a tool name like `get_weather`, found an empty one")]
    Empty,
    /// Longer than every provider takes.
    #[error("expected a tool name of at most 64 characters, found {found}")]
    TooLong {
        /// The length in characters.
        found: usize,
    },
    /// Holds a space.
    #[error("expected a tool name without spaces{}", hint(suggestion.as_deref()))]
    Spaced {
        /// A canonical name near it.
        suggestion: Option<Box<str>>,
    },
    /// Holds a character that some provider would have to escape, or that looks like another.
    #[error("expected only a-z, 0-9 and _ in a tool name, found {found:?}{}", hint(suggestion.as_deref()))]
    Character {
        /// The first such character.
        found: char,
        /// A canonical name near it.
        suggestion: Option<Box<str>>,
    },
    /// Starts with a digit or an underscore.
    #[error("expected a tool name that starts with a-z{}", hint(suggestion.as_deref()))]
    Start {
        /// A canonical name near it.
        suggestion: Option<Box<str>>,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |name| format!("; `{name}` would do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-3: empty, spaced, over-long and escape-requiring names are refused.
    #[test]
    fn s3_3_names_that_are_not_provider_safe_are_refused() {
        assert_eq!(ToolName::new(""), Err(NameError::Empty));
        assert_eq!(ToolName::new(&"a".repeat(65)), Err(NameError::TooLong { found: 65 }));
        let spaced = ToolName::new("get weather").unwrap_err();
        assert_eq!(spaced, NameError::Spaced { suggestion: Some("get_weather".into()) });
        for bad in ["shell_run\n", "r\u{435}ad", "read\u{200b}", "get/weather", "é", "Read"] {
            assert!(matches!(ToolName::new(bad), Err(NameError::Character { .. })), "{bad:?}");
        }
        for bad in ["__proto__", "_x", "9lives"] {
            assert!(matches!(ToolName::new(bad), Err(NameError::Start { .. })), "{bad}");
        }
        assert_eq!(ToolName::new(&"a".repeat(64)).unwrap().as_str().len(), 64);
        assert_eq!(ToolName::new("get_weather2").unwrap().as_str(), "get_weather2");
    }

    #[test]
    fn a_refused_name_comes_with_one_that_would_do() {
        let error = ToolName::new("math.factorial").unwrap_err().to_string();
        assert_eq!(
            error,
            "expected only a-z, 0-9 and _ in a tool name, found '.'; `math_factorial` would do"
        );
        assert!(!ToolName::new("日本").unwrap_err().to_string().contains("would do"));
    }

    // S3-4: a provider's own name for a tool is an alias.
    #[test]
    fn s3_4_an_alias_carries_what_a_provider_calls_the_tool() {
        assert_eq!(ToolAlias::new("math.factorial").unwrap().as_str(), "math.factorial");
        assert!(ToolAlias::new("a b").is_err());
        assert!(ToolAlias::new("").is_err());
        assert!(ToolAlias::new(&"x".repeat(129)).is_err());
    }
}
