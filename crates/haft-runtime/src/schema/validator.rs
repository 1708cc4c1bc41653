//! The compiled schema.

use std::fmt;
use std::sync::Arc;

use haft_core::JsonPointer;
use haft_core::json::is_deeper_than;
use haft_core::tool::Schema;
use serde_json::{Map, Value};

use super::compile::{CompileError, compile};
use super::cost;
use super::misfit::{Misfit, describe, is_excused};
use super::pattern;

/// Of a larger value only the first violation is looked for: listing them all takes memory.
const DETAIL_VALUES_MAX: usize = 10_000;

/// A schema, compiled once; a clone shares it.
#[derive(Clone)]
pub struct Validator(Arc<Inner>);

struct Inner {
    compiled: jsonschema::Validator,
    detail_depth_max: usize,
}

impl Validator {
    /// Compiles a schema: JSON Schema 2020-12, or the draft that its `$schema` names.
    ///
    /// # Errors
    ///
    /// When it is no schema, refers outside itself, holds a pattern that cannot be matched in
    /// linear time, or would make checking too costly.
    pub fn compile(schema: &Schema) -> Result<Self, CompileError> {
        let cost = cost::count(schema.value())?;
        let compiled = compile(schema.value())?;
        pattern::check(schema.value())?;
        Ok(Self(Arc::new(Inner { compiled, detail_depth_max: cost.detail_depth_max })))
    }

    /// Returns whether a value fits.
    pub fn fits(&self, value: &Value) -> bool {
        self.0.compiled.is_valid(value)
    }

    /// Checks a value.
    ///
    /// # Errors
    ///
    /// When it does not fit; the error says where and why.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
        self.check_except(value, &[])
    }

    /// Checks an object of which some places are not known yet, and gives it back; see
    /// [`Validator::check_except`].
    ///
    /// # Errors
    ///
    /// As [`Validator::check_except`].
    pub fn check_object(
        &self,
        object: Map<String, Value>,
        unknown: &[JsonPointer],
    ) -> Result<Map<String, Value>, Misfit> {
        let value = Value::Object(object);
        self.check_except(&value, unknown)?;
        let Value::Object(object) = value else { unreachable!("it was made of an object") };
        Ok(object)
    }

    /// Checks a value of which some places are not known yet: what is wrong at or below them is
    /// not counted, for it will be something else when the value is used.
    ///
    /// # Errors
    ///
    /// As [`Validator::check`], for every other place.
    pub fn check_except(&self, value: &Value, unknown: &[JsonPointer]) -> Result<(), Misfit> {
        if self.fits(value) {
            return Ok(());
        }
        self.explain(value, unknown)
    }

    #[cold]
    fn explain(&self, value: &Value, unknown: &[JsonPointer]) -> Result<(), Misfit> {
        if is_deeper_than(value, self.0.detail_depth_max) {
            let expected = "a value that fits the schema, less nested for a closer answer";
            return Err(Misfit::whole(expected, &describe(value)));
        }
        let unexplained = || Misfit::whole("a value that fits the schema", &describe(value));
        if !is_larger_than(value, DETAIL_VALUES_MAX) {
            let mut errors = self.0.compiled.iter_errors(value).peekable();
            if errors.peek().is_none() {
                return Err(unexplained());
            }
            let counted = errors.filter(|error| !is_excused(error, unknown));
            return Misfit::of(counted).map_or(Ok(()), Err);
        }
        if !unknown.is_empty() {
            let expected = format!("at most {DETAIL_VALUES_MAX} values beside a reference");
            return Err(Misfit::whole(&expected, "more"));
        }
        let first = self.0.compiled.validate(value).err();
        Err(Misfit::of(first.into_iter()).unwrap_or_else(unexplained))
    }
}

/// Returns whether there are more than `max` values in a value, itself included.
fn is_larger_than(value: &Value, max: usize) -> bool {
    let mut open = vec![value];
    let mut count = 0;
    while let Some(value) = open.pop() {
        count += 1;
        if count + open.len() > max {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}
