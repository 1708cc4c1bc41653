//! Names that come from outside: who owns a session's data, and which process acts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A text that cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a {what} of 1 to 200 characters without control characters, found {found:?}")]
pub struct TextError {
    what: &'static str,
    found: String,
}

/// Checks what both databases can keep: PostgreSQL refuses a NUL in text.
pub(crate) fn checked(what: &'static str, text: &str) -> Result<(), TextError> {
    let length = text.chars().count();
    if (1..=200).contains(&length) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(TextError { what, found: text.chars().take(80).collect() })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name and takes it.
            ///
            /// # Errors
            ///
            /// When it is empty, longer than 200 characters or holds control characters.
            pub fn new(text: &str) -> Result<Self, TextError> {
                checked($what, text).map(|()| Self(text.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = TextError;

            fn from_str(text: &str) -> Result<Self, TextError> {
                Self::new(text)
            }
        }
    };
}

name_type! {
    /// Whose session, artifact or document it is; nothing is shared between two of them.
    Tenant, "tenant"
}
name_type! {
    /// One running process, under a name that no other one uses at the same time.
    NodeId, "node"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_database_cannot_keep_is_refused() {
        assert_eq!(Tenant::new("acme").unwrap().as_str(), "acme");
        for bad in ["", "a\0b", &"x".repeat(201)] {
            let error = NodeId::new(bad).unwrap_err().to_string();
            assert!(error.starts_with("expected a node of 1 to 200 characters"), "{error}");
        }
    }
}
