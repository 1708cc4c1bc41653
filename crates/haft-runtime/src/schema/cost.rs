//! How much work a schema can make, counted before it is compiled.
//!
//! A short document can unfold into endless work: thirty definitions that each refer twice to the
//! next are a billion steps. So the document is walked as a check would walk it, references
//! followed, and whoever steps too often is refused. Recursion within the document is fine: it
//! ends with the value.

use std::collections::HashMap;
use std::ptr;

use serde_json::{Map, Value};

use super::compile::CompileError;

/// The most steps that one walk through a schema may take: a millisecond.
const STEPS_MAX: usize = 20_000;
/// The longest way down, references included; checking recurses as deep.
const LEVELS_MAX: usize = 200;
/// The most patterns in a document; each may take a MiB once it is matched.
const PATTERNS_MAX: usize = 64;
/// The most steps that are spent on telling what is wrong.
const DETAIL_STEPS_MAX: usize = 1_000_000;

/// Keywords that hold one schema, or a list of them.
const HOLDS_SCHEMAS: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that hold schemas by name.
const HOLDS_NAMED: &[&str] =
    &["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that refer to a schema elsewhere in the document.
const REFERS: &[&str] = &["$dynamicRef", "$recursiveRef", "$ref"];

/// What the count of a schema says.
pub(super) struct Cost {
    /// The deepest value for which every violation can be listed without repeating too much work.
    pub(super) detail_depth_max: usize,
}

/// Counts the steps of a schema.
///
/// # Errors
///
/// When there are too many.
pub(super) fn count(document: &Value) -> Result<Cost, CompileError> {
    let named = Named::of(document);
    if named.patterns > PATTERNS_MAX {
        return Err(CompileError::TooCostly { what: "patterns", max: PATTERNS_MAX });
    }
    let entered = vec![document];
    let mut walk = Walk { document, named, steps: 0, returns: 0, entered, levels: 0 };
    walk.schema(document)?;
    Ok(Cost { detail_depth_max: detail_depth(walk.steps, walk.returns) })
}

/// A schema that comes back to itself in several ways may repeat its work once per way and level.
fn detail_depth(steps: usize, returns: usize) -> usize {
    if returns < 2 {
        return usize::MAX;
    }
    let mut depth = 0;
    let mut work = steps;
    while work.saturating_mul(returns) <= DETAIL_STEPS_MAX {
        work *= returns;
        depth += 1;
    }
    depth
}

/// What can be referred to by name. A name may stand for several schemas, each in a resource of
/// its own; then all of them are counted.
struct Named<'a> {
    anchors: HashMap<&'a str, Vec<&'a Value>>,
    ids: Vec<(&'a str, &'a Value)>,
    patterns: usize,
}

impl<'a> Named<'a> {
    fn of(document: &'a Value) -> Self {
        let mut named = Self { anchors: HashMap::new(), ids: Vec::new(), patterns: 0 };
        let mut open = vec![document];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => {
                    named.note(value, members);
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        named
    }

    fn note(&mut self, value: &'a Value, members: &'a Map<String, Value>) {
        let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
        for name in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text) {
            self.anchors.entry(name).or_default().push(value);
        }
        for id in ["$id", "id"].into_iter().filter_map(text) {
            let (id, anchor) = id.split_once('#').unwrap_or((id, ""));
            if !anchor.is_empty() {
                self.anchors.entry(anchor).or_default().push(value);
            }
            self.ids.push((id, value));
        }
        self.patterns += usize::from(members.get("pattern").is_some_and(Value::is_string));
        let properties = members.get("patternProperties").and_then(Value::as_object);
        self.patterns += properties.map_or(0, Map::len);
    }

    /// Finds the embedded resources that an id may mean. Ids can be relative to each other, so the
    /// last segment decides; an id that is spelt unlike all of them may mean any.
    fn resources(&self, id: &str) -> Vec<&'a Value> {
        let last = |id: &str| id.rsplit('/').next().map(ToOwned::to_owned);
        let all = || self.ids.iter().map(|(_, value)| *value);
        let named = self.ids.iter().filter(|(known, _)| last(known) == last(id));
        let named: Vec<&Value> = named.map(|(_, value)| *value).collect();
        if named.is_empty() { all().collect() } else { named }
    }
}

struct Walk<'a> {
    document: &'a Value,
    named: Named<'a>,
    steps: usize,
    /// How often a reference led back to a schema that is being walked.
    returns: usize,
    entered: Vec<&'a Value>,
    levels: usize,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value) -> Result<(), CompileError> {
        self.take_steps(1)?;
        let Value::Object(keywords) = schema else { return Ok(()) };
        self.levels += 1;
        if self.levels > LEVELS_MAX {
            return Err(CompileError::TooCostly { what: "levels", max: LEVELS_MAX });
        }
        for (keyword, value) in keywords {
            let keyword = keyword.as_str();
            if HOLDS_SCHEMAS.contains(&keyword) {
                self.schemas(value)?;
            } else if HOLDS_NAMED.contains(&keyword) {
                let named = value.as_object().into_iter().flat_map(Map::values);
                named.filter(|value| !value.is_array()).try_for_each(|value| self.schema(value))?;
            } else if REFERS.contains(&keyword) {
                self.reference(value.as_str().unwrap_or_default())?;
            } else if keyword == "enum" {
                self.take_steps(value.as_array().map_or(0, Vec::len))?;
            }
        }
        self.levels -= 1;
        Ok(())
    }

    fn schemas(&mut self, value: &'a Value) -> Result<(), CompileError> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.schema(schema)),
            one => self.schema(one),
        }
    }

    fn reference(&mut self, target: &str) -> Result<(), CompileError> {
        let mut walked: Vec<&Value> = Vec::new();
        // What is not found here is a meta-schema, or leads outside and is refused by compiling.
        for schema in self.resolve(target) {
            if !walked.iter().any(|known| ptr::eq(*known, schema)) {
                walked.push(schema);
                self.enter(schema)?;
            }
        }
        self.take_steps(1)
    }

    fn enter(&mut self, schema: &'a Value) -> Result<(), CompileError> {
        if self.entered.iter().any(|entered| ptr::eq(*entered, schema)) {
            self.returns += 1;
            return self.take_steps(1);
        }
        self.entered.push(schema);
        self.schema(schema)?;
        self.entered.pop();
        Ok(())
    }

    /// Finds every schema that a reference may mean.
    fn resolve(&self, target: &str) -> Vec<&'a Value> {
        let (id, fragment) = target.split_once('#').unwrap_or((target, ""));
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.named.anchors.get(fragment).cloned().unwrap_or_default();
        }
        let mut resources = self.named.resources(id);
        if id.is_empty() {
            resources.insert(0, self.document);
        }
        if fragment.is_empty() && id.is_empty() {
            resources.truncate(1);
        }
        let pointer = decoded(fragment);
        resources.into_iter().filter_map(|resource| resource.pointer(&pointer)).collect()
    }

    fn take_steps(&mut self, steps: usize) -> Result<(), CompileError> {
        self.steps += steps;
        if self.steps > STEPS_MAX {
            return Err(CompileError::TooCostly { what: "steps", max: STEPS_MAX });
        }
        Ok(())
    }
}

/// Undoes the percent-encoding of a fragment, as far as it is ASCII.
fn decoded(fragment: &str) -> String {
    let mut text = String::with_capacity(fragment.len());
    let mut rest = fragment;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.filter(u8::is_ascii) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                text.push('%');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}
