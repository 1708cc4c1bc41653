//! The member that makes a projection lossless, and the lift that reads it.
//!
//! The extension says only what the body does not: it is the patch from what a stranger would
//! lift out of the body to the canonical form. A body that its dialect says completely carries
//! an empty one. On the way back the patch is applied, and then whatever the body says
//! differently from an untouched projection wins (see [`crate::patch::merge`]). Where the two
//! cannot be reconciled, so that the merged form would not say what the body says, the extension
//! is set aside and the body stands alone.
//!
//! The extension never says who, when or which call: see the crate's documentation.

use haft_core::tool::{Definition, Schema};
use haft_core::{CallId, Outcome, ProviderCallId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialect::{Dialect, Reading};
use crate::error::{Kind, LiftError};
use crate::fields::{Place, canonical};
use crate::patch::{Patch, merge};
use crate::shape::{Lifting, ResultContext};
use crate::views;

/// Where a dialect permits a member of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Nowhere.
    None,
    /// In the body itself.
    Top,
    /// In an object within the body.
    Within(&'static str),
}

/// What a definition's body does not say.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DefinitionExtension {
    #[serde(default, skip_serializing_if = "Patch::is_empty")]
    patch: Patch,
    /// The schema's text, when its value alone would print differently.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_schema_text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema_text: Option<String>,
}

/// What a result's body does not say. The call's id is there for readers; Haft only compares it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResultExtension {
    call_id: CallId,
    #[serde(default, skip_serializing_if = "Payload::is_plain")]
    payload: Payload,
    #[serde(default, skip_serializing_if = "Patch::is_empty")]
    patch: Patch,
}

/// How the structured part of a result stands in the body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Payload {
    /// As it is.
    #[default]
    Plain,
    /// Under `value`, because the dialect takes objects only.
    Wrapped,
}

impl Payload {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// Adds to a body what its dialect cannot say about a definition.
pub(crate) fn add_definition(
    dialect: Dialect,
    definition: &Definition,
    body: &mut Map<String, Value>,
) {
    let shadow = read_definition(dialect, body.clone());
    // A body that cannot be lifted is a bug that the property tests would show; the extension
    // then says everything.
    let shadow = shadow.as_ref().map(members).unwrap_or_default();
    let extension = DefinitionExtension {
        patch: Patch::between(&shadow, &members(definition)),
        input_schema_text: uncommon_text(&definition.input_schema),
        output_schema_text: definition.output_schema.as_ref().and_then(uncommon_text),
    };
    if extension != DefinitionExtension::default() {
        put(dialect, Kind::Definition, body, canonical(&extension));
    }
}

/// Reads a definition, with its extension if it is our own.
pub(crate) fn lift_definition(
    dialect: Dialect,
    body: Value,
    reading: Reading,
) -> Result<Definition, LiftError> {
    let place = Place::top(dialect, Kind::Definition);
    let mut body = place.fields(body)?.rest();
    let member = take(dialect, Kind::Definition, &mut body);
    let lifted = read_definition(dialect, body)?;
    let (Some(member), Reading::Own) = (member, reading) else { return Ok(lifted) };
    let place = extension_place(dialect, Kind::Definition);
    let extension: DefinitionExtension = typed(&place, member)?;
    let mut base = members(&lifted);
    extension.patch.apply(&mut base);
    let known: Definition = typed(&place, Value::Object(base.clone()))?;
    let shadow = dialect.shape().project_definition(&known);
    let shadow = shadow.map_err(|error| place.error("a definition", error.to_string()))?;
    let shadow = read_definition(dialect, shadow)?;
    let merged = merge(base, &members(&shadow), members(&lifted));
    let mut definition: Definition = typed(&place, Value::Object(merged))?;
    let said = dialect.shape().project_definition(&definition);
    let said = said.map_err(|error| place.error("a definition", error.to_string()))?;
    if read_definition(dialect, said)? != lifted {
        return Ok(lifted);
    }
    restore_text(&mut definition.input_schema, extension.input_schema_text);
    if let Some(schema) = &mut definition.output_schema {
        restore_text(schema, extension.output_schema_text);
    }
    Ok(definition)
}

/// Adds to a body what its dialect cannot say about a result.
pub(crate) fn add_result(
    dialect: Dialect,
    outcome: &Outcome,
    provider_id: &ProviderCallId,
    body: &mut Value,
) {
    let context = ResultContext::of(outcome, provider_id.clone());
    let lifting = Lifting { dialect, context: &context, reading: Reading::Own };
    let payload = payload_form(dialect, outcome);
    let shadow = read_result(body.clone(), &lifting, payload);
    let shadow = shadow.as_ref().map(members).unwrap_or_default();
    let patch = Patch::between(&shadow, &members(outcome));
    let extension = ResultExtension { call_id: outcome.call, payload, patch };
    if let Value::Object(body) = body {
        put(dialect, Kind::Result, body, canonical(&extension));
    }
}

/// Reads a result, with its extension if it is our own.
pub(crate) fn lift_result(mut body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
    let dialect = lifting.dialect;
    let member = body.as_object_mut().and_then(|body| take(dialect, Kind::Result, body));
    let (Some(member), Reading::Own) = (member, lifting.reading) else {
        return read_result(body, lifting, Payload::Plain);
    };
    let place = extension_place(dialect, Kind::Result);
    let extension: ResultExtension = typed(&place, member)?;
    if extension.call_id != lifting.context.call {
        let expected = format!("the result of `{}`", lifting.context.call);
        let found = format!("that of `{}`", extension.call_id);
        return Err(place.at("callId").error(expected, found));
    }
    let lifted = read_result(body, lifting, extension.payload)?;
    let mut base = members(&lifted);
    extension.patch.apply(&mut base);
    let known: Outcome = typed(&place, Value::Object(base.clone()))?;
    let shadow = dialect.shape().project_result(&known, &lifting.context.provider_id);
    let shadow = read_result(shadow, lifting, extension.payload)?;
    let merged = merge(base, &members(&shadow), members(&lifted));
    let outcome: Outcome = typed(&place, Value::Object(merged))?;
    let said = dialect.shape().project_result(&outcome, &lifting.context.provider_id);
    if read_result(said, lifting, extension.payload)? != lifted {
        return Ok(lifted);
    }
    let Outcome { result, directives, provider_meta, extra, .. } = outcome;
    Ok(Outcome { provider_meta, ..lifting.outcome(result, directives, extra) })
}

/// Lifts a body without its extension.
fn read_definition(
    dialect: Dialect,
    mut body: Map<String, Value>,
) -> Result<Definition, LiftError> {
    take(dialect, Kind::Definition, &mut body);
    let fields = Place::top(dialect, Kind::Definition).fields(Value::Object(body))?;
    dialect.shape().lift_definition(fields)
}

/// Lifts a body without its extension, out of the wrapping that the extension speaks of.
fn read_result(
    mut body: Value,
    lifting: &Lifting<'_>,
    payload: Payload,
) -> Result<Outcome, LiftError> {
    if let Value::Object(body) = &mut body {
        take(lifting.dialect, Kind::Result, body);
    }
    let mut outcome = lifting.dialect.shape().lift_result(body, lifting)?;
    match payload {
        Payload::Plain => {}
        Payload::Wrapped => views::take_out_of_wrapping(&mut outcome),
    }
    Ok(outcome)
}

fn payload_form(dialect: Dialect, outcome: &Outcome) -> Payload {
    let object_only = matches!(dialect, Dialect::Steerable | Dialect::Mcp);
    match views::payload(outcome) {
        Some(payload) if object_only && !payload.is_object() => Payload::Wrapped,
        Some(_) | None => Payload::Plain,
    }
}

/// Returns the canonical form as an object.
fn members<T: Serialize>(value: &T) -> Map<String, Value> {
    match canonical(value) {
        Value::Object(members) => members,
        other => unreachable!("definitions and outcomes are objects, not {other}"),
    }
}

fn typed<T: DeserializeOwned>(place: &Place, value: Value) -> Result<T, LiftError> {
    serde_json::from_value(value)
        .map_err(|error| place.error("what Haft itself had written", error.to_string()))
}

/// Returns a schema's text if printing its value would give another one.
fn uncommon_text(schema: &Schema) -> Option<String> {
    let printed = schema.value().to_string();
    (schema.text() != printed).then(|| schema.text().to_owned())
}

/// Gives a schema back its text, if that text still says the same.
fn restore_text(schema: &mut Schema, text: Option<String>) {
    let original = text.and_then(|text| Schema::new(&text).ok());
    if let Some(original) = original.filter(|original| original.hash() == schema.hash()) {
        *schema = original;
    }
}

/// MCP wants `_meta` keys with a prefix.
fn member_name(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Mcp { "haft/canonical" } else { "_haft" }
}

fn extension_place(dialect: Dialect, kind: Kind) -> Place {
    let top = Place::top(dialect, kind);
    match dialect.carrier(kind) {
        Carrier::None | Carrier::Top => top.at(member_name(dialect)),
        Carrier::Within(key) => top.at(key).at(member_name(dialect)),
    }
}

fn put(dialect: Dialect, kind: Kind, body: &mut Map<String, Value>, extension: Value) {
    let name = member_name(dialect).to_owned();
    match dialect.carrier(kind) {
        Carrier::None => {}
        Carrier::Top => {
            body.insert(name, extension);
        }
        Carrier::Within(key) => match body.get_mut(key) {
            Some(Value::Object(carrier)) => {
                carrier.insert(name, extension);
            }
            _ => {
                body.insert(key.to_owned(), Value::Object(Map::from_iter([(name, extension)])));
            }
        },
    }
}

/// Takes off a body what looks like our member and came from the outcome itself: an outsider may
/// have put it there, and it must never be read back as ours.
pub(crate) fn disown(dialect: Dialect, kind: Kind, body: &mut Value) {
    let holder = match dialect.carrier(kind) {
        Carrier::None => None,
        Carrier::Top => body.as_object_mut(),
        Carrier::Within(key) => body.get_mut(key).and_then(Value::as_object_mut),
    };
    if let Some(holder) = holder {
        holder.remove(member_name(dialect));
    }
}

/// Takes our member off a body, and the object that held nothing else.
fn take(dialect: Dialect, kind: Kind, body: &mut Map<String, Value>) -> Option<Value> {
    let name = member_name(dialect);
    match dialect.carrier(kind) {
        Carrier::None => None,
        Carrier::Top => body.remove(name),
        Carrier::Within(key) => {
            let Some(Value::Object(carrier)) = body.get_mut(key) else { return None };
            let extension = carrier.remove(name);
            if carrier.is_empty() {
                body.remove(key);
            }
            extension
        }
    }
}

/// Puts the extension of one body, if it has one, into another.
#[cfg(test)]
pub(crate) fn graft(dialect: Dialect, kind: Kind, from: &Value, to: &mut Value) {
    let mut from = from.as_object().cloned().unwrap();
    if let Some(extension) = take(dialect, kind, &mut from) {
        put(dialect, kind, to.as_object_mut().unwrap(), extension);
    }
}
