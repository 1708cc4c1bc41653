//! JSON pointers (RFC 6901): how policies name a part of some arguments or a result.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

/// A path to one place in a JSON document, such as `/amount` or `/rows/0/id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonPointer(Box<str>);

impl JsonPointer {
    /// Reads a pointer; the empty text points at the whole document.
    ///
    /// # Errors
    ///
    /// When it does not start with `/` or holds a `~` that is not `~0` or `~1`.
    pub fn new(text: &str) -> Result<Self, PointerError> {
        let rooted = text.is_empty() || text.starts_with('/');
        let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if rooted && escaped { Ok(Self(text.into())) } else { Err(PointerError::new(text)) }
    }

    /// Returns the pointer as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what the pointer names in an object, if anything.
    pub fn find<'a>(&self, object: &'a Map<String, Value>) -> Option<&'a Value> {
        let mut steps = self.steps();
        let first = object.get(&steps.next()?)?;
        steps.try_fold(first, |value, step| match value {
            Value::Object(map) => map.get(&step),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Puts `value` in the place that the pointer names, if there is such a place.
    pub fn replace(&self, object: &mut Map<String, Value>, value: Value) {
        let mut steps = self.steps();
        let Some(mut place) = steps.next().and_then(|step| object.get_mut(&step)) else { return };
        for step in steps {
            let next = match place {
                Value::Object(map) => map.get_mut(&step),
                Value::Array(items) => step.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            };
            let Some(next) = next else { return };
            place = next;
        }
        *place = value;
    }

    fn steps(&self) -> impl Iterator<Item = String> + '_ {
        self.0.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for JsonPointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        Self::new(text)
    }
}

impl Serialize for JsonPointer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for JsonPointer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A text that is not a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a JSON pointer like `/rows/0/id`, found `{found}`")]
pub struct PointerError {
    found: String,
}

impl PointerError {
    fn new(found: &str) -> Self {
        Self { found: found.chars().take(80).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pointer_finds_and_replaces_what_it_names() {
        let doc = json!({"rows": [{"a/b": 1}], "~": 2});
        let mut doc = doc.as_object().cloned().unwrap();
        let find =
            |p: &str, doc: &Map<String, Value>| JsonPointer::new(p).unwrap().find(doc).cloned();
        assert_eq!(find("/rows/0/a~1b", &doc), Some(json!(1)));
        assert_eq!(find("/~0", &doc), Some(json!(2)));
        assert_eq!(find("/rows/1", &doc), None);
        assert_eq!(find("/~0/x", &doc), None);
        JsonPointer::new("/rows/0/a~1b").unwrap().replace(&mut doc, json!("x"));
        JsonPointer::new("/nowhere/0").unwrap().replace(&mut doc, json!("x"));
        JsonPointer::new("/rows/7").unwrap().replace(&mut doc, json!("x"));
        assert_eq!(Value::Object(doc), json!({"rows": [{"a/b": "x"}], "~": 2}));
    }

    #[test]
    fn a_text_that_is_no_pointer_is_refused() {
        for bad in ["a", "/~", "/~2"] {
            assert!(JsonPointer::new(bad).is_err(), "{bad}");
        }
    }
}
