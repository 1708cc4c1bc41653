//! The registry and its schemas: what is taken, what is admitted, what is offered.

mod admission;
mod adversarial;
mod advertising;
mod lint;
mod mutants;
mod published;
mod registration;
mod schema;
mod suite;

use std::sync::Arc;

use haft_core::session::Returned;
use haft_core::tool::{Definition, Schema};
use haft_runtime::schema::Validator;
use haft_runtime::{FunctionTool, Tool, ToolArguments, ToolContext, ToolError};
use serde_json::{Map, Value};

fn validator(schema: &Value) -> Validator {
    Validator::compile(&Schema::from_value(schema).unwrap()).unwrap()
}

fn definition(name: &str, schema: &Value) -> Definition {
    let schema = Schema::from_value(schema).unwrap();
    Definition::new(name.parse().unwrap(), format!("Does {name}. Use when asked to."), schema)
}

/// A server tool; nothing here runs it.
fn tool(definition: Definition) -> impl Tool {
    FunctionTool::new(definition, |_: ToolArguments, _: ToolContext| async {
        Err::<Returned, _>(ToolError::new("these tests run no tool"))
    })
}

fn arc(definition: Definition) -> Arc<dyn Tool> {
    Arc::new(tool(definition))
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("not an object: {value}") };
    object
}

fn lines(text: &str) -> impl Iterator<Item = Value> + '_ {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}
