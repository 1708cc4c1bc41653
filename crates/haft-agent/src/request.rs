//! The body of a request: what a model is told, shown and offered.

use std::collections::BTreeMap;

use haft_core::ToolName;
use haft_core::session::Toolset;
use haft_core::tool::Executor;
use haft_runtime::registry::{Advertised, Registered};
use haft_wire::Extension;
use serde_json::{Map, Value, json};

use crate::directive;
use crate::model::{ModelConfig, Proactive};
use crate::provider::Api;
use crate::text_calls::{self, Envelope};
use crate::tokens;
use crate::transcript::{Names, Rendered, Transcript, render};

/// Anthropic's API wants a limit on every answer.
const OUTPUT_TOKENS: u32 = 8192;

/// How a model asks for calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallStyle {
    /// By the API's own tool calls.
    #[default]
    Native,
    /// In its text, between tags: for servers that know no tools.
    Text,
    /// By answering with one JSON object whose schema the server enforces: for small models
    /// behind a server that knows `response_format`. Chat Completions only; elsewhere as `Text`.
    Constrained,
}

/// The tools of a turn as a provider is sent them.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    pub(crate) names: Names,
    definitions: Vec<Value>,
    /// Names and schemas of the tools that are called here.
    ours: Vec<(String, Value)>,
}

impl Offer {
    /// Writes the offered tools in the API's dialect. A tool whose schema the provider cannot be
    /// sent is left out: calling it would only fail.
    pub(crate) fn new(
        api: Api,
        advertised: &Advertised,
        toolset: &Toolset,
        provider_tools: &BTreeMap<ToolName, Value>,
    ) -> Self {
        let mut offer = Self::default();
        for tool in advertised.tools().iter() {
            if tool.spec().executor == Executor::Provider {
                if let Some(body) = provider_tools.get(tool.name()) {
                    offer.add_provider_tool(tool.name(), body);
                }
                continue;
            }
            offer.add(api, tool, toolset);
        }
        offer
    }

    /// Returns about how many tokens the tools are.
    pub(crate) fn tokens(&self) -> usize {
        self.definitions.iter().map(|definition| tokens::count(&definition.to_string())).sum()
    }

    fn add_provider_tool(&mut self, name: &ToolName, body: &Value) {
        let wire = body.get("name").or_else(|| body.get("type")).and_then(Value::as_str);
        self.names.add(name, wire.unwrap_or(name.as_str()));
        self.definitions.push(body.clone());
    }

    fn add(&mut self, api: Api, tool: &Registered, toolset: &Toolset) {
        let mut body = match api.dialect().project_definition(tool.spec(), Extension::Omit) {
            Ok(body) => body,
            Err(error) => {
                tracing::warn!(tool = %tool.name(), %error, "a tool cannot be offered");
                return;
            }
        };
        let called = toolset.called(tool.name().as_str());
        if called != tool.name().as_str() {
            call_it(&mut body, called);
        }
        let inner = body.get("function").unwrap_or(&body);
        let wire =
            inner.get("name").and_then(Value::as_str).unwrap_or_else(|| tool.name().as_str());
        let schema = inner.get("parameters").or_else(|| inner.get("input_schema"));
        self.names.add(tool.name(), wire);
        self.ours.push((wire.to_owned(), schema.cloned().unwrap_or_else(|| json!({}))));
        self.definitions.push(body);
    }
}

/// Puts what the session calls a tool in the place of its name.
fn call_it(body: &mut Value, called: &str) {
    let inner = match body.get("function") {
        Some(_) => body.get_mut("function"),
        None => Some(body),
    };
    if let Some(inner) = inner.and_then(Value::as_object_mut) {
        inner.insert("name".to_owned(), called.into());
    }
}

/// Returns how calls stand in the text of an answer, when they do.
pub(crate) fn envelope(config: &ModelConfig) -> Option<Envelope> {
    match (config.calls, config.provider.api) {
        (CallStyle::Native, _) => None,
        (CallStyle::Constrained, Api::OpenAiChat) => Some(Envelope::Object),
        (CallStyle::Constrained | CallStyle::Text, _) => Some(Envelope::Tags),
    }
}

/// Writes the system prompt: the agent's own instructions, or else the model's, and what Haft adds.
pub(crate) fn instructions(config: &ModelConfig, told: Option<&str>, offer: &Offer) -> String {
    let mut instructions = told.or(config.instructions.as_deref()).unwrap_or_default().to_owned();
    if config.proactive == Proactive::Directed {
        add_paragraph(&mut instructions, directive::INSTRUCTIONS);
    }
    if let Some(envelope) = envelope(config) {
        add_paragraph(&mut instructions, &text_calls::instructions(envelope, &offer.definitions));
    }
    instructions
}

/// Writes the body of a request.
pub(crate) fn body(
    config: &ModelConfig,
    instructions: &str,
    transcript: &Transcript,
    offer: &Offer,
) -> Value {
    let api = config.provider.api;
    let envelope = envelope(config);
    let rendered = match envelope {
        None => render(transcript, api, &offer.names),
        Some(envelope) => render(&text_calls::flattened(transcript, envelope), api, &offer.names),
    };
    let mut body = match api {
        Api::AnthropicMessages => messages_body(config, instructions, rendered),
        Api::OpenAiChat => chat_body(config, instructions, rendered),
        Api::OpenAiResponses => responses_body(config, instructions, rendered),
    };
    body.insert("model".to_owned(), config.model.clone().into());
    body.insert("stream".to_owned(), true.into());
    body.extend(config.extra.clone());
    match envelope {
        None if !offer.definitions.is_empty() => {
            body.insert("tools".to_owned(), offer.definitions.clone().into());
        }
        Some(Envelope::Object) => {
            let schema = text_calls::answer_schema(&offer.ours);
            let schema = json!({"name": "answer", "schema": schema});
            let format = json!({"type": "json_schema", "json_schema": schema});
            body.insert("response_format".to_owned(), format);
        }
        None | Some(Envelope::Tags) => {}
    }
    Value::Object(body)
}

fn add_paragraph(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

/// Writes the body of a request for plain text, without tools.
pub(crate) fn plain_body(config: &ModelConfig, instructions: &str, shown: &Transcript) -> Value {
    let api = config.provider.api;
    let rendered = render(shown, api, &Names::default());
    let mut body = match api {
        Api::AnthropicMessages => messages_body(config, instructions, rendered),
        Api::OpenAiChat => chat_body(config, instructions, rendered),
        Api::OpenAiResponses => responses_body(config, instructions, rendered),
    };
    body.insert("model".to_owned(), config.model.clone().into());
    body.insert("stream".to_owned(), true.into());
    Value::Object(body)
}

fn messages_body(config: &ModelConfig, system: &str, messages: Rendered) -> Map<String, Value> {
    let mut body = Map::new();
    let limit = config.output_tokens_max.unwrap_or(OUTPUT_TOKENS);
    body.insert("max_tokens".to_owned(), limit.into());
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), messages.0.into());
    body
}

fn chat_body(config: &ModelConfig, system: &str, rendered: Rendered) -> Map<String, Value> {
    let mut messages = rendered.0;
    if !system.is_empty() {
        messages.insert(0, json!({"role": "system", "content": system}));
    }
    let mut body = Map::new();
    body.insert("messages".to_owned(), messages.into());
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if let Some(limit) = config.output_tokens_max {
        body.insert("max_completion_tokens".to_owned(), limit.into());
    }
    body
}

fn responses_body(config: &ModelConfig, system: &str, input: Rendered) -> Map<String, Value> {
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("instructions".to_owned(), system.into());
    }
    body.insert("input".to_owned(), input.0.into());
    // The log is the truth; the provider keeps no second one.
    body.insert("store".to_owned(), false.into());
    if let Some(limit) = config.output_tokens_max {
        body.insert("max_output_tokens".to_owned(), limit.into());
    }
    body
}
