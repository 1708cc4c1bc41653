//! Document 002, openboa.
//!
//! One definition, and results in two shapes: that of the sandbox hand, with a coded error, and
//! plain text, which is the JSON of the value or `{"error": message}`. A call is named as the
//! document's events name it.

use haft_core::json::{self, JsonLimits};
use haft_core::tool::{DeclaredEffect, Definition, InterruptBehavior, Mutates, Ownership};
use haft_core::{
    ArtifactRef, CallResult, ContentBlock, Directives, Disposition, ErrorClass, Failure, Outcome,
    Output, ProviderCallId, RequestedCall,
};
use serde_json::{Map, Value, json};

use crate::error::{LiftError, ProjectError};
use crate::fields::{Fields, describe};
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// Document 002, with the results of its sandbox hand.
#[derive(Debug)]
pub(crate) struct Sandbox;

/// Document 002, with results as text.
#[derive(Debug)]
pub(crate) struct Text;

const CALL: [&str; 3] = ["requestId", "toolName", "input"];
const OWNERS: [Ownership; 3] = [Ownership::Managed, Ownership::Mcp, Ownership::Custom];
const INTERRUPTS: [InterruptBehavior; 2] = [InterruptBehavior::Cancel, InterruptBehavior::Block];
const EFFECTS: &str = "an array of session_read, session_write, resource_read, resource_write, \
                       memory_read, memory_write, learning_read, skill_read, sandbox_execute";

impl Shape for Sandbox {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let facets = tool.resolved_facets();
        let policy = if views::asks(tool) { "always_ask" } else { "always_allow" };
        Ok(object([
            ("name", word(&tool.name)),
            ("description", word(&tool.description)),
            ("inputSchema", word(&tool.input_schema)),
            ("outputSchema", tool.output_schema.as_ref().and_then(word)),
            ("ownership", word(&tool.ownership)),
            ("permissionPolicy", Some(policy.into())),
            ("effects", word(&tool.facets.effects)),
            ("readOnly", Some(facets.is_read_only().into())),
            ("destructive", Some(facets.is_destructive().into())),
            ("interruptBehavior", word(&tool.interrupt)),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let mut definition = fields.definition("inputSchema")?;
        definition.output_schema = fields.optional_schema("outputSchema")?;
        definition.ownership = fields.one_of("ownership", &OWNERS)?;
        let policy = fields.one_of("permissionPolicy", &["always_allow", "always_ask"])?;
        definition.gate = views::gate(policy == "always_ask");
        let effects: Vec<DeclaredEffect> = fields.typed("effects", EFFECTS)?;
        definition.facets.effects = effects.into_iter().collect();
        let (read_only, destructive) =
            (fields.boolean("readOnly")?, fields.boolean("destructive")?);
        definition.facets.mutates = Some(match (read_only, destructive) {
            (true, false) => Mutates::None,
            (false, false) => Mutates::Bounded,
            (false, true) => Mutates::Irreversible,
            (true, true) => {
                let place = fields.place().at("destructive");
                let error = place.error("`false` for a tool that is read-only", "`true`");
                return Err(error.with_fix("say which of `readOnly` and `destructive` holds"));
            }
        });
        definition.interrupt = fields.one_of("interruptBehavior", &INTERRUPTS)?;
        fields.close()?;
        Ok(definition)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        views::call_members(call, CALL)
    }

    fn lift_call(&self, fields: Fields) -> Result<RequestedCall, LiftError> {
        views::read_closed_call(fields, CALL)
    }

    fn project_result(&self, outcome: &Outcome, _: &ProviderCallId) -> Value {
        let (text, artifacts, error) = match &outcome.result {
            CallResult::Ok(output) => {
                (views::text_of(&output.content), output.artifacts.as_slice(), Value::Null)
            }
            CallResult::Err(failure) => (None, [].as_slice(), coded(failure)),
        };
        json!({
            "ok": outcome.is_ok(),
            "name": outcome.tool,
            "text": text,
            "output": views::payload(outcome),
            "artifacts": artifacts,
            "usage": views::carried(&outcome.extra, "usage"),
            "error": error,
        })
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        let ok = fields.boolean("ok")?;
        lifting.check_tool(&mut fields, "name")?;
        let text = match fields.nullable("text")? {
            None => None,
            Some(Value::String(text)) => Some(text),
            Some(other) => {
                return Err(fields
                    .place()
                    .at("text")
                    .error("a string or `null`", describe(&other)));
            }
        };
        let output = fields.nullable("output")?;
        let artifacts = read_artifacts(&mut fields, lifting)?;
        let error = fields.nullable("error")?;
        let usage = fields.take("usage").filter(|usage| !usage.is_null());
        let usage = usage.map(|usage| fields.place().at("usage").fields(usage)).transpose()?;
        let extra = views::extra_of("usage", usage.map(Fields::rest));
        let result = match (ok, error) {
            (true, None) => {
                let content = text.map(|text| ContentBlock::Text { text }).into_iter().collect();
                CallResult::Ok(Output { content, value: output, artifacts })
            }
            (false, Some(error)) => {
                let failure = read_coded(fields.place().at("error").fields(error)?)?;
                CallResult::Err(Failure { partial: output, ..failure })
            }
            (true, Some(error)) => {
                let place = fields.place().at("error");
                return Err(place.error("`null` when `ok` is true", describe(&error)));
            }
            (false, None) => {
                let place = fields.place().at("error");
                return Err(place.error("an error when `ok` is false", "null"));
            }
        };
        fields.close()?;
        Ok(lifting.outcome(result, Directives::default(), extra))
    }
}

impl Shape for Text {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        Sandbox.project_definition(tool)
    }

    fn lift_definition(&self, fields: Fields) -> Result<Definition, LiftError> {
        Sandbox.lift_definition(fields)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        Sandbox.project_call(call)
    }

    fn lift_call(&self, fields: Fields) -> Result<RequestedCall, LiftError> {
        Sandbox.lift_call(fields)
    }

    fn project_result(&self, outcome: &Outcome, _: &ProviderCallId) -> Value {
        Value::String(result_text(outcome))
    }

    /// Keeps the text as the model reads it, beside the value that it spells, if it spells one.
    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let Value::String(text) = body else {
            return Err(lifting.place().error("a string", describe(&body)));
        };
        // A text that spells no JSON value is simply a text, so there is no error to keep.
        let value = json::parse(text.as_bytes(), JsonLimits::default()).ok();
        let result = match value.as_ref().and_then(only_error) {
            Some(message) => CallResult::Err(views::failure(message.to_owned(), &[])),
            None => CallResult::Ok(Output { value, ..Output::of_text(text) }),
        };
        Ok(lifting.outcome(result, Directives::default(), Map::new()))
    }
}

/// Returns a result as document 002 hands it to the model.
pub(crate) fn result_text(outcome: &Outcome) -> String {
    match &outcome.result {
        CallResult::Ok(output) => views::model_text(output),
        CallResult::Err(failure) => json!({ "error": failure.message }).to_string(),
    }
}

/// `{"error": "…"}` and nothing beside it is how the text shape says that a call failed.
fn only_error(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get("error")?.as_str().filter(|message| !message.is_empty())
}

fn coded(failure: &Failure) -> Value {
    json!({
        "code": failure.class,
        "message": failure.message,
        "retryable": failure.class.disposition() == Disposition::Retryable,
    })
}

fn read_coded(mut fields: Fields) -> Result<Failure, LiftError> {
    let class = fields.one_of("code", &ErrorClass::ALL)?;
    let message = fields.string("message")?;
    let retryable = fields.boolean("retryable")?;
    if retryable != (class.disposition() == Disposition::Retryable) {
        let place = fields.place().at("retryable");
        let error =
            place.error(format!("`{}` for code `{class}`", !retryable), format!("`{retryable}`"));
        return Err(error.with_fix("`timeout`, `upstream` and `rate_limited` are retryable"));
    }
    fields.close()?;
    Ok(Failure::new(class, message))
}

/// Reads references to stored outputs, from whoever may name them.
pub(crate) fn read_artifacts(
    fields: &mut Fields,
    lifting: &Lifting<'_>,
) -> Result<Vec<ArtifactRef>, LiftError> {
    let artifacts: Vec<ArtifactRef> =
        fields.typed("artifacts", "an array of artifact references")?;
    if artifacts.is_empty() || lifting.may_name_artifacts() {
        return Ok(artifacts);
    }
    let place = fields.place().at("artifacts");
    let error =
        place.error("no stored artifacts from an untrusted tool", artifacts.len().to_string());
    Err(error.with_fix("return the content itself; Haft stores it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, lift_definition, lift_foreign, refused_definition, refused_result};
    use crate::{Dialect, Extension, Kind};

    const HERE: Dialect = Dialect::OpenboaSandbox;

    fn definition(change: impl FnOnce(&mut Value)) -> String {
        let mut body = json!({
            "name": "memory_write",
            "description": "Writes memory.",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"},
            "ownership": "managed",
            "permissionPolicy": "always_allow",
            "effects": ["memory_write"],
            "readOnly": false,
            "destructive": false,
            "interruptBehavior": "block",
        });
        change(&mut body);
        body.to_string()
    }

    // S2-1: every field of a definition, both ways.
    #[test]
    fn s2_1_a_definition_reads_and_writes_back() {
        let text = definition(|_| {});
        let lifted = lift_definition(HERE, &text).unwrap();
        assert_eq!(lifted.facets.mutates, Some(Mutates::Bounded));
        assert!(lifted.facets.effects.contains(&DeclaredEffect::MemoryWrite));
        let body = HERE.project_definition(&lifted, Extension::Omit).unwrap();
        assert_eq!(body, HERE.read(Kind::Definition, text.as_bytes()).unwrap());
    }

    // S2-1, S2-2, S2-3, S2-4, S2-5: closed vocabularies, and nothing has a silent default.
    #[test]
    fn s2_2_s2_3_s2_4_s2_5_unknown_words_and_missing_members_are_refused() {
        let with = |key: &str, value: Value| definition(|body| body[key] = value);
        refused_definition(
            HERE,
            &with("ownership", json!("vendor")),
            "one of `managed`, `mcp`, `custom`, found `vendor`",
        );
        refused_definition(
            HERE,
            &with("permissionPolicy", json!("ask")),
            "one of `always_allow`, `always_ask`",
        );
        refused_definition(
            HERE,
            &with("interruptBehavior", json!("stop")),
            "one of `cancel`, `block`",
        );
        refused_definition(
            HERE,
            &with("effects", json!(["teleport"])),
            "unknown variant `teleport`",
        );
        refused_definition(HERE, &with("readOnly", json!("no")), "`/readOnly`");
        let both = definition(|body| {
            body["readOnly"] = json!(true);
            body["destructive"] = json!(true);
        });
        refused_definition(HERE, &both, "`false` for a tool that is read-only");
        for key in [
            "ownership",
            "permissionPolicy",
            "effects",
            "readOnly",
            "destructive",
            "interruptBehavior",
        ] {
            let text = definition(|body| {
                body.as_object_mut().unwrap().remove(key);
            });
            refused_definition(HERE, &text, &format!("`/{key}`"));
        }
    }

    // S2-3: a gate that nobody declared is not projected as permission.
    #[test]
    fn s2_3_an_undeclared_gate_is_projected_as_asking_unless_it_only_looks() {
        let policy = |name: &str, executor| {
            let mut definition = testing::definition_named(name);
            definition.executor = executor;
            HERE.project_definition(&definition, Extension::Omit).unwrap()["permissionPolicy"]
                .clone()
        };
        use haft_core::tool::Executor::{Human, Server};
        assert_eq!(policy("get_x", Server), "always_allow");
        assert_eq!(policy("delete_x", Server), "always_ask");
        assert_eq!(policy("frobnicate", Server), "always_ask");
        assert_eq!(policy("shell_x", Server), "always_ask");
        assert_eq!(policy("frobnicate", Human), "always_allow");
    }

    #[test]
    fn the_two_sandbox_results_read_and_write_back() {
        let ok = r#"{"ok":true,"name":"get_weather","text":"sunny","output":{"t":21},"artifacts":[],"usage":{"ms":3},"error":null}"#;
        let err = r#"{"ok":false,"name":"get_weather","text":null,"output":null,"artifacts":[],"usage":null,"error":{"code":"upstream","message":"down","retryable":true}}"#;
        for text in [ok, err] {
            let lifted = lift_foreign(HERE, text).unwrap();
            let body = HERE.project_result(&lifted, &testing::provider_id(), Extension::Omit);
            assert_eq!(body, HERE.read(Kind::Result, text.as_bytes()).unwrap());
        }
    }

    #[test]
    fn a_sandbox_result_that_contradicts_itself_is_refused() {
        let result = |ok: bool, error: &str| {
            format!(
                r#"{{"ok":{ok},"name":"get_weather","text":null,"output":null,"artifacts":[],"usage":null,"error":{error}}}"#
            )
        };
        refused_result(HERE, &result(false, "null"), "an error when `ok` is false");
        let coded = r#"{"code":"upstream","message":"x","retryable":true}"#;
        refused_result(HERE, &result(true, coded), "`null` when `ok` is true");
        let unknown = r#"{"code":"oops","message":"x","retryable":true}"#;
        refused_result(
            HERE,
            &result(false, unknown),
            "`rate_limited`, `auth`, `internal`, found `oops`",
        );
        let odd = r#"{"code":"tool_error","message":"x","retryable":true}"#;
        refused_result(HERE, &result(false, odd), "`false` for code `tool_error`, found `true`");
    }

    // S4-28: an outsider cannot attach a stored output, which may be somebody else's.
    #[test]
    fn an_untrusted_result_cannot_name_stored_artifacts() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Ok(Output {
            artifacts: vec![testing::artifact_ref()],
            ..Output::default()
        });
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Omit);
        refused_result(HERE, &body.to_string(), "no stored artifacts from an untrusted tool");
        assert_eq!(testing::lift_own(HERE, &body, &outcome).unwrap(), outcome);
    }

    #[test]
    fn the_text_shape_is_the_json_of_the_value_or_an_error() {
        let text = |result| {
            let outcome = Outcome { result, ..testing::plain_outcome() };
            Dialect::OpenboaText.project_result(
                &outcome,
                &testing::provider_id(),
                Extension::Include,
            )
        };
        assert_eq!(text(CallResult::Ok(Output::of_value(json!({"a": 1})))), json!("{\"a\":1}"));
        assert_eq!(text(CallResult::Ok(Output::of_text("plain"))), json!("plain"));
        let failure = Failure::new(ErrorClass::Denied, "not today");
        assert_eq!(text(CallResult::Err(failure)), json!("{\"error\":\"not today\"}"));
        let failed = lift_foreign(Dialect::OpenboaText, r#""{\"error\":\"no\"}""#).unwrap();
        assert_eq!(failed.result, CallResult::Err(Failure::new(ErrorClass::ToolError, "no")));
        let value = lift_foreign(Dialect::OpenboaText, r#""{ \"error\": 1 }""#).unwrap();
        let CallResult::Ok(output) = value.result else { panic!("not an error") };
        assert_eq!(output.value, Some(json!({"error": 1})));
        refused_result(Dialect::OpenboaText, r#"{"a":1}"#, "expected a string, found an object");
    }
}
