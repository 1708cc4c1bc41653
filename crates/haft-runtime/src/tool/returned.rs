//! From what a function returns to what a call gives: how `#[tool]` takes any return type.
//!
//! The methods are found by name: an inherent one for the types that mean something special here,
//! else the one of a trait that is there for every type. So a `Result` is a result and a `String`
//! is a text although both could be serialised like anything else.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use haft_core::session::Returned;
use haft_core::tool::Schema;
use haft_core::{CallResult, Output};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::error::ToolError;
use super::written::schema_of_output;

/// What a tool's function returned.
#[derive(Debug)]
pub struct Returning<T>(pub T);

/// Why a tool's function failed.
#[derive(Debug)]
pub struct Failing<E>(pub E);

/// The type that a tool's function returns.
#[derive(Debug)]
pub struct OutputOf<T>(PhantomData<T>);

impl<T, E> Returning<Result<T, E>> {
    /// Tells a value from a failure.
    pub fn split(self) -> Result<Returning<T>, Failing<E>> {
        self.0.map(Returning).map_err(Failing)
    }
}

/// Every type that is no `Result`: a value.
pub trait Succeeding<T> {
    /// Tells that there is no failure.
    fn split(self) -> Result<Returning<T>, Failing<Infallible>>;
}

impl<T> Succeeding<T> for Returning<T> {
    fn split(self) -> Result<Self, Failing<Infallible>> {
        Ok(self)
    }
}

impl Returning<Returned> {
    /// Gives it as it is.
    pub fn into_returned(self) -> Result<Returned, ToolError> {
        Ok(self.0)
    }
}

impl Returning<Output> {
    /// Gives it as it is.
    pub fn into_returned(self) -> Result<Returned, ToolError> {
        Ok(CallResult::Ok(self.0).into())
    }
}

impl Returning<String> {
    /// Gives it to the model as text, and to programs as a value.
    pub fn into_returned(self) -> Result<Returned, ToolError> {
        let value = Some(Value::String(self.0.clone()));
        Ok(CallResult::Ok(Output { value, ..Output::of_text(self.0) }).into())
    }
}

impl Returning<&str> {
    /// Gives it to the model as text, and to programs as a value.
    pub fn into_returned(self) -> Result<Returned, ToolError> {
        Returning(self.0.to_owned()).into_returned()
    }
}

/// Every type that means nothing special: a structured value.
pub trait Structured<T> {
    /// Gives the value.
    ///
    /// # Errors
    ///
    /// When it cannot be written as JSON.
    fn into_returned(self) -> Result<Returned, ToolError>
    where
        T: Serialize;
}

impl<T> Structured<T> for Returning<T> {
    fn into_returned(self) -> Result<Returned, ToolError>
    where
        T: Serialize,
    {
        let value = serde_json::to_value(self.0).map_err(|error| {
            ToolError::internal(format!("the tool's result cannot be written as JSON: {error}"))
        })?;
        Ok(CallResult::Ok(Output::of_value(value)).into())
    }
}

/// Errors that say themselves what they are to a tool.
pub trait Telling {
    /// Turns it into a tool's error.
    fn into_tool_error(self) -> ToolError;
}

impl<E: Into<ToolError>> Telling for Failing<E> {
    fn into_tool_error(self) -> ToolError {
        self.0.into()
    }
}

/// Errors that can only be printed: `String`, `Box<dyn Error>`, `anyhow::Error`.
pub trait Printing {
    /// Turns it into a tool's error.
    fn into_tool_error(self) -> ToolError;
}

impl<E: fmt::Display> Printing for &Failing<E> {
    fn into_tool_error(self) -> ToolError {
        let (short, long) = (self.0.to_string(), format!("{:#}", self.0));
        if short == long {
            return ToolError::new(short);
        }
        ToolError::new(short).with_debug(long)
    }
}

impl<T, E> OutputOf<Result<T, E>> {
    /// Describes the value of a success.
    pub fn schema(tool: &str) -> Schema
    where
        T: JsonSchema,
    {
        schema_of_output::<T>(tool)
    }
}

/// Every type that is no `Result`: a value.
pub trait Describing {
    /// Describes the value.
    fn schema(tool: &str) -> Schema;
}

impl<T: JsonSchema> Describing for OutputOf<T> {
    fn schema(tool: &str) -> Schema {
        schema_of_output::<T>(tool)
    }
}
