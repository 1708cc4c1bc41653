//! Document 000, Steerable.
//!
//! A call is closed (`id`, `name`, `arguments`); a result is open and requires only `success`.
//! The document ends a run on any failure that does not ask for a follow-up, so a projected
//! failure always says which it is, and a native failure that says nothing ends the run.
//!
//! The document's registry knows a tool by its name and mode; `description` and `schema` are
//! what a registration gives beside them.

use haft_core::tool::{Definition, Mode};
use haft_core::{
    CallResult, ContentBlock, Directives, Disposition, Failure, Outcome, Output, ProviderCallId,
    RequestedCall,
};
use serde_json::{Map, Value};

use crate::error::{LiftError, ProjectError};
use crate::fields::Fields;
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// Document 000.
#[derive(Debug)]
pub(crate) struct Steerable;

const CALL: [&str; 3] = ["id", "name", "arguments"];
const RESULT: [&str; 8] =
    ["success", "terminal", "needsFollowup", "nextAction", "message", "error", "data", "_haft"];

/// Returns whether a result in document 000's shape ends the run: `terminal` is true, or
/// `success` is false and `needsFollowup` is not true (document 000, "Completion semantics").
pub fn is_terminal(result: &Value) -> bool {
    let says = |key: &str, value: bool| result.get(key).and_then(Value::as_bool) == Some(value);
    says("terminal", true) || (says("success", false) && !says("needsFollowup", true))
}

impl Shape for Steerable {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        Ok(object([
            ("name", word(&tool.name)),
            ("description", word(&tool.description)),
            ("schema", word(&tool.input_schema)),
            ("mode", tool.resolved_facets().mode().as_ref().and_then(word)),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let mut definition = fields.definition("schema")?;
        definition.mode = fields.optional_one_of("mode", &Mode::ALL)?;
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
        let told = &outcome.directives;
        let (message, error, needs_followup) = match &outcome.result {
            CallResult::Ok(output) => (output.first_text(), None, told.needs_followup),
            CallResult::Err(failure) => {
                let ends = failure.class.disposition() == Disposition::Fatal;
                let error = failure.debug.as_ref().unwrap_or(&failure.message);
                let message = failure.debug.as_ref().map(|_| failure.message.as_str());
                (message, Some(error.as_str()), Some(told.needs_followup.unwrap_or(!ends)))
            }
        };
        let mut body = object([
            ("success", Some(outcome.is_ok().into())),
            ("terminal", told.terminal.map(Into::into)),
            ("needsFollowup", needs_followup.map(Into::into)),
            ("nextAction", told.next_action.as_deref().map(Into::into)),
            ("message", told.user_message.as_deref().or(message).map(Into::into)),
            ("error", error.map(Into::into)),
            ("data", views::payload(outcome).map(views::wrap)),
        ]);
        body.extend(views::open_members(&outcome.extra, &RESULT));
        Value::Object(body)
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        let success = fields.boolean("success")?;
        let mut directives = Directives {
            terminal: fields.optional_boolean("terminal")?,
            needs_followup: fields.optional_boolean("needsFollowup")?,
            next_action: fields.optional_string("nextAction")?,
            user_message: fields.optional_string("message")?,
        };
        let error = fields.optional_string("error")?;
        let data = fields.optional_object("data")?.map(Value::Object);
        let mut extra = fields.rest();
        let result = if success {
            // `error` means nothing beside success, so it is kept as a member without meaning.
            extra.extend(error.map(|error| ("error".to_owned(), Value::String(error))));
            CallResult::Ok(success_output(data, directives.user_message.as_deref()))
        } else {
            directives.needs_followup.get_or_insert(false);
            let message = error.or_else(|| directives.user_message.clone()).unwrap_or_default();
            CallResult::Err(Failure { partial: data, ..views::failure(message, &[]) })
        };
        Ok(lifting.outcome(result, directives, extra))
    }
}

/// A message without data is all that there is to tell the model, too.
fn success_output(data: Option<Value>, message: Option<&str>) -> Output {
    let told = message.filter(|_| data.is_none());
    let content = told.map(|text| ContentBlock::Text { text: text.to_owned() });
    Output { content: content.into_iter().collect(), value: data, artifacts: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, lift_call, lift_foreign, outcome, refused_call, refused_result};
    use crate::{Dialect, Extension};
    use haft_core::{ErrorClass, LoopEffect};
    use proptest::prelude::*;
    use serde_json::json;

    const HERE: Dialect = Dialect::Steerable;

    // S0-29, S0-30: the truth table of the document's own golden file.
    #[test]
    fn s0_29_s0_30_a_result_is_terminal_exactly_by_the_table() {
        let table = [
            (json!(null), false),
            (json!({}), false),
            (json!({"success": true}), false),
            (json!({"success": false}), true),
            (json!({"success": false, "needsFollowup": true}), false),
            (json!({"success": false, "needsFollowup": false}), true),
            (json!({"terminal": true}), true),
            (json!({"success": false, "terminal": true}), true),
            (json!({"success": true, "terminal": true}), true),
            (json!({"success": false, "needsFollowup": true, "terminal": true}), true),
            (json!({"success": true, "terminal": false}), false),
        ];
        for (result, expected) in table {
            assert_eq!(is_terminal(&result), expected, "{result}");
        }
    }

    // S0-1, S0-32: the document's example call.
    #[test]
    fn s0_1_s0_32_the_example_call_reads_and_writes_back() {
        let text = r#"{"id":"c_42","name":"create_event","arguments":{"title":"Lunch","start":"2026-05-15T12:00:00Z"}}"#;
        let call = lift_call(HERE, text).unwrap();
        assert_eq!(call.provider_id.as_str(), "c_42");
        assert_eq!(call.name, "create_event");
        assert_eq!(
            HERE.project_call(&call),
            HERE.read(crate::Kind::Call, text.as_bytes()).unwrap()
        );
    }

    // S0-1, S0-2, S0-4, tool_call-006: a closed envelope, nothing coerced.
    #[test]
    fn s0_1_s0_2_s0_4_a_call_has_exactly_three_members_of_their_types() {
        refused_call(
            HERE,
            r#"{"name":"x","arguments":{}}"#,
            "`/id`: expected a string, found nothing",
        );
        refused_call(HERE, r#"{"id":"c","arguments":{}}"#, "`/name`: expected a string");
        refused_call(HERE, r#"{"id":"c","name":"x"}"#, "`/arguments`: expected an object");
        refused_call(HERE, r#"{"id":7,"name":"x","arguments":{}}"#, "expected a string, found `7`");
        refused_call(HERE, r#"{"id":"","name":"x","arguments":{}}"#, "found an empty one");
        for arguments in ["\"{}\"", "[]", "null", "1"] {
            let text = format!(r#"{{"id":"c","name":"x","arguments":{arguments}}}"#);
            refused_call(HERE, &text, "`/arguments`: expected an object, found");
        }
        refused_call(
            HERE,
            r#"{"id":"c","name":"x","arguments":{},"traceId":"t"}"#,
            "expected only `id`, `name`, `arguments`, found `traceId`",
        );
        refused_call(HERE, "[]", "steerable call: expected an object, found an array");
        refused_call(HERE, r#"{"id":"c","id":"d","name":"x","arguments":{}}"#, "`id` again");
    }

    // S0-32, S0-7, S0-14: the document's three example results.
    #[test]
    fn s0_32_the_example_results_read_and_classify() {
        let success = r#"{"success":true,"message":"Event created.","data":{"eventId":"e_777"}}"#;
        let recoverable = r#"{"success":false,"needsFollowup":true,"error":"Invalid date format","message":"Please retry with ISO-8601."}"#;
        let terminal =
            r#"{"success":false,"terminal":true,"error":"Calendar service unavailable"}"#;
        let ok = lift_foreign(HERE, success).unwrap();
        assert_eq!(ok.result, CallResult::Ok(Output::of_value(json!({"eventId": "e_777"}))));
        assert_eq!(ok.directives.user_message.as_deref(), Some("Event created."));
        assert_eq!(ok.loop_effect(), LoopEffect::Continue);
        let again = lift_foreign(HERE, recoverable).unwrap();
        let failure = Failure::new(ErrorClass::ToolError, "Invalid date format");
        assert_eq!(again.result, CallResult::Err(failure));
        assert_eq!(again.directives.user_message.as_deref(), Some("Please retry with ISO-8601."));
        assert_eq!(again.loop_effect(), LoopEffect::Continue);
        let end = lift_foreign(HERE, terminal).unwrap();
        assert_eq!(end.loop_effect(), LoopEffect::End);
    }

    // S0-8, S0-10, S0-31: a native failure that says nothing ends the run.
    #[test]
    fn s0_10_s0_31_a_native_failure_without_needs_followup_ends_the_run() {
        let silent = lift_foreign(HERE, r#"{"success":false}"#).unwrap();
        assert_eq!(silent.directives.needs_followup, Some(false));
        assert_eq!(silent.loop_effect(), LoopEffect::End);
        assert!(!silent.is_ok());
        let ok = lift_foreign(HERE, r#"{"success":true}"#).unwrap();
        assert_eq!(ok.directives.needs_followup, None);
    }

    // S0-7, S0-9, S0-14: types are not coerced.
    #[test]
    fn s0_7_s0_9_s0_14_a_result_with_a_wrong_type_is_refused() {
        refused_result(HERE, "{}", "`/success`: expected `true` or `false`, found nothing");
        refused_result(HERE, r#"{"success":"true"}"#, "found `true`");
        refused_result(HERE, r#"{"success":1}"#, "found `1`");
        refused_result(HERE, r#"{"success":true,"terminal":"yes"}"#, "`/terminal`");
        refused_result(
            HERE,
            r#"{"success":true,"data":[1]}"#,
            "`/data`: expected an object, found an array",
        );
        refused_result(
            HERE,
            r#"{"success":true,"message":null}"#,
            "`/message`: expected a string, found null",
        );
        refused_result(HERE, "null", "expected an object, found null");
    }

    // S0-11, S0-15: unknown members and the hint come through untouched.
    #[test]
    fn s0_11_s0_15_unknown_members_and_the_next_action_round_trip() {
        let text =
            r#"{"success":true,"nextAction":"open:e_777","data":{"a":1},"x":{"y":[1]},"z":null}"#;
        let lifted = lift_foreign(HERE, text).unwrap();
        assert_eq!(lifted.directives.next_action.as_deref(), Some("open:e_777"));
        assert_eq!(Value::Object(lifted.extra.clone()), json!({"x": {"y": [1]}, "z": null}));
        let id = testing::provider_id();
        let body = HERE.project_result(&lifted, &id, Extension::Omit);
        assert_eq!(body, HERE.read(crate::Kind::Result, text.as_bytes()).unwrap());
    }

    // C13: a payload must be an object, and comes out of its wrapping only when we put it there.
    #[test]
    fn a_value_that_is_no_object_is_wrapped_and_unwrapped_by_the_extension_only() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Ok(Output::of_value(json!([1, 2])));
        let id = testing::provider_id();
        let mut body = HERE.project_result(&outcome, &id, Extension::Include);
        assert_eq!(body["data"], json!({"value": [1, 2]}));
        assert_eq!(testing::lift_own(HERE, &body, &outcome).unwrap(), outcome);
        body["data"]["value"] = json!([3]);
        let edited = testing::lift_own(HERE, &body, &outcome).unwrap();
        assert_eq!(edited.result, CallResult::Ok(Output::of_value(json!([3]))));
        let bare = lift_foreign(HERE, r#"{"success":true,"data":{"value":1}}"#).unwrap();
        assert_eq!(bare.result, CallResult::Ok(Output::of_value(json!({"value": 1}))));
    }

    proptest! {
        // S0-29, S0-31: document 000's rule, read off our projection, is our loop effect.
        #[test]
        fn s0_29_s0_31_the_projection_is_terminal_exactly_when_the_loop_ends(x in outcome()) {
            for extension in [Extension::Include, Extension::Omit] {
                let body = HERE.project_result(&x, &testing::provider_id(), extension);
                prop_assert_eq!(is_terminal(&body), x.loop_effect() == LoopEffect::End);
            }
        }
    }
}
