//! Schemas that can never work: nothing fits them, or they show a secret to every model.

use std::collections::BTreeSet;

use haft_core::tool::Definition;
use serde_json::{Map, Value};

use super::{Code, Report, Severity};
use crate::toolbox::Redactor;

/// How many schemas within one are looked at; whatever is left is taken to be all right.
const LOOKED_AT_MAX: usize = 10_000;

/// Names of members whose text is a secret. A default for one is a secret that everybody is shown.
const SECRET_NAMES: [&str; 16] = [
    "access_key",
    "access_token",
    "api_key",
    "api_token",
    "apikey",
    "auth_token",
    "authorization",
    "bearer_token",
    "client_secret",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "secret_key",
];

pub(super) fn check(definition: &Definition, report: &mut Report<'_>) {
    let input = definition.input_schema.value();
    if !Types::of(input).has(Types::OBJECT) {
        let fix = "correct the schema: as it is, every call would be refused";
        let code = (Severity::Error, Code::Unsatisfiable);
        report.add(code, "input_schema", "no arguments can fit it", fix);
    }
    check_defaults("input_schema", input, report);
    if let Some(output) = &definition.output_schema {
        if Types::of(output.value()) == Types::NONE {
            let fix = "correct the schema, or leave it out: as it is, every call would fail";
            let code = (Severity::Error, Code::Unsatisfiable);
            report.add(code, "output_schema", "no result can fit it", fix);
        }
        check_defaults("output_schema", output.value(), report);
    }
}

fn check_defaults(field: &'static str, schema: &Value, report: &mut Report<'_>) {
    if let Some(place) = secret_default(schema, "", &Redactor::default()) {
        let found = format!("the default of `{place}` is a secret");
        let fix = "leave the default out; keep the secret in a vault or declare it injected";
        report.add((Severity::Error, Code::SecretDefault), field, found, fix);
    }
}

/// Returns the place of the first default that is a secret, by its name or by how it looks.
fn secret_default(schema: &Value, name: &str, redactor: &Redactor) -> Option<String> {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => {
            return items.iter().find_map(|item| secret_default(item, name, redactor));
        }
        _ => return None,
    };
    let is_secret = |text: &str| {
        let is_named = SECRET_NAMES.contains(&name.to_ascii_lowercase().replace('-', "_").as_str());
        (is_named && !text.trim().is_empty()) || redactor.text(text) != text
    };
    if members.get("default").and_then(Value::as_str).is_some_and(is_secret) {
        return Some(if name.is_empty() { "the whole".to_owned() } else { name.to_owned() });
    }
    members.iter().find_map(|(key, inner)| match (key.as_str(), inner) {
        ("properties" | "$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
            named.iter().find_map(|(name, inner)| secret_default(inner, name, redactor))
        }
        ("default" | "const" | "enum" | "examples", _) => None,
        (_, inner) => secret_default(inner, name, redactor),
    })
}

/// The types of values that can fit a schema, as far as that is certain: what is in it may turn out
/// not to fit, what is not in it cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Types(u8);

impl Types {
    const NONE: Self = Self(0);
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const NUMBER: Self = Self(4);
    const STRING: Self = Self(8);
    const ARRAY: Self = Self(16);
    const OBJECT: Self = Self(32);
    const ALL: Self = Self(63);

    fn of(schema: &Value) -> Self {
        Looking { root: schema, within: BTreeSet::new(), left: LOOKED_AT_MAX }.types(schema)
    }

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "number" | "integer" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ALL,
        }
    }

    const fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// A look at a schema and what is within it.
struct Looking<'a> {
    root: &'a Value,
    /// The references that are being followed. What needs itself to fit is never finished.
    within: BTreeSet<&'a str>,
    left: usize,
}

impl<'a> Looking<'a> {
    fn types(&mut self, schema: &'a Value) -> Types {
        if self.left == 0 {
            return Types::ALL;
        }
        self.left -= 1;
        let members = match schema {
            Value::Bool(false) => return Types::NONE,
            Value::Object(members) => members,
            _ => return Types::ALL,
        };
        let mut types = declared(members);
        for (key, combined) in
            [("allOf", Types::ALL), ("anyOf", Types::NONE), ("oneOf", Types::NONE)]
        {
            let Some(parts) = members.get(key).and_then(Value::as_array) else { continue };
            let each = parts.iter().map(|part| self.types(part));
            let within = match key {
                "allOf" => each.fold(combined, Types::and),
                _ => each.fold(combined, Types::or),
            };
            types = types.and(within);
        }
        if let Some(target) = members.get("$ref").and_then(Value::as_str) {
            types = types.and(self.referred(target));
        }
        if matches!(members.get("not"), Some(Value::Bool(true))) {
            return Types::NONE;
        }
        self.bounded(members, types)
    }

    fn referred(&mut self, target: &'a str) -> Types {
        let Some(pointer) = target.strip_prefix('#') else { return Types::ALL };
        let Some(found) = self.root.pointer(pointer) else { return Types::ALL };
        if !self.within.insert(target) {
            return Types::NONE;
        }
        let types = self.types(found);
        self.within.remove(target);
        types
    }

    /// Takes out the types of which the bounds leave nothing.
    fn bounded(&mut self, members: &'a Map<String, Value>, mut types: Types) -> Types {
        if is_empty_range(members) {
            types = types.without(Types::NUMBER);
        }
        if is_more(members, "minLength", "maxLength") {
            types = types.without(Types::STRING);
        }
        if is_more(members, "minItems", "maxItems") {
            types = types.without(Types::ARRAY);
        }
        if is_more(members, "minProperties", "maxProperties") {
            types = types.without(Types::OBJECT);
        }
        if types.has(Types::OBJECT) && !self.has_required(members) {
            types = types.without(Types::OBJECT);
        }
        types
    }

    /// Returns whether an object can have everything that it must.
    fn has_required(&mut self, members: &'a Map<String, Value>) -> bool {
        let required = members.get("required").and_then(Value::as_array);
        let properties = members.get("properties").and_then(Value::as_object);
        let is_closed = members.get("additionalProperties") == Some(&Value::Bool(false))
            && !members.contains_key("patternProperties");
        required.into_iter().flatten().filter_map(Value::as_str).all(|name| {
            match properties.and_then(|properties| properties.get(name)) {
                Some(inner) => self.types(inner) != Types::NONE,
                None => !is_closed,
            }
        })
    }
}

/// The types that a schema names, or that its values have.
fn declared(members: &Map<String, Value>) -> Types {
    let named = match members.get("type") {
        Some(Value::String(name)) => Types::named(name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).map(Types::named).fold(Types::NONE, Types::or)
        }
        _ => Types::ALL,
    };
    let listed = members.get("enum").and_then(Value::as_array);
    let values = match (members.get("const"), listed) {
        (Some(one), Some(listed)) if !listed.contains(one) => Types::NONE,
        (Some(one), _) => Types::of_value(one),
        (None, Some(listed)) => listed.iter().map(Types::of_value).fold(Types::NONE, Types::or),
        (None, None) => Types::ALL,
    };
    named.and(values)
}

fn is_more(members: &Map<String, Value>, least: &str, most: &str) -> bool {
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    matches!((number(least), number(most)), (Some(least), Some(most)) if least > most)
}

fn is_empty_range(members: &Map<String, Value>) -> bool {
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let touches = |least: &str, most: &str| matches!((number(least), number(most)), (Some(least), Some(most)) if least >= most);
    is_more(members, "minimum", "maximum")
        || touches("exclusiveMinimum", "maximum")
        || touches("minimum", "exclusiveMaximum")
        || touches("exclusiveMinimum", "exclusiveMaximum")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nothing_fits_is_found() {
        let impossible = [
            json!(false),
            json!({"type": "object", "required": ["a"], "properties": {"a": false}}),
            json!({"type": "object", "required": ["a"], "additionalProperties": false}),
            json!({"type": "object", "required": ["n"],
                   "properties": {"n": {"type": "integer", "minimum": 5, "maximum": 4}}}),
            json!({"type": "object", "required": ["s"],
                   "properties": {"s": {"type": "string", "enum": [1, 2]}}}),
            json!({"type": "object", "required": ["s"], "properties": {"s": {"enum": []}}}),
            json!({"type": "object", "allOf": [{"type": "string"}]}),
            json!({"type": "object", "anyOf": [{"type": "string"}, false]}),
            json!({"type": "object", "minProperties": 2, "maxProperties": 1}),
            json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "object", "not": true}),
        ];
        for schema in impossible {
            assert!(!Types::of(&schema).has(Types::OBJECT), "{schema}");
        }
    }

    #[test]
    fn what_something_fits_is_let_through() {
        let possible = [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": false}}),
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "object", "required": ["n"],
                   "properties": {"n": {"type": ["integer", "null"], "minimum": 5, "maximum": 4}}}),
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "object", "required": ["a"], "properties": {
                   "a": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}}),
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        ];
        for schema in possible {
            assert!(Types::of(&schema).has(Types::OBJECT), "{schema}");
        }
    }

    #[test]
    fn a_default_that_is_a_secret_is_found() {
        let place = |schema: Value| secret_default(&schema, "", &Redactor::default());
        let named = json!({"properties": {"password": {"type": "string", "default": "hunter2"}}});
        assert_eq!(place(named).as_deref(), Some("password"));
        let shaped = json!({"properties": {"a": {"anyOf": [
            {"default": "sk-proj-CANARY000000000000000000"}]}}});
        assert_eq!(place(shaped).as_deref(), Some("a"));
        let plain = json!({"properties": {"password": {"default": ""}, "max_tokens": {"default": 5},
            "page_token": {"default": "first"}, "secret": {"enum": ["a"]}}});
        assert_eq!(place(plain), None);
    }
}
