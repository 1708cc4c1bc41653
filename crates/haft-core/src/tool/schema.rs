//! JSON Schema documents, kept exactly as they were written.
//!
//! A schema is stored verbatim, hashed, and compiled once by the runtime. What a provider is
//! sent is derived from it and never replaces it: arguments are validated against this document.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::digest::Digest;
use crate::json::{self, DEPTH_MAX, JsonError, JsonLimits, Purpose};

/// A JSON Schema document: its text as given, its value, its hash.
#[derive(Clone)]
pub struct Schema {
    text: Arc<RawValue>,
    value: Arc<Value>,
    hash: Digest,
}

/// How much schema is taken: deep enough for real ones, too shallow for bombs.
const LIMITS: JsonLimits =
    JsonLimits { purpose: Purpose::ToKeep, bytes_max: 1 << 20, depth_max: DEPTH_MAX };

impl Schema {
    /// Takes a schema as text and keeps that text.
    ///
    /// # Errors
    ///
    /// When the text is not strict JSON, or its value is neither an object nor a boolean.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        let value = json::parse(text.as_bytes(), LIMITS)?;
        if !(value.is_object() || value.is_boolean()) {
            return Err(SchemaError::NotASchema { found: json::type_name(&value) });
        }
        let raw = RawValue::from_string(text.trim().to_owned());
        let raw = raw.map_err(|error| SchemaError::Raw { message: error.to_string() })?;
        let hash = Digest::of_json(&value);
        Ok(Self { text: Arc::from(raw), value: Arc::new(value), hash })
    }

    /// Takes a schema that exists as a value only.
    ///
    /// # Errors
    ///
    /// As [`Schema::new`].
    pub fn from_value(value: &Value) -> Result<Self, SchemaError> {
        Self::new(&value.to_string())
    }

    /// Returns the text as it was given.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// Returns the document as a value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the hash of the canonical form.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Returns whether the document describes an object, as arguments must be.
    pub fn describes_object(&self) -> bool {
        self.value.get("type").and_then(Value::as_str) == Some("object")
    }

    /// Returns whether the document names a property at its top level.
    pub fn names_property(&self, property: &str) -> bool {
        let listed = |key: &str| match self.value.get(key) {
            Some(Value::Object(map)) => map.contains_key(property),
            Some(Value::Array(items)) => items.iter().any(|item| item == property),
            _ => false,
        };
        listed("properties") || listed("required")
    }

    /// Returns the document without the named top-level properties, for definitions that come
    /// from dialects in which injected arguments stand in the schema.
    #[must_use]
    pub fn without_properties(&self, names: &[&str]) -> Self {
        if !names.iter().any(|name| self.names_property(name)) {
            return self.clone();
        }
        let mut value = Value::clone(&self.value);
        if let Some(properties) = value.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|key, _| !names.contains(&key.as_str()));
        }
        if let Some(required) = value.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|item| item.as_str().is_none_or(|item| !names.contains(&item)));
        }
        Self::from_value(&value).unwrap_or_else(|_| self.clone())
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Schema {}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::new(raw.get()).map_err(de::Error::custom)
    }
}

/// Why a document is not taken as a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not strict JSON, or too large, or too deep.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// JSON that cannot be a schema.
    #[error("expected a JSON Schema (an object or a boolean), found {found}")]
    NotASchema {
        /// The type that was found.
        found: &'static str,
    },
    /// JSON that the raw reader refuses although the strict one took it.
    #[error("expected JSON, found trouble: {message}")]
    Raw {
        /// What the raw reader said.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // S4-13: passed through verbatim.
    #[test]
    fn s4_13_a_schema_keeps_its_text_and_its_key_order() {
        let text = r#"{ "type":"object", "properties": {"z":{}, "a":{}} }"#;
        let schema = Schema::new(text).unwrap();
        assert_eq!(schema.text(), text);
        assert_eq!(serde_json::to_string(&schema).unwrap(), text);
        assert_eq!(serde_json::from_str::<Schema>(text).unwrap(), schema);
        let other = Schema::new(r#"{"properties":{"a":{},"z":{}},"type":"object"}"#).unwrap();
        assert_eq!(other.hash(), schema.hash());
        assert_ne!(other, schema);
    }

    #[test]
    fn what_cannot_be_a_schema_is_refused() {
        assert!(Schema::new("7").unwrap_err().to_string().contains("found a number"));
        assert!(Schema::new(r#"{"a":1,"a":2}"#).unwrap_err().to_string().contains("`a` again"));
        let deep = format!("{}true{}", r#"{"not":"#.repeat(500), "}".repeat(500));
        assert!(Schema::new(&deep).unwrap_err().to_string().contains("64 levels"));
        assert!(Schema::new("true").is_ok());
    }

    #[test]
    fn named_properties_can_be_taken_out() {
        let schema = Schema::from_value(&json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "tenant": {"type": "string"}},
            "required": ["city", "tenant"],
        }))
        .unwrap();
        assert!(schema.names_property("tenant"));
        let visible = schema.without_properties(&["tenant"]);
        assert!(!visible.names_property("tenant") && visible.names_property("city"));
        assert_eq!(schema.without_properties(&["nothing"]), schema);
    }
}
