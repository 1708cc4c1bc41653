//! Document 001, tool-forge.
//!
//! A result names its tool and the moment of the attempt, and has exactly one of `data` and
//! `error`; there is no `success` and no `timestamp`. A definition says category, consequence
//! and confirmation, each for itself: none is inferred from another, in either direction.
//!
//! The document has no envelope for a call, only `execute(params, context)`: here a call is the
//! tool, its params, and its id under `meta`.

use haft_core::tool::{Category, Consequence, Definition, Gate, Mutates, Reach, Status, Version};
use haft_core::{
    CallResult, Directives, ErrorClass, Millis, Outcome, Output, ProviderCallId, RequestedCall,
    Timestamp,
};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::error::{LiftError, ProjectError};
use crate::fields::{Fields, describe};
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// Document 001.
#[derive(Debug)]
pub(crate) struct ToolForge;

/// The document's own word for a call that was stopped ("AbortSignal Contract").
const FIXED: [(ErrorClass, &str); 1] = [(ErrorClass::Cancelled, "Request was cancelled")];
/// What a result's own words are, and what they must never be.
const TAKEN: [&str; 7] = ["tool", "fetchedAt", "data", "error", "success", "timestamp", "meta"];

const CATEGORIES: [Category; 4] =
    [Category::Read, Category::Write, Category::Delete, Category::SideEffect];
const LEVELS: [Consequence; 3] = [Consequence::Low, Consequence::Medium, Consequence::High];
const STATUSES: [Status; 4] =
    [Status::Active, Status::Unlisted, Status::Deprecated, Status::Removed];

impl Shape for ToolForge {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let undeclared = |field, fix| ProjectError::Undeclared {
            dialect: Dialect::ToolForge,
            tool: tool.name.clone(),
            field,
            fix,
        };
        let consequence = tool.consequence.ok_or_else(|| {
            undeclared("consequence", "say `low`, `medium` or `high`; it follows from nothing else")
        })?;
        if tool.gate == Gate::Unset {
            let fix = "say `auto` or `ask`; document 001 forbids inferring it from the category";
            return Err(undeclared("gate", fix));
        }
        let listed = |items: Option<Value>, empty: bool| items.filter(|_| !empty);
        Ok(object([
            ("name", word(&tool.name)),
            ("description", word(&tool.description)),
            ("schema", word(&tool.input_schema)),
            ("category", word(&tool.effective_category())),
            ("consequenceLevel", word(&consequence)),
            ("requiresConfirmation", Some(tool.gate.asks().into())),
            ("timeout", Some(tool.exec_timeout.0.into())),
            ("tags", listed(word(&tool.tags), tool.tags.is_empty())),
            ("version", word(&tool.version)),
            ("dependsOn", listed(word(&tool.depends_on), tool.depends_on.is_empty())),
            ("status", word(&tool.status)),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let mut definition = fields.definition("schema")?;
        let category = fields.one_of("category", &CATEGORIES)?;
        definition.consequence = Some(fields.one_of("consequenceLevel", &LEVELS)?);
        definition.gate = views::gate(fields.boolean("requiresConfirmation")?);
        if let Some(timeout) = fields.optional_whole("timeout")? {
            definition.exec_timeout = Millis(timeout);
        }
        definition.tags = fields.optional_typed("tags", "an array of strings")?.unwrap_or_default();
        let version = fields.optional_typed("version", "a semantic version")?;
        definition.version = version.unwrap_or_else(Version::default);
        let names = fields.optional_typed("dependsOn", "an array of tool names")?;
        definition.depends_on = names.unwrap_or_default();
        definition.status = fields.optional_one_of("status", &STATUSES)?.unwrap_or_default();
        fields.close()?;
        declare(&mut definition, category);
        Ok(definition)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        object([
            ("tool", Some(call.name.as_str().into())),
            ("params", Some(Value::Object(call.arguments.clone()))),
            ("meta", Some(json!({ "callId": call.provider_id.as_str() }))),
        ])
    }

    fn lift_call(&self, mut fields: Fields) -> Result<RequestedCall, LiftError> {
        let (name, arguments) = (fields.string("tool")?, fields.object("params")?);
        let mut meta = fields.nested("meta")?;
        let provider_id = meta.call_id("callId")?;
        meta.close()?;
        fields.close()?;
        Ok(RequestedCall { provider_id, name, arguments })
    }

    fn project_result(&self, outcome: &Outcome, _: &ProviderCallId) -> Value {
        let (data, error) = match &outcome.result {
            CallResult::Ok(output) => (Some(views::single_value(output)), None),
            CallResult::Err(failure) => (None, Some(views::failure_text(failure, &FIXED).into())),
        };
        let mut body = object([
            ("tool", word(&outcome.tool)),
            ("fetchedAt", Some(outcome.started_at.to_string().into())),
            ("data", data),
            ("error", error),
            ("meta", views::carried(&outcome.extra, "meta")),
        ]);
        body.extend(views::open_members(&outcome.extra, &TAKEN));
        Value::Object(body)
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        fields.forbid("success", "the presence of `error` is the failure signal")?;
        fields.forbid("timestamp", "the member is called `fetchedAt`")?;
        lifting.check_tool(&mut fields, "tool")?;
        check_moment(&mut fields)?;
        let error = fields.optional_string("error")?;
        let result = match (fields.take("data"), error) {
            (Some(data), None) => CallResult::Ok(Output::of_value(data)),
            (None, Some(error)) => CallResult::Err(views::failure(error, &FIXED)),
            (Some(_), Some(_)) => {
                let error = fields.place().error("either `data` or `error`", "both");
                return Err(error.with_fix("leave out `data` when the call failed"));
            }
            (None, None) => {
                let error = fields.place().error("either `data` or `error`", "neither");
                return Err(error.with_fix("return `data`, even if it is null, when it worked"));
            }
        };
        Ok(lifting.outcome(result, Directives::default(), fields.rest()))
    }
}

/// Declares what a category says about the tool's effects. What it leaves open takes the careful
/// value: a mail that was sent cannot be taken back.
fn declare(definition: &mut Definition, category: Category) {
    definition.category = Some(category);
    definition.facets.mutates = Some(match category {
        Category::Read => Mutates::None,
        Category::Write => Mutates::Bounded,
        Category::Delete | Category::SideEffect => Mutates::Irreversible,
    });
    if category == Category::SideEffect {
        definition.facets.reach = Some([Reach::ExternalService].into());
    }
}

/// `fetchedAt` must be there and in the document's form; the moment itself is the runtime's.
fn check_moment(fields: &mut Fields) -> Result<(), LiftError> {
    let text = fields.string("fetchedAt")?;
    let exact = Timestamp::parse_rfc3339(&text).is_ok_and(|moment| moment.to_string() == text);
    if exact {
        return Ok(());
    }
    let expected = "a moment like `2025-01-15T10:30:00.000Z`";
    Err(fields.place().at("fetchedAt").error(expected, describe(&Value::String(text))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extension;
    use crate::testing::{self, lift_definition, lift_foreign, refused_definition, refused_result};
    use haft_core::{Disposition, Failure};

    const HERE: Dialect = Dialect::ToolForge;

    fn definition(change: impl FnOnce(&mut Value)) -> String {
        let mut body = json!({
            "name": "get_holdings",
            "description": "Gets holdings. Use when asked what is held.",
            "schema": {"type": "object"},
            "category": "read",
            "consequenceLevel": "high",
            "requiresConfirmation": false,
        });
        change(&mut body);
        body.to_string()
    }

    // S1-5, S1-6, S1-7, S1-9: missing means refused, never inferred.
    #[test]
    fn s1_5_s1_6_s1_7_s1_9_what_a_definition_must_say_is_never_inferred() {
        for key in [
            "name",
            "description",
            "schema",
            "category",
            "consequenceLevel",
            "requiresConfirmation",
        ] {
            let text = definition(|body| {
                body.as_object_mut().unwrap().remove(key);
            });
            refused_definition(HERE, &text, &format!("`/{key}`: expected"));
            refused_definition(HERE, &text, "found nothing");
        }
        let text = definition(|body| body["category"] = json!("mutate"));
        refused_definition(
            HERE,
            &text,
            "one of `read`, `write`, `delete`, `side_effect`, found `mutate`",
        );
        let text = definition(|body| body["consequenceLevel"] = json!("huge"));
        refused_definition(HERE, &text, "one of `low`, `medium`, `high`, found `huge`");
        let text = definition(|body| body["requiresConfirmation"] = json!("yes"));
        refused_definition(HERE, &text, "expected `true` or `false`, found `yes`");
        let text = definition(|body| body["execute"] = json!("f"));
        refused_definition(HERE, &text, "found `execute`");
        let text = definition(|body| body["name"] = json!("getHoldings"));
        refused_definition(HERE, &text, "`getholdings` would do");
    }

    // S1-8: a costly read and a cheap write are both fine.
    #[test]
    fn s1_8_consequence_and_confirmation_are_independent_of_the_category() {
        for category in CATEGORIES {
            for level in LEVELS {
                for confirm in [true, false] {
                    let text = definition(|body| {
                        body["category"] = json!(category);
                        body["consequenceLevel"] = json!(level);
                        body["requiresConfirmation"] = json!(confirm);
                    });
                    let lifted = lift_definition(HERE, &text).unwrap();
                    assert_eq!(lifted.category, Some(category));
                    assert_eq!(lifted.consequence, Some(level));
                    assert_eq!(lifted.gate.asks(), confirm);
                    assert_eq!(category.contradiction(&lifted.resolved_facets()), None);
                }
            }
        }
    }

    // S1-13, and what a definition says of timeout, tags, dependencies and status.
    #[test]
    fn s1_13_optional_members_have_their_documented_defaults() {
        let plain = lift_definition(HERE, &definition(|_| {})).unwrap();
        assert_eq!(plain.exec_timeout, Millis(15_000));
        let text = definition(|body| {
            body["timeout"] = json!(900);
            body["tags"] = json!(["portfolio"]);
            body["version"] = json!("2.1.0");
            body["dependsOn"] = json!(["get_prices"]);
            body["status"] = json!("deprecated");
        });
        let full = lift_definition(HERE, &text).unwrap();
        assert_eq!((full.exec_timeout, full.status), (Millis(900), Status::Deprecated));
        assert_eq!(full.tags, ["portfolio"]);
        assert_eq!(full.version.to_string(), "2.1.0");
        assert_eq!(full.depends_on[0].as_str(), "get_prices");
        refused_definition(HERE, &definition(|body| body["timeout"] = json!(1.5)), "found `1.5`");
        refused_definition(HERE, &definition(|body| body["version"] = json!("2")), "like `1.4.0`");
    }

    // S1-9: nor is it invented on the way out.
    #[test]
    fn s1_9_a_definition_that_leaves_it_open_is_not_projected() {
        let mut definition = lift_definition(HERE, &definition(|_| {})).unwrap();
        definition.gate = Gate::Unset;
        let error = HERE.project_definition(&definition, Extension::Include).unwrap_err();
        assert!(error.to_string().contains("to declare `gate` for tool-forge"), "{error}");
        definition.gate = Gate::Auto;
        definition.consequence = None;
        let error = HERE.project_definition(&definition, Extension::Include).unwrap_err();
        assert!(error.to_string().contains("`consequence`"), "{error}");
    }

    // S1-17, S1-18: the document's cancelled result, word for word.
    #[test]
    fn a_cancelled_call_has_the_documents_text() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Err(Failure::new(ErrorClass::Cancelled, "ann stopped it"));
        outcome.started_at = Timestamp::from_ms(1_736_937_000_000);
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Omit);
        assert_eq!(
            body,
            json!({
                "tool": "get_weather",
                "fetchedAt": "2025-01-15T10:30:00.000Z",
                "error": "Request was cancelled",
            })
        );
        let lifted = lift_foreign(HERE, &body.to_string()).unwrap();
        let CallResult::Err(failure) = &lifted.result else { panic!("{lifted:?}") };
        assert_eq!(failure.class, ErrorClass::Cancelled);
        assert_eq!(failure.class.disposition(), Disposition::Repairable);
    }

    // S1-17, S1-18, S1-19, S1-20: each rule of the result is checked and named.
    #[test]
    fn s1_17_s1_18_s1_19_s1_20_a_result_that_breaks_a_rule_is_refused_by_name() {
        let result = |members: &str| {
            format!(r#"{{"tool":"get_weather","fetchedAt":"2025-01-15T10:30:00.000Z"{members}}}"#)
        };
        assert!(lift_foreign(HERE, &result(r#","data":null"#)).is_ok());
        refused_result(
            HERE,
            &result(r#","data":1,"error":"x""#),
            "either `data` or `error`, found both",
        );
        refused_result(HERE, &result(""), "either `data` or `error`, found neither");
        refused_result(
            HERE,
            &result(r#","data":1,"success":true"#),
            "`/success`: expected no such member",
        );
        refused_result(
            HERE,
            &result(r#","data":1,"timestamp":"x""#),
            "the member is called `fetchedAt`",
        );
        refused_result(HERE, &result(r#","error":{"m":1}"#), "`/error`: expected a string");
        refused_result(
            HERE,
            r#"{"tool":"get_weather","data":1}"#,
            "`/fetchedAt`: expected a string, found nothing",
        );
        for moment in ["2025-01-15", "2025-01-15T10:30:00Z", "2025-01-15T10:30:00.000+01:00", "now"]
        {
            let text = format!(r#"{{"tool":"get_weather","fetchedAt":"{moment}","data":1}}"#);
            refused_result(HERE, &text, "a moment like `2025-01-15T10:30:00.000Z`");
        }
        refused_result(
            HERE,
            r#"{"tool":"other","fetchedAt":"2025-01-15T10:30:00.000Z","data":1}"#,
            "the called tool's name `get_weather`, found `other`",
        );
    }

    // C2: what was produced before a failure goes to meta, because data and error exclude each other.
    #[test]
    fn a_partial_value_goes_to_meta() {
        let mut outcome = testing::plain_outcome();
        let partial = Some(json!({"rows": 3}));
        outcome.result =
            CallResult::Err(Failure { partial, ..Failure::new(ErrorClass::Timeout, "slow") });
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Include);
        assert!(body.get("data").is_none());
        assert!(body["meta"].to_string().contains("rows"), "{body}");
        assert_eq!(testing::lift_own(HERE, &body, &outcome).unwrap(), outcome);
    }
}
