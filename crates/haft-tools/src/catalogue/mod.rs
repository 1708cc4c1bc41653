//! What the managed tools are, as plain data: the one place from which they are registered,
//! listed and documented.

mod agent_toolset;
mod files;
mod sandbox;
mod shell;

pub use agent_toolset::{AGENT_TOOLSET, agent_tool_name, agent_toolset, agent_wire_name};

use haft_core::ToolName;
use haft_core::tool::{
    DeclaredEffect, Definition, Facets, FsAccess, Gate, Idempotency, Mutates, NotFor, ProcessUse,
    Routing, Schema,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What every managed tool of the file, command, shell and sandbox families declares.
pub fn catalogue() -> Vec<Definition> {
    [files::definitions(), shell::definitions(), sandbox::definitions()].concat()
}

/// The managed tool of a name.
pub(crate) fn definition(name: &str) -> Definition {
    let mut all = catalogue().into_iter().chain(agent_toolset());
    let found = all.find(|definition| definition.name.as_str() == name);
    found.unwrap_or_else(|| unreachable!("`{name}` is in the catalogue"))
}

/// When to use a tool, and when another.
struct Routed {
    does: &'static str,
    use_when: &'static str,
    not_for: &'static [(&'static str, &'static str)],
}

impl Routed {
    fn description(&self) -> String {
        let instead = self.not_for.iter();
        let instead = instead.map(|(case, tool)| format!(" For {case}, use `{tool}` instead."));
        format!("{}. Use when {}.{}", self.does, self.use_when, instead.collect::<String>())
    }

    fn routing(&self) -> Routing {
        let not_for = self.not_for.iter();
        let not_for = not_for
            .map(|(case, tool)| NotFor { case: (*case).to_owned(), instead: named(tool) })
            .collect();
        Routing {
            does: self.does.to_owned(),
            use_when: self.use_when.to_owned(),
            not_for,
            source: None,
        }
    }
}

fn define(name: &str, routed: &Routed, input: &Value) -> Definition {
    let mut definition = Definition::new(named(name), routed.description(), schema(input));
    definition.routing = Some(routed.routing());
    definition.tags = vec!["managed".to_owned()];
    definition.gate = Gate::Auto;
    definition
}

/// A closed object with these properties, of which some are required.
fn object(required: &[&str], properties: Value) -> Value {
    let mut object = json!({ "type": "object", "properties": {}, "required": required });
    object["properties"] = properties;
    object["additionalProperties"] = json!(false);
    object
}

/// What `read` … `sandbox_execute` answer with, whichever of them was called.
fn sandbox_result() -> Schema {
    schema(&json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "name": { "type": "string" },
            "text": { "type": ["string", "null"] },
            "output": {},
            "artifacts": { "type": "array" },
            "usage": { "type": "object" },
            "error": { "type": ["object", "null"] },
        },
        "required": ["ok", "name", "text", "output", "artifacts", "usage", "error"],
    }))
}

fn looks(effects: &[DeclaredEffect]) -> Facets {
    Facets {
        mutates: Some(Mutates::None),
        reach: Some(BTreeSet::new()),
        fs: Some(FsAccess::ReadOnly { roots: vec!["/".to_owned()] }),
        process: Some(ProcessUse::None),
        effects: effects.iter().copied().collect(),
        ..Facets::default()
    }
}

fn changes(idempotency: Idempotency, effects: &[DeclaredEffect]) -> Facets {
    Facets {
        mutates: Some(Mutates::Bounded),
        fs: Some(FsAccess::ReadWrite { roots: vec!["/".to_owned()] }),
        idempotency: Some(idempotency),
        ..looks(effects)
    }
}

/// A name of the catalogue.
pub(crate) fn named(name: &str) -> ToolName {
    ToolName::new(name).unwrap_or_else(|error| unreachable!("a name of the catalogue: {error}"))
}

fn schema(value: &Value) -> Schema {
    Schema::from_value(value)
        .unwrap_or_else(|error| unreachable!("a schema of the catalogue: {error}"))
}

/// A property that is a text.
fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// A property that is a whole number within bounds.
fn number(least: u64, most: u64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most, "description": description })
}

/// A property that is yes or no.
fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// An object's properties with more of them.
fn with(properties: Value, more: Value) -> Value {
    let members = |value| match value {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    let mut all = members(properties);
    all.extend(members(more));
    Value::Object(all)
}
