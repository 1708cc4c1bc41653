//! Tools that are shown as prompts and as resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use haft_core::session::Returned;
use haft_core::{CallResult, Output, ToolName};
use haft_mcp::ResourceSource;
use haft_runtime::{Tool, ToolArguments};
use serde_json::{Value, json};

use crate::content::IMAGE;
use crate::kit::{ask, filled_in, form, plain, text, tool};

fn messages(contents: &[Value]) -> Returned {
    let messages: Vec<Value> =
        contents.iter().map(|content| json!({"role": "user", "content": content})).collect();
    CallResult::Ok(Output::of_value(json!({ "messages": messages }))).into()
}

fn said(text: String) -> Value {
    json!({"type": "text", "text": text})
}

fn given<'a>(arguments: &'a ToolArguments, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A prompt that is there or not.
pub(crate) fn passing() -> Arc<dyn Tool> {
    plain("test_passing_prompt", "Is there now and then", |_| async { Ok(text("here")) })
}

pub(crate) fn names() -> BTreeSet<ToolName> {
    let names = [
        "test_simple_prompt",
        "test_prompt_with_arguments",
        "test_prompt_with_embedded_resource",
        "test_prompt_with_image",
        "test_input_required_result_prompt",
        "test_passing_prompt",
    ];
    names.into_iter().flat_map(ToolName::new).collect()
}

pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    let mut tools = prompts();
    tools.extend(contents());
    tools
}

fn prompts() -> Vec<Arc<dyn Tool>> {
    let strings = |names: &[&str]| {
        let fields = names.iter().map(|name| {
            ((*name).to_owned(), json!({"type": "string", "description": format!("The {name}")}))
        });
        let fields: serde_json::Map<String, Value> = fields.collect();
        json!({"type": "object", "properties": fields, "required": names})
    };
    vec![
        plain("test_simple_prompt", "A prompt without arguments", |_| async {
            Ok(messages(&[said("This is a simple prompt for testing.".to_owned())]))
        }),
        tool(
            "test_prompt_with_arguments",
            "A prompt with arguments",
            strings(&["arg1", "arg2"]),
            |arguments, _| async move {
                let (one, two) = (given(&arguments, "arg1"), given(&arguments, "arg2"));
                Ok(messages(&[said(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))]))
            },
        ),
        tool(
            "test_prompt_with_embedded_resource",
            "A prompt with a resource",
            strings(&["resourceUri"]),
            |arguments, _| async move {
                let resource = json!({"uri": given(&arguments, "resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing."});
                let resource = json!({"type": "resource", "resource": resource});
                Ok(messages(&[
                    resource,
                    said("Please process the embedded resource above.".to_owned()),
                ]))
            },
        ),
        plain("test_prompt_with_image", "A prompt with an image", |_| async {
            let image = json!({"type": "image", "data": IMAGE, "mimeType": "image/png"});
            Ok(messages(&[image, said("Please analyze the image above.".to_owned())]))
        }),
        plain(
            "test_input_required_result_prompt",
            "A prompt that asks first",
            |context| async move {
                let question = form(
                    "What context should the prompt use?",
                    json!({"context": {"type": "string"}}),
                );
                let answer = ask(&context, "user_context", question).await?;
                Ok(messages(&[said(format!(
                    "Use this context: {}",
                    filled_in(&answer, "context")
                ))]))
            },
        ),
    ]
}

fn contents() -> Vec<Arc<dyn Tool>> {
    let id =
        json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    vec![
        plain("static_text", "A text", |_| async {
            Ok(text("This is the content of the static text resource."))
        }),
        plain("static_binary", "Bytes", |_| async {
            let contents =
                json!([{"uri": "test://static-binary", "mimeType": "image/png", "blob": IMAGE}]);
            Ok(CallResult::Ok(Output::of_value(json!({ "contents": contents }))).into())
        }),
        tool("templated", "A text about an id", id, |arguments, _| async move {
            let id = given(&arguments, "id");
            Ok(text(
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")})
                    .to_string(),
            ))
        }),
        plain("watched", "A text that changes", |_| async { Ok(text("Watched resource content")) }),
    ]
}

pub(crate) fn resources() -> Vec<ResourceSource> {
    let source = |uri: &str, name: &str, kind: &str, tool: &str| {
        let tool = ToolName::new(tool).unwrap_or_else(|error| panic!("{error}"));
        let description = Some(format!("{name}, for testing"));
        let (uri, name) = (uri.to_owned(), name.to_owned());
        ResourceSource { uri, name, description, mime_type: Some(kind.to_owned()), tool }
    };
    vec![
        source("test://static-text", "Static text", "text/plain", "static_text"),
        source("test://static-binary", "Static binary", "image/png", "static_binary"),
        source("test://watched-resource", "Watched resource", "text/plain", "watched"),
        source("test://template/{id}/data", "Data by id", "application/json", "templated"),
    ]
}
