//! Differences between JSON objects, and the merge that lets an edited body win.
//!
//! A patch takes what a dialect's body says to what the canonical form says. It goes down into
//! objects and treats everything else as one leaf. Absence is written down explicitly, because
//! `null` is a value that a tool may well return.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What to change in an object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    /// Members to put, over whatever is there.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    set: Map<String, Value>,
    /// Members to take out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drop: Vec<String>,
    /// Members that are objects on both sides.
    #[serde(default, rename = "in", skip_serializing_if = "BTreeMap::is_empty")]
    inner: BTreeMap<String, Patch>,
}

impl Patch {
    /// Returns what turns `from` into `to`.
    pub(crate) fn between(from: &Map<String, Value>, to: &Map<String, Value>) -> Self {
        let mut patch = Self::default();
        for (key, new) in to {
            match (from.get(key), new) {
                (Some(old), new) if old == new => {}
                (Some(Value::Object(old)), Value::Object(new)) => {
                    patch.inner.insert(key.clone(), Self::between(old, new));
                }
                _ => {
                    patch.set.insert(key.clone(), new.clone());
                }
            }
        }
        patch.drop = from.keys().filter(|key| !to.contains_key(*key)).cloned().collect();
        patch
    }

    /// Returns whether there is nothing to change.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes the change.
    pub(crate) fn apply(self, object: &mut Map<String, Value>) {
        for key in &self.drop {
            object.remove(key);
        }
        // A patch for an object that is gone belongs to something that an edit took away.
        for (key, patch) in self.inner {
            if let Some(Value::Object(member)) = object.get_mut(&key) {
                patch.apply(member);
            }
        }
        object.extend(self.set);
    }
}

/// Merges what a body says (`theirs`) into what Haft knows (`base`).
///
/// `shadow` is what a body that nobody touched would say of `base`. Wherever the body says the
/// same, the base stands; wherever it says something else, somebody edited it, and the edit wins.
pub(crate) fn merge(
    mut base: Map<String, Value>,
    shadow: &Map<String, Value>,
    theirs: Map<String, Value>,
) -> Map<String, Value> {
    for key in shadow.keys().filter(|key| !theirs.contains_key(*key)) {
        base.remove(key);
    }
    for (key, new) in theirs {
        match (new, shadow.get(&key)) {
            (new, Some(old)) if new == *old => {}
            (Value::Object(new), Some(Value::Object(old))) => {
                let known = match base.remove(&key) {
                    Some(Value::Object(known)) => known,
                    _ => old.clone(),
                };
                base.insert(key, Value::Object(merge(known, old, new)));
            }
            (new, _) => {
                base.insert(key, new);
            }
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json_object;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("not an object: {other}"),
        }
    }

    proptest! {
        #[test]
        fn a_patch_takes_one_object_to_the_other(from in json_object(), to in json_object()) {
            let patch = Patch::between(&from, &to);
            let written = serde_json::to_value(&patch).unwrap();
            let read: Patch = serde_json::from_value(written).unwrap();
            let mut result = from.clone();
            read.apply(&mut result);
            prop_assert_eq!(&result, &to);
            prop_assert_eq!(patch.is_empty(), from == to);
        }

        #[test]
        fn an_untouched_body_leaves_the_base_as_it_is(base in json_object(), body in json_object()) {
            prop_assert_eq!(merge(base.clone(), &body, body.clone()), base);
        }
    }

    #[test]
    fn an_edit_wins_and_what_it_does_not_mention_stays() {
        let base = object(json!({"class": "timeout", "message": "slow", "debug": "t=15"}));
        let shadow = object(json!({"class": "tool_error", "message": "slow"}));
        let edited = object(json!({"class": "tool_error", "message": "too slow"}));
        let merged = merge(base, &shadow, edited);
        let expected = json!({"class": "timeout", "message": "too slow", "debug": "t=15"});
        assert_eq!(Value::Object(merged), expected);
    }
}
