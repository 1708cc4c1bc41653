//! What several dialects derive from the canonical form in the same way.

use haft_core::tool::{Definition, Executor, Gate, Mode, Ownership};
use haft_core::{
    ArtifactRef, CallResult, ContentBlock, ErrorClass, Failure, Outcome, Output, RequestedCall,
    ToolAlias, ToolName,
};
use serde_json::{Map, Value, json};

use crate::error::LiftError;
use crate::fields::{Fields, canonical};

/// What a failure says when its body says nothing.
pub(crate) const UNEXPLAINED: &str = "the tool reported a failure and did not say why";

/// Builds an object from members, leaving out those that are absent.
pub(crate) fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    members
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)))
        .collect()
}

/// Returns whether a dialect that knows only yes and no is told that a person approves.
///
/// A gate that nobody declared is never projected as permission: only what merely looks, and
/// what cannot be gated at all, is said to run by itself.
pub(crate) fn asks(definition: &Definition) -> bool {
    match definition.gate {
        Gate::Auto => false,
        Gate::Ask | Gate::AskAlways | Gate::AskTwo => true,
        Gate::Unset => match definition.executor {
            Executor::Human | Executor::Provider => false,
            Executor::Server | Executor::Client => {
                let facets = definition.resolved_facets();
                definition.ownership != Ownership::Managed
                    || facets.mode() == Some(Mode::Local)
                    || !facets.is_read_only()
            }
        },
    }
}

/// Returns what a yes or no about approval declares.
pub(crate) fn gate(asks: bool) -> Gate {
    if asks { Gate::Ask } else { Gate::Auto }
}

/// Joins what a model reads of some content.
pub(crate) fn text_of(content: &[ContentBlock]) -> Option<String> {
    let blocks: Vec<String> = content
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text } => text.clone(),
            ContentBlock::Artifact { artifact } => artifact_note(artifact),
        })
        .collect();
    (!blocks.is_empty()).then(|| blocks.join("\n"))
}

fn artifact_note(artifact: &ArtifactRef) -> String {
    let title = artifact.title.as_deref().unwrap_or("stored output");
    format!("[{title}: {}, {} bytes, {}]", artifact.id, artifact.bytes, artifact.media_type)
}

/// Returns the text that a model reads of an output: its content, else its value as JSON.
pub(crate) fn model_text(output: &Output) -> String {
    text_of(&output.content)
        .or_else(|| output.value.as_ref().map(Value::to_string))
        .unwrap_or_default()
}

/// Returns the one value that stands for an output where a dialect has room for one only.
pub(crate) fn single_value(output: &Output) -> Value {
    output
        .value
        .clone()
        .or_else(|| text_of(&output.content).map(Value::String))
        .unwrap_or(Value::Null)
}

/// Puts a value that is not an object into one, for dialects whose payload must be one.
pub(crate) fn wrap(value: &Value) -> Value {
    if value.is_object() { value.clone() } else { json!({ "value": value }) }
}

/// Takes the payload of an outcome out of its wrapping, if it is in one: an object is never
/// wrapped, so one that stands where a wrapping would is what somebody wrote there.
pub(crate) fn take_out_of_wrapping(outcome: &mut Outcome) {
    let payload = match &mut outcome.result {
        CallResult::Ok(output) => &mut output.value,
        CallResult::Err(failure) => &mut failure.partial,
    };
    if let Some(Value::Object(map)) = payload
        && map.len() == 1
        && map.get("value").is_some_and(|inner| !inner.is_object())
        && let Some(inner) = map.remove("value")
    {
        *payload = Some(inner);
    }
}

/// Returns what the outcome carries as structured data, whether it worked or not.
pub(crate) fn payload(outcome: &Outcome) -> Option<&Value> {
    match &outcome.result {
        CallResult::Ok(output) => output.value.as_ref(),
        CallResult::Err(failure) => failure.partial.as_ref(),
    }
}

/// A failure as a dialect without error classes reports it; `fixed` are the texts by which it
/// marks some classes all the same.
pub(crate) fn failure(message: String, fixed: &[(ErrorClass, &str)]) -> Failure {
    let class = fixed.iter().find(|(_, text)| *text == message).map(|(class, _)| *class);
    let message = if message.is_empty() { UNEXPLAINED.to_owned() } else { message };
    Failure::new(class.unwrap_or(ErrorClass::ToolError), message)
}

/// Returns a failure's text in a dialect that fixes the texts of some classes.
pub(crate) fn failure_text(failure: &Failure, fixed: &[(ErrorClass, &str)]) -> String {
    let text = fixed.iter().find(|(class, _)| *class == failure.class).map(|(_, text)| *text);
    text.unwrap_or(&failure.message).to_owned()
}

/// Returns the members of `extra` that an open dialect can carry as its own.
pub(crate) fn open_members(
    extra: &Map<String, Value>,
    taken: &[&str],
) -> impl Iterator<Item = (String, Value)> {
    extra
        .iter()
        .filter(|(key, _)| !taken.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
}

/// Returns a member of `extra` that a dialect carries under the same name, if it is an object.
pub(crate) fn carried(extra: &Map<String, Value>, key: &str) -> Option<Value> {
    extra.get(key).filter(|value| value.is_object()).cloned()
}

/// Returns `extra` with what was found under one member of a closed dialect.
pub(crate) fn extra_of(key: &str, found: Option<Map<String, Value>>) -> Map<String, Value> {
    found.into_iter().map(|members| (key.to_owned(), Value::Object(members))).collect()
}

/// Writes a call under a dialect's own member names.
pub(crate) fn call_members(
    call: &RequestedCall,
    [id, name, arguments]: [&str; 3],
) -> Map<String, Value> {
    object([
        (id, Some(call.provider_id.as_str().into())),
        (name, Some(call.name.as_str().into())),
        (arguments, Some(Value::Object(call.arguments.clone()))),
    ])
}

/// Reads a call under a dialect's own member names; the object is left open.
pub(crate) fn read_call(
    fields: &mut Fields,
    [id, name, arguments]: [&'static str; 3],
) -> Result<RequestedCall, LiftError> {
    Ok(RequestedCall {
        provider_id: fields.call_id(id)?,
        name: fields.string(name)?,
        arguments: fields.object(arguments)?,
    })
}

/// Reads a call that has its three members and nothing else.
pub(crate) fn read_closed_call(
    mut fields: Fields,
    names: [&'static str; 3],
) -> Result<RequestedCall, LiftError> {
    let call = read_call(&mut fields, names)?;
    fields.close()?;
    Ok(call)
}

/// Writes a closed vocabulary's word.
pub(crate) fn word<T: serde::Serialize>(value: &T) -> Option<Value> {
    Some(canonical(value))
}

/// Returns what a provider calls a tool: its alias there, if the provider takes it.
pub(crate) fn wire_name<'a>(
    definition: &'a Definition,
    provider: &str,
    accepts: fn(&str) -> bool,
) -> &'a str {
    let alias = definition.aliases.get(provider).map(ToolAlias::as_str);
    alias.filter(|alias| accepts(alias)).unwrap_or(definition.name.as_str())
}

/// Returns whether model providers take a name: `^[A-Za-z0-9_-]{1,64}$`.
pub(crate) fn is_provider_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=ToolName::LEN_MAX).contains(&name.len()) && name.chars().all(plain)
}

/// Reads a name that may be canonical nowhere but with its provider: then a canonical one is
/// derived, and the provider's is kept as the alias under which the tool is known there.
pub(crate) fn read_wire_name(
    fields: &mut Fields,
    key: &'static str,
) -> Result<(ToolName, Option<ToolAlias>), LiftError> {
    use haft_core::NameError::{Character, Empty, Spaced, Start, TooLong};
    let text = fields.string(key)?;
    let place = fields.place().at(key);
    let refuse = |error: haft_core::NameError| {
        place.error(
            "a tool name",
            format!("`{}` ({error})", text.chars().take(140).collect::<String>()),
        )
    };
    let error = match ToolName::new(&text) {
        Ok(name) => return Ok((name, None)),
        Err(error) => error,
    };
    let near = match &error {
        Spaced { suggestion } | Character { suggestion, .. } | Start { suggestion } => {
            suggestion.as_deref().and_then(|near| ToolName::new(near).ok())
        }
        Empty | TooLong { .. } => None,
    };
    let Some(near) = near else { return Err(refuse(error)) };
    Ok((near, Some(ToolAlias::new(&text).map_err(refuse)?)))
}
