//! The schema that a provider is sent, derived from the one that arguments are validated with.
//!
//! References are put in place, keywords that the provider refuses are left out, and a report
//! says what was lost. The canonical schema is never changed, and nothing is fetched: a reference
//! that leaves the document is an error. What a schema can grow to is bounded, so that references
//! to references cannot fill the memory.

use std::collections::BTreeSet;

use haft_core::json::type_name;
use haft_core::tool::Schema;
use serde_json::{Map, Value, json};

/// Whom a schema is derived for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Anthropic's tools.
    Anthropic,
    /// OpenAI's functions, without strict mode.
    OpenAi,
    /// OpenAI's functions in strict mode: every property is required, none may be added, and
    /// what was optional may be null.
    OpenAiStrict,
}

/// A derived schema, and what was lost on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Projected {
    /// What the provider is sent.
    pub schema: Value,
    /// How it differs from the canonical schema.
    pub report: Report,
}

/// How a derived schema differs from its origin. The places are JSON pointers into the derived
/// schema as it nests once references are in place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Keywords that were left out or weakened.
    pub dropped: Vec<String>,
    /// Places where a schema contains itself, left open there.
    pub recursive: Vec<String>,
    /// Optional properties that may be null instead: a null there means that the argument is
    /// absent.
    pub nullable: Vec<String>,
}

impl Report {
    /// Takes out of a model's arguments the nulls that stand for absent ones, so that they fit
    /// the canonical schema. Whoever sends a strict schema calls this before validating.
    pub fn restore_absent(&self, arguments: &mut Map<String, Value>) {
        for pointer in &self.nullable {
            let steps: Vec<&str> = pointer.split('/').skip(1).collect();
            remove_null(arguments, &steps);
        }
    }
}

/// Follows a place in a schema through an object that the schema describes.
fn remove_null(object: &mut Map<String, Value>, steps: &[&str]) {
    match steps {
        ["properties", name] => {
            let name = unescape(name);
            if object.get(&name) == Some(&Value::Null) {
                object.remove(&name);
            }
        }
        ["properties", name, rest @ ..] => {
            if let Some(value) = object.get_mut(&unescape(name)) {
                remove_null_below(value, rest);
            }
        }
        // An alternative describes the same object.
        ["anyOf", _, rest @ ..] => remove_null(object, rest),
        _ => {}
    }
}

fn remove_null_below(value: &mut Value, steps: &[&str]) {
    match (value, steps) {
        (Value::Array(items), ["items", rest @ ..]) => {
            items.iter_mut().for_each(|item| remove_null_below(item, rest));
        }
        (value, ["anyOf", _, rest @ ..]) => remove_null_below(value, rest),
        (Value::Object(object), steps) => remove_null(object, steps),
        (_, _) => {}
    }
}

/// Why no schema can be derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaProjectionError {
    /// The schema is not an object.
    #[error("expected a schema that is an object, found {found}")]
    NotAnObject {
        /// The type that was found.
        found: &'static str,
    },
    /// A reference that leads out of the document.
    #[error(
        "expected references within the document at `{path}`, found `{reference}`; copy the \
         referenced schema into `$defs`, nothing is fetched"
    )]
    Remote {
        /// Where it stands.
        path: String,
        /// The reference.
        reference: String,
    },
    /// A reference to nothing.
    #[error("expected `{reference}` at `{path}` to name a place in the document, found nothing")]
    Unresolved {
        /// Where it stands.
        path: String,
        /// The reference.
        reference: String,
    },
    /// A schema that contains itself, for a target that cannot leave it open.
    #[error(
        "expected a schema without recursion for strict mode, found `{reference}` within itself \
         at `{path}`; use a target without strict mode"
    )]
    Recursive {
        /// Where it stands.
        path: String,
        /// The reference.
        reference: String,
    },
    /// A schema that grows too large when its references are put in place.
    #[error(
        "expected a schema of at most {bytes_max} bytes with its references in place, found more"
    )]
    TooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// A schema that grows too deep when its references are put in place.
    #[error("expected at most {depth_max} levels with references in place, found more at `{path}`")]
    TooDeep {
        /// The limit.
        depth_max: usize,
        /// Where.
        path: String,
    },
}

/// Four times what a schema document may be: room for shared parts, none for bombs.
const BYTES_MAX: usize = 4 << 20;
/// Twice what a schema document may nest.
const DEPTH_MAX: usize = 128;

/// Keywords that mean nothing once references are in place.
const BOOKKEEPING: [&str; 8] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$id",
    "$recursiveAnchor",
    "$schema",
    "$vocabulary",
    "id",
];
/// Keywords that both providers refuse at the top level of a tool's schema.
const NOT_AT_TOP: [&str; 5] = ["allOf", "anyOf", "enum", "not", "oneOf"];
/// The keywords of OpenAI's strict mode.
const STRICT: [&str; 19] = [
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];
/// Keywords that say something to a reader and nothing to a validator.
const ANNOTATIONS: [&str; 8] = [
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
    "$comment",
];

/// Derives the schema that a target is sent.
///
/// # Errors
///
/// When a reference leaves the document or names nothing, when the schema grows beyond bounds, or
/// when strict mode meets recursion.
pub fn project(schema: &Schema, target: Target) -> Result<Projected, SchemaProjectionError> {
    let root = schema.value();
    if !root.is_object() {
        return Err(SchemaProjectionError::NotAnObject { found: type_name(root) });
    }
    let mut walk =
        Walk { root, target, bytes: 0, depth: 0, open: Vec::new(), report: Report::default() };
    let mut derived = walk.schema(root, "")?;
    if let Value::Object(members) = &mut derived {
        for keyword in NOT_AT_TOP {
            if members.remove(keyword).is_some() {
                walk.report.dropped.push(format!("/{keyword}"));
            }
        }
    }
    Ok(Projected { schema: derived, report: walk.report })
}

struct Walk<'a> {
    root: &'a Value,
    target: Target,
    bytes: usize,
    depth: usize,
    /// The references that are being put in place, outermost first.
    open: Vec<&'a str>,
    report: Report,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value, path: &str) -> Result<Value, SchemaProjectionError> {
        if self.depth == DEPTH_MAX {
            return Err(SchemaProjectionError::TooDeep {
                depth_max: DEPTH_MAX,
                path: path.to_owned(),
            });
        }
        let Value::Object(members) = schema else { return self.copy(schema) };
        self.depth += 1;
        let derived = match members.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.reference(reference, members, path)?,
            None => self.members(members, path)?,
        };
        self.depth -= 1;
        Ok(Value::Object(derived))
    }

    fn members(
        &mut self,
        members: &'a Map<String, Value>,
        path: &str,
    ) -> Result<Map<String, Value>, SchemaProjectionError> {
        self.spend(2)?;
        let mut derived = Map::new();
        for (keyword, value) in members {
            let Some(name) = self.keyword(keyword, members, path) else { continue };
            self.spend(name.len() + 4)?;
            let here = format!("{path}/{name}");
            let value = self.keyword_value(keyword, value, &here)?;
            derived.insert(name.to_owned(), value);
        }
        match self.target {
            Target::Anthropic | Target::OpenAi => {}
            Target::OpenAiStrict => self.close_object(&mut derived, path),
        }
        Ok(derived)
    }

    /// Returns the name under which the target takes a keyword, if it does.
    fn keyword(
        &mut self,
        keyword: &'a str,
        members: &Map<String, Value>,
        path: &str,
    ) -> Option<&'a str> {
        // Definitions are no loss: what refers to them has been put in place.
        if matches!(keyword, "$defs" | "definitions" | "$ref") {
            return None;
        }
        let strict = self.target == Target::OpenAiStrict;
        if strict && keyword == "oneOf" && !members.contains_key("anyOf") {
            self.report.dropped.push(format!("{path}/oneOf"));
            return Some("anyOf");
        }
        // `id` names a schema in old drafts, but is a property's name in a map of schemas, which
        // does not come here.
        let meaningless = BOOKKEEPING.contains(&keyword);
        if meaningless || (strict && !STRICT.contains(&keyword)) {
            self.report.dropped.push(format!("{path}/{}", escape(keyword)));
            return None;
        }
        Some(keyword)
    }

    fn keyword_value(
        &mut self,
        keyword: &str,
        value: &'a Value,
        path: &str,
    ) -> Result<Value, SchemaProjectionError> {
        match (keyword, value) {
            ("dependentSchemas" | "patternProperties" | "properties", Value::Object(map)) => {
                let mut derived = Map::new();
                for (key, schema) in map {
                    self.spend(key.len() + 4)?;
                    let here = format!("{path}/{}", escape(key));
                    derived.insert(key.clone(), self.schema(schema, &here)?);
                }
                Ok(Value::Object(derived))
            }
            ("allOf" | "anyOf" | "items" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                let schemas = schemas.iter().enumerate();
                let derived =
                    schemas.map(|(i, schema)| self.schema(schema, &format!("{path}/{i}")));
                Ok(Value::Array(derived.collect::<Result<_, _>>()?))
            }
            (
                "additionalItems"
                | "additionalProperties"
                | "contains"
                | "contentSchema"
                | "else"
                | "if"
                | "items"
                | "not"
                | "propertyNames"
                | "then"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema,
            ) => self.schema(schema, path),
            ("$dynamicRef" | "$recursiveRef", reference) => {
                Err(SchemaProjectionError::Unresolved {
                    path: path.to_owned(),
                    reference: reference.to_string(),
                })
            }
            (_, data) => self.copy(data),
        }
    }

    /// Puts in place what a reference names, with what stands beside the reference.
    fn reference(
        &mut self,
        reference: &'a str,
        members: &'a Map<String, Value>,
        path: &str,
    ) -> Result<Map<String, Value>, SchemaProjectionError> {
        let place = || (path.to_owned(), reference.chars().take(200).collect::<String>());
        let Some(pointer) = reference.strip_prefix('#') else {
            let (path, reference) = place();
            return Err(SchemaProjectionError::Remote { path, reference });
        };
        let Some(named) = self.root.pointer(pointer) else {
            let (path, reference) = place();
            return Err(SchemaProjectionError::Unresolved { path, reference });
        };
        if self.open.contains(&reference) || std::ptr::eq(named, self.root) {
            if self.target == Target::OpenAiStrict {
                let (path, reference) = place();
                return Err(SchemaProjectionError::Recursive { path, reference });
            }
            self.report.recursive.push(path.to_owned());
            return self.members(members, path);
        }
        self.open.push(reference);
        let named = self.schema(named, path)?;
        self.open.pop();
        let beside = self.members(members, path)?;
        let Value::Object(named) = named else {
            // `true` adds nothing; `false` allows nothing, whatever stands beside it.
            let nothing = named == Value::Bool(false);
            return Ok(if nothing { just("not", json!({})) } else { beside });
        };
        if !contradict(&named, &beside) {
            return Ok(named.into_iter().chain(beside).collect());
        }
        match self.target {
            Target::Anthropic | Target::OpenAi => Ok(just("allOf", json!([named, beside]))),
            Target::OpenAiStrict => {
                self.report.dropped.push(format!("{path}/$ref"));
                Ok(beside.into_iter().chain(named).collect())
            }
        }
    }

    /// Makes an object schema one that strict mode takes.
    fn close_object(&mut self, schema: &mut Map<String, Value>, path: &str) {
        let is_object = schema.get("type").is_some_and(|kind| names_type(kind, "object"));
        if !is_object && !schema.contains_key("properties") {
            return;
        }
        let required: BTreeSet<String> = match schema.remove("required") {
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => BTreeSet::new(),
        };
        let old = schema.insert("additionalProperties".into(), Value::Bool(false));
        if old.is_some_and(|old| old != Value::Bool(false)) {
            self.report.dropped.push(format!("{path}/additionalProperties"));
        }
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        let Value::Object(properties) = properties else { return };
        for (name, property) in properties.iter_mut().filter(|(name, _)| !required.contains(*name))
        {
            if make_nullable(property) {
                self.report.nullable.push(format!("{path}/properties/{}", escape(name)));
            }
        }
        let names: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        schema.insert("required".into(), Value::Array(names));
    }

    /// Copies data, which is counted too: a long list behind many references grows like schemas.
    fn copy(&mut self, data: &Value) -> Result<Value, SchemaProjectionError> {
        self.spend(data.to_string().len())?;
        Ok(data.clone())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), SchemaProjectionError> {
        self.bytes += bytes;
        if self.bytes > BYTES_MAX {
            return Err(SchemaProjectionError::TooLarge { bytes_max: BYTES_MAX });
        }
        Ok(())
    }
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

fn names_type(kind: &Value, name: &str) -> bool {
    kind == name || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == name))
}

fn just(keyword: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(keyword.to_owned(), value)])
}

/// Returns whether what a reference names and what stands beside it constrain the same thing
/// differently. Annotations do not: the nearer one describes it better.
fn contradict(named: &Map<String, Value>, beside: &Map<String, Value>) -> bool {
    beside.iter().any(|(keyword, value)| {
        !ANNOTATIONS.contains(&keyword.as_str())
            && named.get(keyword).is_some_and(|other| other != value)
    })
}

/// Lets a schema take null as well, and returns whether it did not before.
fn make_nullable(schema: &mut Value) -> bool {
    let Value::Object(members) = schema else { return false };
    if members.get("type").is_some_and(|kind| names_type(kind, "null")) {
        return false;
    }
    if members.contains_key("const") || !members.contains_key("type") {
        return add_null_branch(members);
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.push(Value::Null);
    }
    match members.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind.take(), "null"]),
        None => {}
    }
    true
}

/// Adds null as one more alternative, beside those that the schema is made of.
fn add_null_branch(members: &mut Map<String, Value>) -> bool {
    let null = json!({"type": "null"});
    let mut branches = match members.remove("anyOf") {
        Some(Value::Array(branches)) if members.is_empty() => branches,
        Some(other) => {
            members.insert("anyOf".into(), other);
            vec![Value::Object(std::mem::take(members))]
        }
        None => vec![Value::Object(std::mem::take(members))],
    };
    let new = !branches.contains(&null);
    if new {
        branches.push(null);
    }
    members.insert("anyOf".into(), Value::Array(branches));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derive(schema: &Value, target: Target) -> Result<Projected, SchemaProjectionError> {
        project(&Schema::from_value(schema).unwrap(), target)
    }

    #[track_caller]
    fn check(schema: &Value, target: Target, expected: &Value) -> Report {
        let projected = derive(schema, target).unwrap();
        assert_eq!(projected.schema, *expected);
        projected.report
    }

    // S3-39: derived, never changed.
    #[test]
    fn s3_39_the_canonical_schema_stays_as_it_is() {
        let text = r##"{"type":"object", "$defs":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##;
        let schema = Schema::new(text).unwrap();
        let hash = schema.hash();
        for target in [Target::Anthropic, Target::OpenAi, Target::OpenAiStrict] {
            project(&schema, target).unwrap();
        }
        assert_eq!((schema.hash(), schema.text()), (hash, text));
    }

    // S3-39: references are put in place, and data that looks like one is left alone.
    #[test]
    fn s3_39_local_references_are_put_in_place() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "definitions": {"old/way": {"type": "integer"}},
            "$defs": {"city": {"type": "string", "description": "a city"}},
            "properties": {
                "from": {"$ref": "#/$defs/city"},
                "to": {"$ref": "#/$defs/city", "description": "where to"},
                "n": {"$ref": "#/definitions/old~1way"},
                "id": {"type": "string"},
                "any": {"default": {"$ref": "https://x"}},
                "both": {"$ref": "#/$defs/city", "type": "number"},
            },
        });
        for target in [Target::Anthropic, Target::OpenAi] {
            let report = check(
                &schema,
                target,
                &json!({
                    "type": "object",
                    "properties": {
                        "from": {"type": "string", "description": "a city"},
                        "to": {"type": "string", "description": "where to"},
                        "n": {"type": "integer"},
                        "id": {"type": "string"},
                        "any": {"default": {"$ref": "https://x"}},
                        "both": {"allOf": [{"type": "string", "description": "a city"}, {"type": "number"}]},
                    },
                }),
            );
            assert_eq!(report.dropped, ["/$schema"]);
        }
    }

    // S3-39: strict mode, with what it cannot say in the report.
    #[test]
    fn s3_39_strict_mode_requires_everything_and_makes_the_optional_nullable() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "minLength": 1},
                "unit": {"type": "string", "enum": ["c", "f"]},
                "kind": {"const": "x"},
                "more": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
                "one": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": ["city"],
            "additionalProperties": true,
        });
        let report = check(
            &schema,
            Target::OpenAiStrict,
            &json!({
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "unit": {"type": ["string", "null"], "enum": ["c", "f", null]},
                    "kind": {"anyOf": [{"const": "x"}, {"type": "null"}]},
                    "more": {
                        "type": ["object", "null"],
                        "properties": {"a": {"type": ["string", "null"]}},
                        "required": ["a"],
                        "additionalProperties": false,
                    },
                    "one": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                },
                "required": ["city", "unit", "kind", "more", "one"],
                "additionalProperties": false,
            }),
        );
        assert_eq!(
            report.dropped,
            ["/properties/city/minLength", "/properties/one/oneOf", "/additionalProperties"]
        );
        assert_eq!(
            report.nullable,
            ["/properties/unit", "/properties/kind", "/properties/more", "/properties/one"]
        );
    }

    // S3-39: what is validated is the canonical schema, so strict mode's nulls are taken out.
    #[test]
    fn s3_39_nulls_that_stand_for_absent_arguments_are_taken_out() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a/b": {"type": "string"},
                "kept": {"type": ["string", "null"]},
                "rows": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
            },
            "required": ["rows"],
        });
        let report = derive(&schema, Target::OpenAiStrict).unwrap().report;
        let mut arguments = json!({"a/b": null, "kept": null, "rows": [{"x": null}, {"x": 1}]});
        report.restore_absent(arguments.as_object_mut().unwrap());
        assert_eq!(arguments, json!({"kept": null, "rows": [{}, {"x": 1}]}));
    }

    // S3-39: nothing is fetched.
    #[test]
    fn s3_39_a_reference_out_of_the_document_is_an_error() {
        for reference in ["https://example.com/s.json", "file:///etc/passwd", "other.json#/a", ""] {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
            let error = derive(&schema, Target::OpenAi).unwrap_err().to_string();
            assert!(
                error.contains("nothing is fetched") && error.contains("`/properties/a`"),
                "{error}"
            );
        }
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}});
        let error = derive(&schema, Target::OpenAi).unwrap_err().to_string();
        assert!(error.contains("`#/$defs/none` at `/properties/a`"), "{error}");
    }

    #[test]
    fn a_schema_that_contains_itself_is_left_open_there_or_refused_in_strict_mode() {
        let schema = json!({
            "type": "object",
            "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
            "properties": {"head": {"$ref": "#/$defs/node"}, "self": {"$ref": "#", "title": "t"}},
        });
        let report = check(
            &schema,
            Target::Anthropic,
            &json!({
                "type": "object",
                "properties": {
                    "head": {"type": "object", "properties": {"next": {}}},
                    "self": {"title": "t"},
                },
            }),
        );
        assert_eq!(report.recursive, ["/properties/head/properties/next", "/properties/self"]);
        let error = derive(&schema, Target::OpenAiStrict).unwrap_err();
        assert!(matches!(error, SchemaProjectionError::Recursive { .. }), "{error}");
    }

    #[test]
    fn strict_mode_reports_what_it_cannot_say_beside_a_reference() {
        let schema = json!({
            "type": "object",
            "$defs": {"n": {"type": "number", "minimum": 1}},
            "properties": {"a": {"$ref": "#/$defs/n", "minimum": 5}},
            "required": ["a"],
        });
        let expected = json!({
            "type": "object",
            "properties": {"a": {"type": "number", "minimum": 1}},
            "required": ["a"],
            "additionalProperties": false,
        });
        let report = check(&schema, Target::OpenAiStrict, &expected);
        assert_eq!(report.dropped, ["/properties/a/$ref"]);
    }

    #[test]
    fn references_to_references_cannot_explode() {
        let mut defs = Map::new();
        for i in 0..40 {
            let next = format!("#/$defs/d{}", i + 1);
            defs.insert(format!("d{i}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
        }
        defs.insert("d40".into(), json!({"type": "string"}));
        let bomb =
            json!({"type": "object", "$defs": defs, "properties": {"a": {"$ref": "#/$defs/d0"}}});
        let error = derive(&bomb, Target::OpenAi).unwrap_err();
        assert_eq!(error, SchemaProjectionError::TooLarge { bytes_max: BYTES_MAX });
        let long = json!({"const": "x".repeat(100_000)});
        let uses = vec![json!({"$ref": "#/$defs/long"}); 100];
        let bomb = json!({"type": "object", "$defs": {"long": long}, "properties": {"a": {"anyOf": uses}}});
        let error = derive(&bomb, Target::OpenAi).unwrap_err();
        assert_eq!(error, SchemaProjectionError::TooLarge { bytes_max: BYTES_MAX });
        let mut chain = Map::new();
        for i in 0..1000 {
            let next = format!("#/$defs/d{}", i + 1);
            chain.insert(format!("d{i}"), json!({"properties": {"p": {"$ref": next}}}));
        }
        chain.insert("d1000".into(), json!({}));
        let deep =
            json!({"type": "object", "$defs": chain, "properties": {"a": {"$ref": "#/$defs/d0"}}});
        let error = derive(&deep, Target::OpenAi).unwrap_err();
        assert!(
            matches!(error, SchemaProjectionError::TooDeep { depth_max: DEPTH_MAX, .. }),
            "{error}"
        );
    }

    #[test]
    fn what_both_providers_refuse_at_the_top_is_left_out_and_reported() {
        let schema =
            json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {}}});
        let report =
            check(&schema, Target::OpenAi, &json!({"type": "object", "properties": {"a": {}}}));
        assert_eq!(report.dropped, ["/anyOf"]);
        let error = derive(&json!(true), Target::OpenAi).unwrap_err().to_string();
        assert_eq!(error, "expected a schema that is an object, found a boolean");
    }
}
