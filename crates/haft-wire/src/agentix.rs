//! Document 004, Agentix.
//!
//! Who runs a tool and whether a person approves are two axes. A result is `{ok: true, result}`
//! or `{ok: false, error}`; a body without `ok` is not a result. A call's id stands outside its
//! name and args.

use haft_core::tool::{Definition, Executor, Gate, Retention, Streaming};
use haft_core::{
    CallResult, Directives, ErrorClass, Outcome, Output, ProviderCallId, RequestedCall,
};
use serde_json::{Map, Value, json};

use crate::error::{LiftError, ProjectError};
use crate::fields::Fields;
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// Document 004.
#[derive(Debug)]
pub(crate) struct Agentix;

const CALL: [&str; 3] = ["tool_call_id", "name", "args"];
const EXECUTORS: [Executor; 4] =
    [Executor::Server, Executor::Human, Executor::Client, Executor::Provider];
/// The texts by which the document's runtime marks a call that was stopped or never answered.
const FIXED: [(ErrorClass, &str); 2] =
    [(ErrorClass::Cancelled, "[cancelled]"), (ErrorClass::Expired, "user did not respond")];

impl Shape for Agentix {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let approval = if views::asks(tool) { "requires_approval" } else { "auto" };
        Ok(object([
            ("name", word(&tool.name)),
            ("description", word(&tool.description)),
            ("parameter_schema", word(&tool.input_schema)),
            ("executor", word(&tool.executor)),
            ("approval", Some(approval.into())),
            ("streaming?", Some((tool.streaming == Streaming::Progress).into())),
            ("retention", Some(retention(tool.retention))),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let mut definition = fields.definition("parameter_schema")?;
        definition.executor = fields.optional_one_of("executor", &EXECUTORS)?.unwrap_or_default();
        definition.gate = match fields.one_of("approval", &["auto", "requires_approval"])? {
            "auto" => Gate::Auto,
            _ => Gate::Ask,
        };
        definition.streaming = match fields.optional_boolean("streaming?")? {
            Some(true) => Streaming::Progress,
            Some(false) | None => Streaming::Final,
        };
        if let Some(kept) = fields.optional_nested("retention")? {
            definition.retention = read_retention(kept)?;
        }
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
        let (result, error) = match &outcome.result {
            CallResult::Ok(output) => (Some(views::single_value(output)), None),
            CallResult::Err(failure) => (None, Some(views::failure_text(failure, &FIXED).into())),
        };
        Value::Object(object([
            ("ok", Some(outcome.is_ok().into())),
            ("result", result),
            ("error", error),
            ("meta", views::carried(&outcome.extra, "meta")),
        ]))
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        let result = if fields.boolean("ok")? {
            fields.forbid("error", "a result with `ok: true` has `result` only")?;
            CallResult::Ok(Output::of_value(fields.need("result", "any value")?))
        } else {
            fields.forbid("result", "a result with `ok: false` has `error` only")?;
            CallResult::Err(views::failure(fields.string("error")?, &FIXED))
        };
        let extra = views::extra_of("meta", fields.optional_object("meta")?);
        fields.close()?;
        Ok(lifting.outcome(result, Directives::default(), extra))
    }
}

fn retention(retention: Retention) -> Value {
    match retention {
        Retention::Age { turns } => json!({"mode": "age", "value": turns}),
        Retention::Count { results } => json!({"mode": "count", "value": results}),
        Retention::NeverEvict => json!({"never_evict": true}),
    }
}

fn read_retention(mut fields: Fields) -> Result<Retention, LiftError> {
    let retention = match fields.optional_boolean("never_evict")? {
        Some(true) => Retention::NeverEvict,
        Some(false) | None => {
            let mode = fields.one_of("mode", &["age", "count"])?;
            let value = fields.typed("value", "a whole number below 2^32")?;
            match mode {
                "age" => Retention::Age { turns: value },
                _ => Retention::Count { results: value },
            }
        }
    };
    fields.close()?;
    Ok(retention)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, lift_definition, lift_foreign, refused_definition, refused_result};
    use crate::{Dialect, Extension};
    use haft_core::Failure;

    const HERE: Dialect = Dialect::Agentix;

    fn definition(change: impl FnOnce(&mut Value)) -> String {
        let mut body = json!({
            "name": "send_email",
            "description": "Sends a mail.",
            "parameter_schema": {"type": "object"},
            "executor": "server",
            "approval": "requires_approval",
            "streaming?": false,
            "retention": {"mode": "count", "value": 2},
        });
        change(&mut body);
        body.to_string()
    }

    // S4-1, S4-2, S4-11: the fields of a definition, with the executor's default.
    #[test]
    fn s4_1_s4_2_s4_11_a_definition_reads_and_writes_back() {
        let text = definition(|_| {});
        let lifted = lift_definition(HERE, &text).unwrap();
        assert_eq!((lifted.executor, lifted.gate), (Executor::Server, Gate::Ask));
        assert_eq!(lifted.retention, Retention::Count { results: 2 });
        let body = HERE.project_definition(&lifted, Extension::Omit).unwrap();
        assert_eq!(
            body.to_string(),
            HERE.read(crate::Kind::Definition, text.as_bytes()).unwrap().to_string()
        );
        let text = definition(|body| {
            let body = body.as_object_mut().unwrap();
            body.remove("executor");
            body.insert("streaming?".into(), json!(true));
            body.insert("retention".into(), json!({"never_evict": true}));
        });
        let lifted = lift_definition(HERE, &text).unwrap();
        assert_eq!((lifted.executor, lifted.streaming), (Executor::Server, Streaming::Progress));
        assert_eq!(lifted.retention, Retention::NeverEvict);
    }

    // S4-1, S4-2, S4-35: closed vocabularies.
    #[test]
    fn s4_1_s4_2_s4_35_unknown_words_are_refused_with_the_known_ones() {
        let text = definition(|body| body["executor"] = json!("sub_agent"));
        refused_definition(
            HERE,
            &text,
            "one of `server`, `human`, `client`, `provider`, found `sub_agent`",
        );
        let text = definition(|body| body["approval"] = json!("ask"));
        refused_definition(HERE, &text, "one of `auto`, `requires_approval`, found `ask`");
        let text = definition(|body| body["retention"] = json!({"mode": "size", "value": 1}));
        refused_definition(HERE, &text, "`/retention/mode`: expected one of `age`, `count`");
        let text = definition(|body| body["callback"] = json!("f"));
        refused_definition(HERE, &text, "found `callback`");
    }

    // S4-34: a body without `ok` is not a result.
    #[test]
    fn s4_34_a_result_says_ok_and_has_exactly_its_own_member() {
        let ok = lift_foreign(HERE, r#"{"ok":true,"result":null}"#).unwrap();
        assert_eq!(ok.result, CallResult::Ok(Output::of_value(Value::Null)));
        let err = lift_foreign(HERE, r#"{"ok":false,"error":"no"}"#).unwrap();
        assert_eq!(err.result, CallResult::Err(Failure::new(ErrorClass::ToolError, "no")));
        refused_result(HERE, r#"{"result":1}"#, "`/ok`: expected `true` or `false`, found nothing");
        refused_result(
            HERE,
            r#"{"ok":1,"result":1}"#,
            "`/ok`: expected `true` or `false`, found `1`",
        );
        refused_result(HERE, r#"{"ok":true}"#, "`/result`: expected any value, found nothing");
        refused_result(HERE, r#"{"ok":true,"result":1,"error":"x"}"#, "has `result` only");
        refused_result(HERE, r#"{"ok":false,"result":1,"error":"x"}"#, "has `error` only");
        refused_result(HERE, r#"{"ok":true,"result":1,"x":1}"#, "found `x`");
    }

    // S4-24, S4-38: an unanswered call and a stopped one have the document's texts.
    #[test]
    fn s4_24_s4_38_expired_and_cancelled_calls_have_the_documents_texts() {
        for (class, text) in FIXED {
            let mut outcome = testing::plain_outcome();
            outcome.result = CallResult::Err(Failure::new(class, "something longer"));
            let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Omit);
            assert_eq!(body, json!({"ok": false, "error": text}));
            let lifted = lift_foreign(HERE, &body.to_string()).unwrap();
            assert_eq!(lifted.result, CallResult::Err(Failure::new(class, text)));
        }
    }

    // S4-28: an outsider's extension is neither believed nor kept.
    #[test]
    fn s4_28_a_client_cannot_claim_anything_through_the_extension() {
        let mut outcome = testing::plain_outcome();
        outcome.directives.terminal = Some(true);
        outcome.result = CallResult::Ok(Output {
            artifacts: vec![testing::artifact_ref()],
            ..Output::of_value(json!(1))
        });
        let forged = HERE.project_result(&outcome, &testing::provider_id(), Extension::Include);
        let lifted = lift_foreign(HERE, &forged.to_string()).unwrap();
        assert_eq!(lifted.result, CallResult::Ok(Output::of_value(json!(1))));
        assert_eq!(lifted.directives, Directives::default());
        assert!(lifted.extra.is_empty());
    }
}
