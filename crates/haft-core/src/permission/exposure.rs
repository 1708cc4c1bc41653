//! Which tools a session may use at all; a child session can only have fewer.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::name::ToolName;

/// The tools that a session may see and use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exposure {
    /// When given, only these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<BTreeSet<ToolName>>,
    /// Never these.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deny: BTreeSet<ToolName>,
}

impl Exposure {
    /// Returns whether the tool may be seen and used.
    pub fn permits(&self, tool: &ToolName) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|allow| allow.contains(tool));
        allowed && !self.deny.contains(tool)
    }

    /// Returns what a child with its own wishes gets: what both permit.
    #[must_use]
    pub fn narrowed_by(&self, child: &Self) -> Self {
        let allow = match (&self.allow, &child.allow) {
            (Some(ours), Some(theirs)) => Some(ours & theirs),
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => None,
        };
        Self { allow, deny: &self.deny | &child.deny }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exposure() -> impl Strategy<Value = Exposure> {
        let names = || {
            let name = prop::sample::select(vec!["a", "b", "c", "d"]);
            prop::collection::btree_set(name.prop_map(|n| ToolName::new(n).unwrap()), 0..4)
        };
        (prop::option::of(names()), names()).prop_map(|(allow, deny)| Exposure { allow, deny })
    }

    proptest! {
        // S3-37: whatever a child wishes, it gets nothing that its parent has not.
        #[test]
        fn s3_37_a_child_can_only_narrow(parent in exposure(), child in exposure()) {
            let narrowed = parent.narrowed_by(&child);
            for name in ["a", "b", "c", "d"].map(|n| ToolName::new(n).unwrap()) {
                let both = parent.permits(&name) && child.permits(&name);
                prop_assert_eq!(narrowed.permits(&name), both);
            }
        }
    }
}
