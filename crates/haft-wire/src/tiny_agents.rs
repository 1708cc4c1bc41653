//! Document 003, TinyAgents.
//!
//! A spec lists the arguments that the runtime injects. Its schema may still show them, as its
//! author wrote it; lifting takes them out, because what is hidden must never reach a model.
//! Durations are whole milliseconds.

use haft_core::tool::{
    Definition, Facets, FsAccess, Idempotency, Injected, Mutates, ProcessUse, Reach, Redaction,
    Retry, Spend,
};
use haft_core::{
    CallResult, ContentBlock, Directives, Failure, Millis, Outcome, Output, ProviderCallId,
    RequestedCall,
};
use serde_json::{Map, Value, json};

use crate::error::{LiftError, ProjectError};
use crate::fields::Fields;
use crate::openboa::read_artifacts;
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// Document 003.
#[derive(Debug)]
pub(crate) struct TinyAgents;

const CALL: [&str; 3] = ["id", "name", "arguments"];
const IDEMPOTENCY: [Idempotency; 3] =
    [Idempotency::Idempotent, Idempotency::Keyed, Idempotency::Unsafe];

impl Shape for TinyAgents {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let retry = Some(&tool.retry).filter(|retry| **retry != Retry::default());
        Ok(object([
            ("name", word(&tool.name)),
            ("description", word(&tool.description)),
            ("input_schema", word(&tool.input_schema)),
            ("output_schema", tool.output_schema.as_ref().and_then(word)),
            ("injected", word(&tool.injected)),
            ("safety", Some(safety(tool))),
            ("timeout", word(&tool.exec_timeout)),
            ("retry", retry.and_then(word)),
            ("idempotency", word(&tool.resolved_facets().idempotency)),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let mut definition = fields.definition("input_schema")?;
        definition.output_schema = fields.optional_schema("output_schema")?;
        definition.injected =
            fields.typed::<Vec<Injected>>("injected", "an array of {name, kind}")?;
        let hidden: Vec<&str> = definition.injected.iter().map(|arg| arg.name.as_str()).collect();
        definition.input_schema = definition.input_schema.without_properties(&hidden);
        read_safety(fields.nested("safety")?, &mut definition)?;
        if let Some(timeout) = fields.optional_whole("timeout")? {
            definition.exec_timeout = Millis(timeout);
        }
        let retry = fields.optional_typed("retry", "{max_attempts, backoff, backoff_max, on}")?;
        definition.retry = retry.unwrap_or_default();
        definition.facets.idempotency = Some(fields.one_of("idempotency", &IDEMPOTENCY)?);
        fields.close()?;
        Ok(definition)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        views::call_members(call, CALL)
    }

    fn lift_call(&self, fields: Fields) -> Result<RequestedCall, LiftError> {
        views::read_closed_call(fields, CALL)
    }

    fn project_result(&self, outcome: &Outcome, provider_id: &ProviderCallId) -> Value {
        let told;
        let (content, artifacts) = match &outcome.result {
            CallResult::Ok(output) => (output.content.as_slice(), output.artifacts.as_slice()),
            CallResult::Err(failure) => {
                told = [ContentBlock::Text { text: failure.message.clone() }];
                (told.as_slice(), [].as_slice())
            }
        };
        let provider = outcome.provider_meta.as_ref().filter(|meta| meta.is_object());
        Value::Object(object([
            ("tool_call_id", Some(provider_id.as_str().into())),
            ("name", word(&outcome.tool)),
            ("content", word(&content)),
            ("value", views::payload(outcome).cloned()),
            ("artifacts", word(&artifacts)),
            ("is_error", Some((!outcome.is_ok()).into())),
            ("provider", provider.cloned()),
            ("elapsed", word(&outcome.elapsed())),
        ]))
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        lifting.check_call(&mut fields, "tool_call_id")?;
        lifting.check_tool(&mut fields, "name")?;
        let content = read_content(&mut fields, lifting)?;
        let value = fields.take("value");
        let artifacts = read_artifacts(&mut fields, lifting)?;
        let is_error = fields.boolean("is_error")?;
        let provider = fields.optional_object("provider")?;
        // How long it took is measured by the runtime; the member must be there all the same.
        fields.whole("elapsed")?;
        let result = if is_error {
            let message = views::text_of(&content).unwrap_or_default();
            CallResult::Err(Failure { partial: value, ..views::failure(message, &[]) })
        } else {
            CallResult::Ok(Output { content, value, artifacts })
        };
        fields.close()?;
        let outcome = lifting.outcome(result, Directives::default(), Map::new());
        Ok(Outcome { provider_meta: provider.map(Value::Object), ..outcome })
    }
}

fn read_content(
    fields: &mut Fields,
    lifting: &Lifting<'_>,
) -> Result<Vec<ContentBlock>, LiftError> {
    let content: Vec<ContentBlock> = fields.typed("content", "an array of content blocks")?;
    let stored = content.iter().any(|block| block.as_text().is_none());
    if !stored || lifting.may_name_artifacts() {
        return Ok(content);
    }
    let place = fields.place().at("content");
    let error = place.error("no stored artifacts from an untrusted tool", "an artifact block");
    Err(error.with_fix("return the content itself; Haft stores it"))
}

/// The safety metadata of the document, one member per line of its list; idempotency has a
/// member of its own in the spec.
fn safety(definition: &Definition) -> Value {
    let facets = definition.resolved_facets();
    let (filesystem, roots) = match &facets.fs {
        FsAccess::None => ("none", [].as_slice()),
        FsAccess::ReadOnly { roots } => ("read", roots.as_slice()),
        FsAccess::ReadWrite { roots } => ("read_write", roots.as_slice()),
    };
    json!({
        "read_only": facets.is_read_only(),
        "networked": facets.is_open_world(),
        "filesystem": filesystem,
        "process": facets.process == ProcessUse::Starts,
        "payment": facets.spend == Spend::Possible,
        "requires_confirmation": views::asks(definition),
        "workspace_roots": roots,
        "redaction": definition.redaction,
    })
}

fn read_safety(mut fields: Fields, definition: &mut Definition) -> Result<(), LiftError> {
    let read_only = fields.boolean("read_only")?;
    let networked = fields.boolean("networked")?;
    let filesystem = fields.one_of("filesystem", &["none", "read", "read_write"])?;
    let process = fields.boolean("process")?;
    let payment = fields.boolean("payment")?;
    definition.gate = views::gate(fields.boolean("requires_confirmation")?);
    let roots: Vec<String> = fields.typed("workspace_roots", "an array of directories")?;
    definition.redaction = fields.typed::<Redaction>("redaction", "an array of JSON pointers")?;
    if filesystem == "none" && !roots.is_empty() {
        let place = fields.place().at("workspace_roots");
        let error = place.error("none without filesystem access", roots.len().to_string());
        return Err(error.with_fix("say `read` or `read_write` in `filesystem`"));
    }
    fields.close()?;
    definition.facets = Facets {
        // The document does not say whether a change can be taken back, so it counts as final.
        mutates: Some(if read_only { Mutates::None } else { Mutates::Irreversible }),
        reach: Some(networked.then_some(Reach::Network).into_iter().collect()),
        fs: Some(match filesystem {
            "none" => FsAccess::None,
            "read" => FsAccess::ReadOnly { roots },
            _ => FsAccess::ReadWrite { roots },
        }),
        process: Some(if process { ProcessUse::Starts } else { ProcessUse::None }),
        spend: Some(if payment { Spend::Possible } else { Spend::None }),
        ..Facets::default()
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, lift_definition, lift_foreign, refused_definition, refused_result};
    use crate::{Dialect, Extension, Kind};
    use haft_core::ErrorClass;
    use haft_core::tool::{Gate, ToolSpec};

    const HERE: Dialect = Dialect::TinyAgents;

    fn spec(change: impl FnOnce(&mut Value)) -> String {
        let mut body = json!({
            "name": "charge_card",
            "description": "Charges a card.",
            "input_schema": {
                "type": "object",
                "properties": {"amount": {"type": "number"}, "store": {"type": "object"}},
                "required": ["amount", "store"],
            },
            "injected": [{"name": "store", "kind": "store"}],
            "safety": {
                "read_only": false,
                "networked": true,
                "filesystem": "read",
                "process": false,
                "payment": true,
                "requires_confirmation": true,
                "workspace_roots": ["/workspace"],
                "redaction": ["/card"],
            },
            "timeout": 5000,
            "retry": {"max_attempts": 3, "backoff": 100, "backoff_max": 1000, "on": ["upstream"]},
            "idempotency": "keyed",
        });
        change(&mut body);
        body.to_string()
    }

    // S3-5, S3-6, S3-11: the spec's fields, with injected arguments out of the schema.
    #[test]
    fn s3_5_s3_6_s3_11_injected_arguments_are_stripped_when_a_spec_is_lifted() {
        let lifted = lift_definition(HERE, &spec(|_| {})).unwrap();
        assert!(!lifted.input_schema.text().contains("store"));
        assert!(lifted.input_schema.names_property("amount"));
        assert_eq!(lifted.exec_timeout, Millis(5000));
        assert_eq!(lifted.retry.max_attempts, 3);
        assert!(ToolSpec::new(lifted.clone()).is_ok());
        let body = HERE.project_definition(&lifted, Extension::Omit).unwrap();
        assert!(!body["input_schema"].to_string().contains("store"));
        assert_eq!(body["injected"], json!([{"name": "store", "kind": "store"}]));
    }

    // S3-26, S3-27, S3-28, S3-29, S3-30, S3-31, S3-32, S3-33, S3-34: the nine facets of safety.
    #[test]
    fn s3_26_to_s3_34_the_safety_metadata_becomes_facets_and_comes_back() {
        let text = spec(|_| {});
        let lifted = lift_definition(HERE, &text).unwrap();
        let facets = lifted.resolved_facets();
        assert!(!facets.is_read_only() && facets.is_open_world());
        assert_eq!(facets.idempotency, Idempotency::Keyed);
        assert_eq!(facets.fs, FsAccess::ReadOnly { roots: vec!["/workspace".into()] });
        assert_eq!((facets.process, facets.spend), (ProcessUse::None, Spend::Possible));
        assert_eq!(lifted.gate, Gate::Ask);
        assert_eq!(lifted.redaction.secret[0].as_str(), "/card");
        let body = HERE.project_definition(&lifted, Extension::Omit).unwrap();
        let given = HERE.read(Kind::Definition, text.as_bytes()).unwrap();
        assert_eq!((&body["safety"], &body["retry"]), (&given["safety"], &given["retry"]));
    }

    #[test]
    fn a_spec_that_leaves_safety_open_or_uses_unknown_words_is_refused() {
        for key in
            ["read_only", "networked", "filesystem", "process", "payment", "requires_confirmation"]
        {
            let text = spec(|body| {
                body["safety"].as_object_mut().unwrap().remove(key);
            });
            refused_definition(HERE, &text, &format!("`/safety/{key}`"));
        }
        let text = spec(|body| body["idempotency"] = json!("maybe"));
        refused_definition(HERE, &text, "one of `idempotent`, `keyed`, `unsafe`, found `maybe`");
        let text = spec(|body| body["injected"] = json!([{"name": "x", "kind": "gpu"}]));
        refused_definition(HERE, &text, "unknown variant `gpu`");
        let text = spec(|body| body["safety"]["filesystem"] = json!("none"));
        refused_definition(HERE, &text, "none without filesystem access");
        let text = spec(|body| body["safety"]["gpu"] = json!(true));
        refused_definition(HERE, &text, "found `gpu`");
    }

    // S3-18, S3-20: all fields of a result; ids are those of the call, in errors too.
    #[test]
    fn s3_18_s3_20_a_result_has_the_documents_fields_and_the_calls_id() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Err(Failure::new(ErrorClass::Upstream, "down"));
        outcome.provider_meta = Some(json!({"model": "m"}));
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Omit);
        assert_eq!(
            body,
            json!({
                "tool_call_id": "toolu_1",
                "name": "get_weather",
                "content": [{"type": "text", "text": "down"}],
                "artifacts": [],
                "is_error": true,
                "provider": {"model": "m"},
                "elapsed": 250,
            })
        );
        let lifted = lift_foreign(HERE, &body.to_string()).unwrap();
        assert_eq!(lifted.provider_meta, outcome.provider_meta);
        let other = body.to_string().replace("toolu_1", "toolu_2");
        refused_result(HERE, &other, "the call's id `toolu_1`, found `toolu_2`");
        let unknown = body.to_string().replace("\"elapsed\"", "\"took\"");
        refused_result(HERE, &unknown, "`/elapsed`");
    }
}
