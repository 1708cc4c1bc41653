//! OpenAI's two tool formats: Chat Completions and Responses.
//!
//! Both send arguments as a string of JSON. There is no room for an extension: the call's id
//! joins a message to the record. Messages are open by their owner's rule, since members are
//! added to them over time; definitions, which people write, are closed.

use std::collections::BTreeMap;

use haft_core::tool::{Definition, Schema};
use haft_core::{CallResult, Directives, Outcome, Output, ProviderCallId, RequestedCall};
use serde_json::{Map, Value, json};

use crate::dialect::Dialect;
use crate::error::{LiftError, ProjectError};
use crate::fields::Fields;
use crate::openboa::result_text;
use crate::provider_schema::{self, Target};
use crate::shape::{Lifting, Shape};
use crate::views::{self, is_provider_name, object, word};

/// OpenAI's Chat Completions API.
#[derive(Debug)]
pub(crate) struct Chat;

/// OpenAI's Responses API.
#[derive(Debug)]
pub(crate) struct Responses;

const PROVIDER: &str = "openai";

impl Shape for Chat {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let function = function(tool, Dialect::OpenAiChat)?;
        Ok(object([("type", word(&"function")), ("function", Some(Value::Object(function)))]))
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        fields.one_of("type", &["function"])?;
        let function = fields.nested("function")?;
        fields.close()?;
        read_function(function)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        let arguments = Value::Object(call.arguments.clone()).to_string();
        object([
            ("id", Some(call.provider_id.as_str().into())),
            ("type", word(&"function")),
            ("function", Some(json!({"name": call.name, "arguments": arguments}))),
        ])
    }

    fn lift_call(&self, mut fields: Fields) -> Result<RequestedCall, LiftError> {
        let id = fields.call_id("id")?;
        fields.one_of("type", &["function"])?;
        read_arguments(fields.nested("function")?, id)
    }

    fn project_result(&self, outcome: &Outcome, provider_id: &ProviderCallId) -> Value {
        json!({
            "role": "tool",
            "tool_call_id": provider_id.as_str(),
            "content": result_text(outcome),
        })
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        fields.one_of("role", &["tool"])?;
        lifting.check_call(&mut fields, "tool_call_id")?;
        Ok(read_text(fields.string("content")?, lifting))
    }
}

impl Shape for Responses {
    fn project_definition(&self, tool: &Definition) -> Result<Map<String, Value>, ProjectError> {
        let mut body = function(tool, Dialect::OpenAiResponses)?;
        body.insert("type".into(), "function".into());
        // This API is strict unless told otherwise, and would refuse an ordinary schema.
        body.insert("strict".into(), false.into());
        Ok(body)
    }

    fn lift_definition(&self, mut fields: Fields) -> Result<Definition, LiftError> {
        fields.one_of("type", &["function"])?;
        read_function(fields)
    }

    fn project_call(&self, call: &RequestedCall) -> Map<String, Value> {
        let arguments = Value::Object(call.arguments.clone()).to_string();
        object([
            ("type", word(&"function_call")),
            ("call_id", Some(call.provider_id.as_str().into())),
            ("name", Some(call.name.as_str().into())),
            ("arguments", Some(arguments.into())),
        ])
    }

    fn lift_call(&self, mut fields: Fields) -> Result<RequestedCall, LiftError> {
        fields.one_of("type", &["function_call"])?;
        let id = fields.call_id("call_id")?;
        read_arguments(fields, id)
    }

    fn project_result(&self, outcome: &Outcome, provider_id: &ProviderCallId) -> Value {
        json!({
            "type": "function_call_output",
            "call_id": provider_id.as_str(),
            "output": result_text(outcome),
        })
    }

    fn lift_result(&self, body: Value, lifting: &Lifting<'_>) -> Result<Outcome, LiftError> {
        let mut fields = lifting.fields(body)?;
        fields.one_of("type", &["function_call_output"])?;
        lifting.check_call(&mut fields, "call_id")?;
        Ok(read_text(fields.string("output")?, lifting))
    }
}

fn function(definition: &Definition, dialect: Dialect) -> Result<Map<String, Value>, ProjectError> {
    let parameters = provider_parameters(definition, dialect, Target::OpenAi)?;
    Ok(object([
        ("name", Some(views::wire_name(definition, PROVIDER, is_provider_name).into())),
        ("description", word(&definition.description)),
        ("parameters", Some(parameters)),
    ]))
}

fn read_function(mut fields: Fields) -> Result<Definition, LiftError> {
    let definition = read_provider_definition(&mut fields, PROVIDER, "parameters")?;
    fields.optional_boolean("strict")?;
    fields.close()?;
    Ok(definition)
}

fn read_arguments(mut fields: Fields, id: ProviderCallId) -> Result<RequestedCall, LiftError> {
    let name = fields.string("name")?;
    let arguments = fields.string("arguments")?;
    let place = fields.place().at("arguments");
    RequestedCall::from_text(id, name, arguments.as_bytes()).map_err(|error| {
        place.error("a string with one JSON object", format!("other text ({error})"))
    })
}

/// Takes a result message for what it is: the text that the model read.
fn read_text(text: String, lifting: &Lifting<'_>) -> Outcome {
    let result = CallResult::Ok(Output::of_text(text));
    lifting.outcome(result, Directives::default(), Map::new())
}

/// Derives the schema that a provider is sent.
pub(crate) fn provider_parameters(
    definition: &Definition,
    dialect: Dialect,
    target: Target,
) -> Result<Value, ProjectError> {
    let projected = provider_schema::project(&definition.input_schema, target);
    let projected = projected.map_err(|source| {
        let tool = definition.name.clone();
        ProjectError::Schema { dialect, tool, source }
    })?;
    Ok(projected.schema)
}

/// Reads a definition under the name that a provider knows it by.
pub(crate) fn read_provider_definition(
    fields: &mut Fields,
    provider: &str,
    schema: &'static str,
) -> Result<Definition, LiftError> {
    let (name, alias) = views::read_wire_name(fields, "name")?;
    let description = fields.string("description")?;
    let schema: Schema = fields.schema(schema)?;
    let aliases = alias.map(|alias| (provider.to_owned(), alias));
    Ok(Definition {
        aliases: BTreeMap::from_iter(aliases),
        ..Definition::new(name, description, schema)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extension;
    use crate::testing::{self, lift_call, lift_definition, refused_call, refused_definition};
    use haft_core::{ErrorClass, Failure};

    const BOTH: [Dialect; 2] = [Dialect::OpenAiChat, Dialect::OpenAiResponses];

    // S3-17: arguments are text, and malformed text never becomes `{}`.
    #[test]
    fn s3_17_malformed_argument_text_is_refused() {
        for (arguments, part) in [
            ("", "the end of the text"),
            ("null", "found null"),
            ("[]", "found an array"),
            (r#"{"a":1,"a":2}"#, "`a` again"),
            (r#"{"a":NaN}"#, "'N'"),
            (r#"{"a":"#, "the end of the text"),
        ] {
            let chat = json!({"id": "c", "type": "function", "function": {"name": "x", "arguments": arguments}});
            refused_call(Dialect::OpenAiChat, &chat.to_string(), part);
            refused_call(Dialect::OpenAiChat, &chat.to_string(), "`/function/arguments`");
            let item = json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": arguments});
            refused_call(Dialect::OpenAiResponses, &item.to_string(), part);
        }
        let object =
            json!({"id": "c", "type": "function", "function": {"name": "x", "arguments": {}}});
        refused_call(
            Dialect::OpenAiChat,
            &object.to_string(),
            "expected a string, found an object",
        );
        let custom = json!({"id": "c", "type": "custom", "custom": {}});
        refused_call(Dialect::OpenAiChat, &custom.to_string(), "one of `function`, found `custom`");
    }

    #[test]
    fn the_documented_messages_read() {
        let chat = r#"{"index":0,"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\"}"}}"#;
        let item = r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"get_weather","arguments":"{\"city\":\"Paris\"}"}"#;
        let expected = RequestedCall::from_text(
            ProviderCallId::new("call_1").unwrap(),
            "get_weather",
            br#"{"city":"Paris"}"#,
        )
        .unwrap();
        assert_eq!(lift_call(Dialect::OpenAiChat, chat).unwrap(), expected);
        assert_eq!(lift_call(Dialect::OpenAiResponses, item).unwrap(), expected);
    }

    // S3-4: the provider's name is an alias; the canonical one stays canonical.
    #[test]
    fn s3_4_an_alias_is_used_where_the_provider_takes_it() {
        let mut definition = testing::definition_named("get_weather");
        let name = |definition: &Definition| {
            let body = Dialect::OpenAiChat.project_definition(definition, Extension::Include);
            body.unwrap()["function"]["name"].as_str().unwrap().to_owned()
        };
        definition
            .aliases
            .insert("openai".into(), haft_core::ToolAlias::new("getWeather").unwrap());
        assert_eq!(name(&definition), "getWeather");
        definition
            .aliases
            .insert("openai".into(), haft_core::ToolAlias::new("weather.get").unwrap());
        assert_eq!(name(&definition), "get_weather");
        let text = r#"{"type":"function","function":{"name":"getWeather","description":"x","parameters":{"type":"object"}}}"#;
        let lifted = lift_definition(Dialect::OpenAiChat, text).unwrap();
        assert_eq!(lifted.name.as_str(), "getweather");
        assert_eq!(lifted.aliases["openai"].as_str(), "getWeather");
    }

    #[test]
    fn a_definition_with_an_unknown_member_or_type_is_refused() {
        refused_definition(
            Dialect::OpenAiResponses,
            r#"{"type":"function","name":"x","description":"x","parameters":{},"effort":1}"#,
            "found `effort`",
        );
        refused_definition(
            Dialect::OpenAiChat,
            r#"{"type":"web_search"}"#,
            "one of `function`, found `web_search`",
        );
    }

    #[test]
    fn a_failure_is_visible_in_the_text_that_the_model_reads() {
        let mut outcome = testing::plain_outcome();
        outcome.result = CallResult::Err(Failure::new(ErrorClass::Denied, "ann said no"));
        let id = testing::provider_id();
        let [chat, item] =
            BOTH.map(|dialect| dialect.project_result(&outcome, &id, Extension::Include));
        assert_eq!(
            chat,
            json!({"role": "tool", "tool_call_id": "toolu_1", "content": "{\"error\":\"ann said no\"}"})
        );
        assert_eq!(item["output"], chat["content"]);
    }
}
