//! Bodies whose shape follows from that of others.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// Changes of a `T`: any of its members, and `null` for what is taken away. They are checked as
/// what they make of the `T`.
#[derive(Debug)]
pub(crate) struct Changes<T> {
    pub(crate) members: Map<String, Value>,
    of: PhantomData<T>,
}

impl<'de, T> Deserialize<'de> for Changes<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        Ok(Self { members, of: PhantomData })
    }
}

impl<T: JsonSchema> JsonSchema for Changes<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Changes", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        schema.remove("required");
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (_, property) in properties.into_iter().flatten() {
            *property = json!({ "anyOf": [property.take(), { "type": "null" }] });
        }
        schema
    }
}

/// Adds members to an object, or to each of the objects that something may be.
pub(crate) fn also(schema: &mut Schema, members: &[(&str, Value)]) {
    let add = |object: &mut Map<String, Value>| {
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        for (name, described) in members {
            properties[*name] = described.clone();
        }
    };
    let Some(object) = schema.as_object_mut() else { return };
    match object.get_mut("oneOf").and_then(Value::as_array_mut) {
        Some(alternatives) => {
            alternatives.iter_mut().filter_map(Value::as_object_mut).for_each(add)
        }
        None => add(object),
    }
}
