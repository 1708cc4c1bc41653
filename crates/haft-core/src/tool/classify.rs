//! The name classifier of document 000, for what a definition leaves unset.
//!
//! The table is one data file, `data/tool-modes.json`, embedded here and served to the console,
//! so that server and console cannot classify differently. The file carries its own test
//! vectors.

use std::sync::LazyLock;

use serde::Deserialize;

use super::facets::Mode;
use crate::name::ToolName;

/// The rule table as text, for whoever must classify elsewhere by the same rules.
pub const MODE_TABLE: &str = include_str!("../../data/tool-modes.json");

#[derive(Deserialize)]
struct Table {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    mode: Mode,
    prefixes: Vec<Box<str>>,
}

#[expect(clippy::expect_used, reason = "the table is compiled in and every test run reads it")]
static TABLE: LazyLock<Table> =
    LazyLock::new(|| serde_json::from_str(MODE_TABLE).expect("data/tool-modes.json is valid"));

/// A rule of the table that a name matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameMatch {
    /// What the rule says.
    pub mode: Mode,
    /// The prefix that matched.
    pub prefix: &'static str,
}

/// Classifies a tool by its name alone; `None` means that no rule matches, and a caller must ask.
pub fn classify(name: &ToolName) -> Option<NameMatch> {
    TABLE.rules.iter().find_map(|rule| {
        let prefix = rule.prefixes.iter().find(|prefix| name.as_str().starts_with(&***prefix))?;
        Some(NameMatch { mode: rule.mode, prefix })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        vectors: Vec<Vector>,
    }

    #[derive(Deserialize)]
    struct Vector {
        name: ToolName,
        mode: Option<Mode>,
    }

    // D21, S0-22, S0-23, S0-24, S0-25, S0-26: every pattern of the seed, and names that
    // match none, from the same file that the console reads.
    #[test]
    fn every_vector_of_the_table_classifies_as_it_says() {
        let Vectors { vectors } = serde_json::from_str(MODE_TABLE).unwrap();
        for vector in &vectors {
            assert_eq!(classify(&vector.name).map(|m| m.mode), vector.mode, "{}", vector.name);
        }
        let prefixes = TABLE.rules.iter().flat_map(|rule| &rule.prefixes);
        for prefix in prefixes {
            let covered =
                vectors.iter().any(|v| v.mode.is_some() && v.name.as_str().starts_with(&**prefix));
            assert!(covered, "no vector for `{prefix}`");
        }
    }
}
