//! Anthropic's Messages API: a tool, a `tool_use` block, a `tool_result` block.
//!
//! There is no room for an extension: the block's id joins it to the record. Blocks are open by
//! their owner's rule, since members are added to them over time; definitions are closed.

use haft_core::tool::Definition;
use haft_core::{CallResult, Directives, Outcome, Output, ProviderCallId, RequestedCall};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::error::{LiftError, ProjectError};
use crate::fields::{Fields, describe};
use crate::openai::{provider_parameters, read_provider_definition};
use crate::provider_schema::Target;
use crate::shape::{Lifting, Shape};
use crate::views::{self, is_provider_name, object, word};

/// Anthropic's Messages API.
#[derive(Debug)]
pub(crate) struct Anthropic;

const PROVIDER: &str = "anthropic";
const CALL: [&str; 3] = ["id", "name", "input"];

impl Shape for Anthropic {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let schema = provider_parameters(tool, Dialect::Anthropic, Target::Anthropic)?;
        Ok(object([
            ("name", Some(views::wire_name(tool, PROVIDER, is_provider_name).into())),
            ("description", word(&tool.description)),
            ("input_schema", Some(schema)),
        ]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        fields.optional_one_of("type", &["custom"])?;
        let definition = read_provider_definition(&mut fields, PROVIDER, "input_schema")?;
        fields.optional_object("cache_control")?;
        fields.close()?;
        Ok(definition)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        let mut body = views::call_members(call, CALL);
        body.insert("type".into(), "tool_use".into());
        body
    }

    fn lift_call(&self, mut fields: Fields) -> Result<RequestedCall, LiftError> {
        fields.one_of("type", &["tool_use"])?;
        views::read_call(&mut fields, CALL)
    }

    fn project_result(&self, outcome: &Outcome, provider_id: &ProviderCallId) -> Value {
        let text = match &outcome.result {
            CallResult::Ok(output) => views::model_text(output),
            CallResult::Err(failure) => failure.message.clone(),
        };
        json!({
            "type": "tool_result",
            "tool_use_id": provider_id.as_str(),
            "content": text,
            "is_error": !outcome.is_ok(),
        })
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        fields.one_of("type", &["tool_result"])?;
        lifting.check_call(&mut fields, "tool_use_id")?;
        let text = read_content(&mut fields)?;
        let result = match fields.optional_boolean("is_error")? {
            Some(true) => CallResult::Err(views::failure(text, &[])),
            Some(false) | None => CallResult::Ok(Output::of_text(text)),
        };
        Ok(lifting.outcome(result, Directives::default(), Map::new()))
    }
}

/// A result's content is a text, or blocks of which Haft writes only texts; absent means empty.
fn read_content(fields: &mut Fields) -> Result<String, LiftError> {
    let place = fields.place().at("content");
    let blocks = match fields.take("content") {
        None => return Ok(String::new()),
        Some(Value::String(text)) => return Ok(text),
        Some(Value::Array(blocks)) => blocks,
        Some(other) => return Err(place.error("a string or an array of blocks", describe(&other))),
    };
    let texts = blocks.into_iter().enumerate().map(|(i, block)| {
        let mut block = place.at(&i.to_string()).fields(block)?;
        block.one_of("type", &["text"])?;
        block.string("text")
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extension;
    use crate::testing::{
        self, lift_call, lift_definition, lift_foreign, refused_call, refused_result,
    };
    use haft_core::{ErrorClass, Failure};

    const HERE: Dialect = Dialect::Anthropic;

    #[test]
    fn the_documented_blocks_read() {
        let text = r#"{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Paris"},"caller":{"type":"direct"}}"#;
        let call = lift_call(HERE, text).unwrap();
        assert_eq!((call.provider_id.as_str(), call.name.as_str()), ("toolu_1", "get_weather"));
        let tool = r#"{"name":"get_weather","description":"x","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}"#;
        assert_eq!(lift_definition(HERE, tool).unwrap().name.as_str(), "get_weather");
        let blocks = r#"{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#;
        let lifted = lift_foreign(HERE, blocks).unwrap();
        assert_eq!(lifted.result, CallResult::Ok(Output::of_text("a\nb")));
    }

    #[test]
    fn what_is_not_such_a_block_is_refused() {
        refused_call(HERE, r#"{"type":"text","text":"x"}"#, "one of `tool_use`, found `text`");
        refused_call(HERE, r#"{"type":"tool_use","id":"c","name":"x","input":"{}"}"#, "`/input`");
        refused_result(
            HERE,
            r#"{"type":"tool_result","tool_use_id":"toolu_2","content":"x"}"#,
            "found `toolu_2`",
        );
        refused_result(
            HERE,
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":7}"#,
            "found `7`",
        );
        refused_result(
            HERE,
            r#"{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"image"}]}"#,
            "`/content/0/type`",
        );
    }

    // S4-13: models read the arguments in the order in which their author wrote them.
    #[test]
    fn s4_13_a_schema_reaches_the_provider_in_its_own_order() {
        let text = r#"{"type":"object","properties":{"zebra":{"type":"string"},"apple":{"type":"string"}},"required":["zebra"]}"#;
        let tool = format!(r#"{{"name":"pick","description":"x","input_schema":{text}}}"#);
        let definition = lift_definition(HERE, &tool).unwrap();
        let body = HERE.project_definition(&definition, Extension::Omit).unwrap();
        assert_eq!(body["input_schema"].to_string(), text);
    }

    // S3-18: an error message keeps the id of its call.
    #[test]
    fn s3_18_a_failure_is_marked_and_keeps_the_calls_id() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Err(Failure::new(ErrorClass::Expired, "nobody answered"));
        let body = HERE.project_result(&outcome, &testing::provider_id(), Extension::Include);
        assert_eq!(
            body,
            json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "nobody answered", "is_error": true})
        );
    }
}
