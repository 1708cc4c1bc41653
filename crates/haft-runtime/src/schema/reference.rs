//! Arguments that are not given but pointed at: `{"$ref": "art_…#/rows/0"}`.

use haft_core::{ArtifactId, JsonPointer};
use serde_json::{Map, Value};

/// An argument, or a part of one, that stands in an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Where in the arguments it stands.
    pub place: JsonPointer,
    /// The artifact that holds the value.
    pub artifact: ArtifactId,
    /// Which part of the artifact; the empty pointer means all of it.
    pub part: JsonPointer,
}

/// Finds every reference in some arguments, in the order in which they stand.
pub fn find_references(arguments: &Map<String, Value>) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut path = String::new();
    members(arguments, &mut path, &mut found);
    found
}

fn visit(value: &Value, path: &mut String, found: &mut Vec<Reference>) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = read(members, path) {
                found.push(reference);
                return;
            }
            self::members(members, path, found);
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                if is_container(item) {
                    descend(&at.to_string(), item, path, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members(members: &Map<String, Value>, path: &mut String, found: &mut Vec<Reference>) {
    for (key, value) in members.iter().filter(|(_, value)| is_container(value)) {
        descend(&escaped(key), value, path, found);
    }
}

/// Only what holds something else can be a reference, or hold one.
fn is_container(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

fn descend(step: &str, value: &Value, path: &mut String, found: &mut Vec<Reference>) {
    let length = path.len();
    path.push('/');
    path.push_str(step);
    visit(value, path, found);
    path.truncate(length);
}

/// An object is a reference when it holds nothing else and names an artifact by a whole id.
fn read(members: &Map<String, Value>, path: &str) -> Option<Reference> {
    let target = members.get("$ref").filter(|_| members.len() == 1)?.as_str()?;
    let (artifact, part) = target.split_once('#').unwrap_or((target, ""));
    Some(Reference {
        place: JsonPointer::new(path).ok()?,
        artifact: artifact.parse().ok()?,
        part: JsonPointer::new(part).ok()?,
    })
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
