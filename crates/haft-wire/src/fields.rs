//! Reading the members of an object that came from outside, strictly.
//!
//! Every member is taken out by name and type. What is missing, of another type or outside a
//! closed vocabulary is refused with its place, what was expected and what was found. A reader
//! ends with [`Fields::close`], which refuses what is left, or with [`Fields::rest`].

use haft_core::json::type_name;
use haft_core::tool::{Definition, Schema};
use haft_core::{ProviderCallId, ToolName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::error::{Kind, LiftError};

/// How much of an unexpected text an error repeats.
const FOUND_CHARS_MAX: usize = 80;

/// A place in a body.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    dialect: Dialect,
    kind: Kind,
    path: String,
}

impl Place {
    pub(crate) fn top(dialect: Dialect, kind: Kind) -> Self {
        Self { dialect, kind, path: String::new() }
    }

    /// Returns the place of a member.
    pub(crate) fn at(&self, key: &str) -> Self {
        let path = format!("{}/{}", self.path, key.replace('~', "~0").replace('/', "~1"));
        Self { path, ..*self }
    }

    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> LiftError {
        let path = self.path.clone();
        LiftError::mismatch((self.dialect, self.kind), path, expected.into(), found.into())
    }

    /// Expects an object here.
    pub(crate) fn fields(self, value: Value) -> Result<Fields, LiftError> {
        match value {
            Value::Object(members) => Ok(Fields { place: self, members, known: Vec::new() }),
            other => Err(self.error("an object", describe(&other))),
        }
    }

    /// Expects a JSON Schema here.
    pub(crate) fn schema(&self, value: &Value) -> Result<Schema, LiftError> {
        Schema::from_value(value).map_err(|error| self.error("a JSON Schema", error.to_string()))
    }
}

/// Says what a value is, so that a person recognises it.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::String(text) => {
            format!("`{}`", text.chars().take(FOUND_CHARS_MAX).collect::<String>())
        }
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::Null | Value::Array(_) | Value::Object(_) => type_name(value).to_owned(),
    }
}

/// The members of an object that are still to be read.
#[derive(Debug)]
pub(crate) struct Fields {
    place: Place,
    members: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Takes a member out, if it is there.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.members.remove(key)
    }

    /// Takes out a member that must be there, whatever its type.
    pub(crate) fn need(&mut self, key: &'static str, expected: &str) -> Result<Value, LiftError> {
        let place = self.place.at(key);
        self.take(key).ok_or_else(|| place.error(expected, "nothing"))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.members.contains_key(key)
    }

    fn required<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        convert: fn(Value) -> Result<T, Value>,
    ) -> Result<T, LiftError> {
        let value = self.need(key, expected)?;
        convert(value).map_err(|other| self.place.at(key).error(expected, describe(&other)))
    }

    fn optional<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        convert: fn(Value) -> Result<T, Value>,
    ) -> Result<Option<T>, LiftError> {
        if !self.has(key) {
            self.known.push(key);
            return Ok(None);
        }
        self.required(key, expected, convert).map(Some)
    }

    pub(crate) fn string(&mut self, key: &'static str) -> Result<String, LiftError> {
        self.required(key, "a string", string)
    }

    pub(crate) fn optional_string(
        &mut self,
        key: &'static str,
    ) -> Result<Option<String>, LiftError> {
        self.optional(key, "a string", string)
    }

    pub(crate) fn boolean(&mut self, key: &'static str) -> Result<bool, LiftError> {
        self.required(key, "`true` or `false`", boolean)
    }

    pub(crate) fn optional_boolean(
        &mut self,
        key: &'static str,
    ) -> Result<Option<bool>, LiftError> {
        self.optional(key, "`true` or `false`", boolean)
    }

    pub(crate) fn whole(&mut self, key: &'static str) -> Result<u64, LiftError> {
        self.required(key, "a whole number of at least 0", whole)
    }

    pub(crate) fn optional_whole(&mut self, key: &'static str) -> Result<Option<u64>, LiftError> {
        self.optional(key, "a whole number of at least 0", whole)
    }

    pub(crate) fn object(&mut self, key: &'static str) -> Result<Map<String, Value>, LiftError> {
        self.required(key, "an object", object)
    }

    pub(crate) fn optional_object(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Map<String, Value>>, LiftError> {
        self.optional(key, "an object", object)
    }

    pub(crate) fn array(&mut self, key: &'static str) -> Result<Vec<Value>, LiftError> {
        self.required(key, "an array", array)
    }

    /// Takes out a member that is there but may be `null`, which counts as absent.
    pub(crate) fn nullable(&mut self, key: &'static str) -> Result<Option<Value>, LiftError> {
        Ok(Some(self.need(key, "a value or `null`")?).filter(|value| !value.is_null()))
    }

    /// Takes out a member of a closed vocabulary.
    pub(crate) fn one_of<T: Serialize + Copy>(
        &mut self,
        key: &'static str,
        words: &[T],
    ) -> Result<T, LiftError> {
        let value = self.need(key, &known_words(words))?;
        let found = words.iter().copied().find(|word| canonical(word) == value);
        found.ok_or_else(|| self.place.at(key).error(known_words(words), describe(&value)))
    }

    /// Takes out a member of a closed vocabulary, if it is there.
    pub(crate) fn optional_one_of<T: Serialize + Copy>(
        &mut self,
        key: &'static str,
        words: &[T],
    ) -> Result<Option<T>, LiftError> {
        if !self.has(key) {
            self.known.push(key);
            return Ok(None);
        }
        self.one_of(key, words).map(Some)
    }

    /// Takes out a member that has the same form in the canonical model.
    pub(crate) fn typed<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        expected: &str,
    ) -> Result<T, LiftError> {
        let value = self.need(key, expected)?;
        let place = self.place.at(key);
        serde_json::from_value(value).map_err(|error| place.error(expected, error.to_string()))
    }

    /// Takes out a member that has the same form in the canonical model, if it is there.
    pub(crate) fn optional_typed<T: DeserializeOwned>(
        &mut self,
        key: &'static str,
        expected: &str,
    ) -> Result<Option<T>, LiftError> {
        if !self.has(key) {
            self.known.push(key);
            return Ok(None);
        }
        self.typed(key, expected).map(Some)
    }

    /// Takes out a canonical tool name.
    pub(crate) fn name(&mut self, key: &'static str) -> Result<ToolName, LiftError> {
        let text = self.string(key)?;
        let place = self.place.at(key);
        ToolName::new(&text)
            .map_err(|error| place.error("a tool name", format!("`{text}` ({error})")))
    }

    /// Takes out a provider's call id.
    pub(crate) fn call_id(&mut self, key: &'static str) -> Result<ProviderCallId, LiftError> {
        let text = self.string(key)?;
        let place = self.place.at(key);
        ProviderCallId::new(text).map_err(|error| place.error("a call id", error.to_string()))
    }

    pub(crate) fn schema(&mut self, key: &'static str) -> Result<Schema, LiftError> {
        let value = self.need(key, "a JSON Schema")?;
        self.place.at(key).schema(&value)
    }

    pub(crate) fn optional_schema(
        &mut self,
        key: &'static str,
    ) -> Result<Option<Schema>, LiftError> {
        let place = self.place.at(key);
        self.take(key).map(|value| place.schema(&value)).transpose()
    }

    /// Takes out the three members that every definition has.
    pub(crate) fn definition(&mut self, schema: &'static str) -> Result<Definition, LiftError> {
        let name = self.name("name")?;
        let description = self.string("description")?;
        Ok(Definition::new(name, description, self.schema(schema)?))
    }

    /// Refuses a member that the dialect forbids.
    pub(crate) fn forbid(&self, key: &str, fix: &'static str) -> Result<(), LiftError> {
        match self.members.get(key) {
            None => Ok(()),
            Some(value) => {
                let found = describe(value);
                Err(self.place.at(key).error("no such member", found).with_fix(fix))
            }
        }
    }

    /// Reads the members of an object below.
    pub(crate) fn nested(&mut self, key: &'static str) -> Result<Self, LiftError> {
        let value = self.need(key, "an object")?;
        self.place.at(key).fields(value)
    }

    /// Reads the members of an object below, if it is there.
    pub(crate) fn optional_nested(&mut self, key: &'static str) -> Result<Option<Self>, LiftError> {
        let place = self.place.at(key);
        self.take(key).map(|value| place.fields(value)).transpose()
    }

    /// Ends the reading of a closed object.
    pub(crate) fn close(self) -> Result<(), LiftError> {
        let Some(unknown) = self.members.keys().next() else { return Ok(()) };
        let known: Vec<_> = self.known.iter().map(|key| format!("`{key}`")).collect();
        let found = format!("`{}`", unknown.chars().take(FOUND_CHARS_MAX).collect::<String>());
        Err(self.place.error(format!("only {}", known.join(", ")), found))
    }

    /// Ends the reading of an open object, and returns what is left.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.members
    }
}

fn known_words<T: Serialize>(words: &[T]) -> String {
    let words: Vec<_> = words.iter().map(|word| describe(&canonical(word))).collect();
    format!("one of {}", words.join(", "))
}

/// Writes a canonical value as JSON.
#[expect(
    clippy::expect_used,
    reason = "canonical types have string keys and infallible serializers, and every property \
              test writes them"
)]
pub(crate) fn canonical<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("a canonical value is JSON")
}

fn string(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(other),
    }
}

fn boolean(value: Value) -> Result<bool, Value> {
    value.as_bool().ok_or(value)
}

fn whole(value: Value) -> Result<u64, Value> {
    value.as_u64().ok_or(value)
}

fn object(value: Value) -> Result<Map<String, Value>, Value> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(other),
    }
}

fn array(value: Value) -> Result<Vec<Value>, Value> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(other),
    }
}
