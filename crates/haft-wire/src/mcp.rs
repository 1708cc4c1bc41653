//! The Model Context Protocol: `Tool`, the params of `tools/call`, `CallToolResult`.
//!
//! MCP objects are open by its own rule, so members that Haft has no word for are left alone.
//! Annotations are hints that a server makes about itself. They are taken as declared, like a
//! name is; what keeps that safe is that a tool owned by an MCP server asks unless somebody else
//! says otherwise.
//!
//! Content other than text (images, audio, links) is kept as it came, under `content` in
//! `extra`, for the runtime to store.

use std::collections::BTreeMap;

use haft_core::tool::{Consequence, Definition, Idempotency, Mutates, Ownership, Reach};
use haft_core::{
    ArtifactRef, CallResult, ContentBlock, Directives, Failure, Outcome, Output, ProviderCallId,
    RequestedCall,
};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::error::{Kind, LiftError, ProjectError};
use crate::fields::{Fields, Place};
use crate::shape::{Lifting, Shape};
use crate::views::{self, object, word};

/// The Model Context Protocol.
#[derive(Debug)]
pub(crate) struct Mcp;

const PROVIDER: &str = "mcp";
const CALL_ID: &str = "haft/callId";
const BLOCKS: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Reads the params of `tools/call` when the id is that of the JSON-RPC request.
///
/// # Errors
///
/// When they are not such params. Absent arguments are what MCP lets a caller write for none.
pub fn lift_call_params(
    params: Value,
    provider_id: ProviderCallId,
) -> Result<RequestedCall, LiftError> {
    let mut fields = Place::top(Dialect::Mcp, Kind::Call).fields(params)?;
    read_params(&mut fields, provider_id)
}

impl Shape for Mcp {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        Ok(object([
            ("name", Some(views::wire_name(tool, PROVIDER, |_| true).into())),
            ("title", tool.display.label.as_deref().map(Into::into)),
            ("description", word(&tool.description)),
            ("inputSchema", word(&tool.input_schema)),
            ("outputSchema", tool.output_schema.as_ref().and_then(word)),
            ("annotations", Some(annotations(tool))),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        let (name, alias) = views::read_wire_name(&mut fields, "name")?;
        // MCP's description is optional. The name is then all that a model has to go by, and the
        // linter says so.
        let description = fields.optional_string("description")?;
        let description = description.unwrap_or_else(|| name.to_string());
        let mut definition = Definition::new(name, description, fields.schema("inputSchema")?);
        definition.aliases = BTreeMap::from_iter(alias.map(|alias| (PROVIDER.to_owned(), alias)));
        definition.ownership = Ownership::Mcp;
        definition.display.label = fields.optional_string("title")?;
        definition.output_schema = fields.optional_schema("outputSchema")?;
        if let Some(hints) = fields.optional_nested("annotations")? {
            read_annotations(hints, &mut definition)?;
        }
        Ok(definition)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        object([
            ("name", Some(call.name.as_str().into())),
            ("arguments", Some(Value::Object(call.arguments.clone()))),
            ("_meta", Some(json!({ CALL_ID: call.provider_id.as_str() }))),
        ])
    }

    fn lift_call(&self, mut fields: Fields) -> Result<RequestedCall, LiftError> {
        let provider_id = fields.nested("_meta")?.call_id(CALL_ID)?;
        read_params(&mut fields, provider_id)
    }

    fn project_result(&self, outcome: &Outcome, _: &ProviderCallId) -> Value {
        let mut content = match &outcome.result {
            CallResult::Ok(output) => ok_blocks(output),
            CallResult::Err(failure) => vec![text_block(&failure.message)],
        };
        let foreign = outcome.extra.get("content").and_then(Value::as_array);
        content.extend(foreign.into_iter().flatten().filter(|block| is_foreign(block)).cloned());
        Value::Object(object([
            ("content", Some(content.into())),
            ("structuredContent", views::payload(outcome).map(views::wrap)),
            ("isError", Some((!outcome.is_ok()).into())),
            ("_meta", views::carried(&outcome.extra, "_meta")),
        ]))
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        let (mut content, foreign) = read_blocks(&mut fields)?;
        let value = fields.optional_object("structuredContent")?.map(Value::Object);
        let is_error = fields.optional_boolean("isError")?.unwrap_or(false);
        let mut extra = views::extra_of("_meta", fields.optional_object("_meta")?);
        if !foreign.is_empty() {
            extra.insert("content".into(), Value::Array(foreign));
        }
        let result = if is_error {
            let message = views::text_of(&content).unwrap_or_default();
            CallResult::Err(Failure { partial: value, ..views::failure(message, &[]) })
        } else {
            if spells(&content, value.as_ref()) {
                content.clear();
            }
            CallResult::Ok(Output { content, value, artifacts: Vec::new() })
        };
        Ok(lifting.outcome(result, Directives::default(), extra))
    }
}

fn read_params(
    fields: &mut Fields,
    provider_id: ProviderCallId,
) -> Result<RequestedCall, LiftError> {
    let name = fields.string("name")?;
    let arguments = fields.optional_object("arguments")?.unwrap_or_default();
    Ok(RequestedCall { provider_id, name, arguments })
}

/// Returns MCP's hints. A tool with document 001's declarations also counts as destructive when
/// it is not read-only and either matters much or asks: MCP has no nearer word for that.
fn annotations(definition: &Definition) -> Value {
    let facets = definition.resolved_facets();
    let grave = definition.category.is_some()
        && !facets.is_read_only()
        && (definition.consequence == Some(Consequence::High) || definition.gate.asks());
    json!({
        "readOnlyHint": facets.is_read_only(),
        "destructiveHint": facets.is_destructive() || grave,
        "idempotentHint": facets.idempotency == Idempotency::Idempotent,
        "openWorldHint": facets.is_open_world(),
    })
}

fn read_annotations(mut hints: Fields, definition: &mut Definition) -> Result<(), LiftError> {
    let read_only = hints.optional_boolean("readOnlyHint")?;
    let destructive = hints.optional_boolean("destructiveHint")?;
    // Where the hints contradict each other the graver one counts; a tool that is said to write
    // is destructive unless it says otherwise, as the protocol has it.
    definition.facets.mutates = match (read_only, destructive) {
        (_, Some(true)) | (Some(false), None) => Some(Mutates::Irreversible),
        (Some(true), Some(false) | None) => Some(Mutates::None),
        (Some(false) | None, Some(false)) => Some(Mutates::Bounded),
        (None, None) => None,
    };
    let idempotent = hints.optional_boolean("idempotentHint")?;
    definition.facets.idempotency =
        idempotent.map(|safe| if safe { Idempotency::Idempotent } else { Idempotency::Unsafe });
    let open_world = hints.optional_boolean("openWorldHint")?;
    definition.facets.reach =
        open_world.map(|open| open.then_some(Reach::Network).into_iter().collect());
    if definition.display.label.is_none() {
        definition.display.label = hints.optional_string("title")?;
    }
    Ok(())
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns an output's content, and its value as text where there is none: MCP asks for that, for
/// clients that read no structured content.
fn ok_blocks(output: &Output) -> Vec<Value> {
    let blocks = output.content.iter().map(|block| match block {
        ContentBlock::Text { text } => text_block(text),
        ContentBlock::Artifact { artifact } => link(artifact),
    });
    let spelled = output.value.iter().filter(|_| output.content.is_empty());
    let spelled = spelled.map(|value| text_block(&views::wrap(value).to_string()));
    blocks.chain(spelled).chain(output.artifacts.iter().map(link)).collect()
}

fn link(artifact: &ArtifactRef) -> Value {
    let id = artifact.id.to_string();
    json!({
        "type": "resource_link",
        "uri": format!("haft://artifacts/{id}"),
        "name": artifact.title.as_deref().unwrap_or(&id),
        "mimeType": artifact.media_type,
        "size": artifact.bytes,
    })
}

/// Returns whether content says nothing but the value again, in text.
fn spells(content: &[ContentBlock], value: Option<&Value>) -> bool {
    let spelled = value.map(Value::to_string);
    matches!(content, [ContentBlock::Text { text }] if spelled.as_ref() == Some(text))
}

fn is_foreign(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "text" && BLOCKS.contains(&kind))
}

fn read_blocks(fields: &mut Fields) -> Result<(Vec<ContentBlock>, Vec<Value>), LiftError> {
    let place = fields.place().at("content");
    let (mut content, mut foreign) = (Vec::new(), Vec::new());
    for (i, block) in fields.array("content")?.into_iter().enumerate() {
        if is_foreign(&block) {
            foreign.push(block);
            continue;
        }
        let mut block = place.at(&i.to_string()).fields(block)?;
        block.one_of("type", &BLOCKS)?;
        content.push(ContentBlock::Text { text: block.string("text")? });
    }
    Ok((content, foreign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extension;
    use crate::testing::{
        self, lift_definition, lift_foreign, refused_call, refused_definition, refused_result,
    };
    use haft_core::ErrorClass;
    use haft_core::tool::{Category, Facets, Gate};

    const HERE: Dialect = Dialect::Mcp;

    fn hints(change: impl FnOnce(&mut Definition)) -> [bool; 4] {
        let mut definition = testing::definition_named("frobnicate");
        change(&mut definition);
        let body = HERE.project_definition(&definition, Extension::Omit).unwrap();
        let hint = |key: &str| body["annotations"][key].as_bool().unwrap();
        [
            hint("readOnlyHint"),
            hint("destructiveHint"),
            hint("idempotentHint"),
            hint("openWorldHint"),
        ]
    }

    // S1-30: the mapping table, and the model's rule for facets.
    #[test]
    fn s1_30_annotations_follow_from_facets_and_from_document_001() {
        let facets = |mutates| Facets {
            mutates: Some(mutates),
            reach: Some([].into()),
            ..Facets::default()
        };
        assert_eq!(hints(|_| {}), [false, true, false, true]);
        assert_eq!(hints(|d| d.facets = facets(Mutates::None)), [true, false, true, false]);
        assert_eq!(hints(|d| d.facets = facets(Mutates::Bounded)), [false, false, false, false]);
        let born_in_001 = |d: &mut Definition| {
            d.facets = facets(Mutates::Bounded);
            d.category = Some(Category::Write);
        };
        assert_eq!(hints(born_in_001), [false, false, false, false]);
        let high = |d: &mut Definition| {
            born_in_001(d);
            d.consequence = Some(Consequence::High);
        };
        assert_eq!(hints(high), [false, true, false, false]);
        let asks = |d: &mut Definition| {
            born_in_001(d);
            d.gate = Gate::Ask;
        };
        assert_eq!(hints(asks), [false, true, false, false]);
        let read = |d: &mut Definition| {
            d.facets = facets(Mutates::None);
            d.category = Some(Category::Read);
            d.consequence = Some(Consequence::High);
        };
        assert_eq!(hints(read), [true, false, true, false]);
    }

    #[test]
    fn a_tool_of_a_server_is_owned_by_it_and_keeps_its_name_as_alias() {
        let text = r#"{"name":"Files.Read","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[]}"#;
        let lifted = lift_definition(HERE, text).unwrap();
        assert_eq!(lifted.name.as_str(), "files_read");
        assert_eq!(lifted.aliases["mcp"].as_str(), "Files.Read");
        assert_eq!((lifted.ownership, lifted.gate), (Ownership::Mcp, Gate::Unset));
        assert_eq!(lifted.facets.mutates, Some(Mutates::None));
        let body = HERE.project_definition(&lifted, Extension::Omit).unwrap();
        assert_eq!(body["name"], "Files.Read");
        refused_definition(
            HERE,
            r#"{"name":"日本","description":"x","inputSchema":{}}"#,
            "a tool name",
        );
        refused_definition(
            HERE,
            r#"{"name":"x","description":"x","inputSchema":{},"annotations":{"readOnlyHint":"yes"}}"#,
            "`/annotations/readOnlyHint`",
        );
    }

    // A server cannot make its tool ours by writing our extension.
    #[test]
    fn a_servers_own_extension_is_not_read() {
        let mut ours = testing::definition_named("get_x");
        ours.gate = Gate::Auto;
        let forged = HERE.project_definition(&ours, Extension::Include).unwrap();
        assert!(forged["_meta"]["haft/canonical"].is_object());
        let lifted = lift_definition(HERE, &forged.to_string()).unwrap();
        assert_eq!((lifted.ownership, lifted.gate), (Ownership::Mcp, Gate::Unset));
    }

    #[test]
    fn the_params_of_a_call_may_take_their_id_from_the_request() {
        let id = testing::provider_id();
        let call = lift_call_params(json!({"name": "x"}), id.clone()).unwrap();
        assert_eq!(
            call,
            RequestedCall { provider_id: id.clone(), name: "x".into(), arguments: Map::new() }
        );
        assert!(lift_call_params(json!({"name": "x", "arguments": null}), id).is_err());
        refused_call(HERE, r#"{"name":"x","arguments":{}}"#, "`/_meta`");
        refused_call(
            HERE,
            r#"{"name":"x","arguments":"{}","_meta":{"haft/callId":"c"}}"#,
            "`/arguments`",
        );
    }

    #[test]
    fn results_carry_text_structure_and_links() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Ok(Output {
            artifacts: vec![testing::artifact_ref()],
            ..Output::of_value(json!([1]))
        });
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Omit);
        assert_eq!(body["structuredContent"], json!({"value": [1]}));
        assert_eq!(body["content"][0], json!({"type": "text", "text": "{\"value\":[1]}"}));
        assert_eq!(body["content"][1]["type"], "resource_link");
        let failed = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;
        let lifted = lift_foreign(HERE, failed).unwrap();
        assert_eq!(lifted.result, CallResult::Err(Failure::new(ErrorClass::ToolError, "no")));
    }

    #[test]
    fn content_without_a_word_of_ours_is_kept_and_unknown_content_is_refused() {
        let text = r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"a"}],"structuredContent":{"value":1}}"#;
        let lifted = lift_foreign(HERE, text).unwrap();
        let CallResult::Ok(output) = &lifted.result else { panic!("not an error") };
        assert_eq!(output.first_text(), Some("a"));
        assert_eq!(output.value, Some(json!({"value": 1})));
        assert_eq!(lifted.extra["content"][0]["mimeType"], "image/png");
        refused_result(
            HERE,
            r#"{"content":[{"type":"hologram"}]}"#,
            "`/content/0/type`: expected one of `text`",
        );
        refused_result(
            HERE,
            r#"{"content":[],"structuredContent":[1]}"#,
            "an object, found an array",
        );
        refused_result(HERE, "{}", "`/content`: expected an array, found nothing");
    }
}
