//! The stream of OpenAI's Responses.

use std::collections::BTreeMap;

use haft_core::session::ProviderResult;
use haft_core::{CallResult, ErrorClass, Failure, Output};
use haft_runtime::AskedCall;
use serde_json::{Map, Value};

use super::{
    PartialCall, Reply, Stop, StreamError, Usage, number_at, provider_id, reported, text_at,
};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    reply: Reply,
    /// The text that nobody has asked for yet.
    pub(super) fresh: String,
    /// The items of the output, by their place; what is done replaces what was begun.
    items: BTreeMap<u64, Item>,
}

#[derive(Debug, Default)]
struct Item {
    /// As the provider gave it last.
    body: Value,
    /// What came in pieces: a text, or the text of arguments.
    pieces: String,
}

impl Decoder {
    pub(super) fn take(&mut self, mut event: Value) -> Result<(), StreamError> {
        let kind = text_at(&event, "/type").unwrap_or_default().to_owned();
        match kind.as_str() {
            "error" => return Err(reported(event.get("error").unwrap_or(&event))),
            "response.failed" => {
                return Err(reported(event.pointer("/response/error").unwrap_or(&Value::Null)));
            }
            "response.created" => {
                self.reply.id = text_at(&event, "/response/id").map(str::to_owned);
                self.reply.model = text_at(&event, "/response/model").map(str::to_owned);
            }
            "response.output_item.added" | "response.output_item.done" => {
                let body = event.get_mut("item").map(Value::take).unwrap_or_default();
                self.item(&event)?.body = body;
            }
            "response.output_text.delta"
            | "response.refusal.delta"
            | "response.function_call_arguments.delta" => {
                let piece = text_at(&event, "/delta").unwrap_or_default();
                self.item(&event)?.pieces.push_str(piece);
                if kind == "response.output_text.delta" {
                    self.fresh.push_str(piece);
                }
            }
            "response.completed" => self.end(&event, Stop::Done),
            "response.incomplete" => {
                let reason = text_at(&event, "/response/incomplete_details/reason");
                self.end(
                    &event,
                    match reason {
                        Some("max_output_tokens") => Stop::Length,
                        Some("content_filter") => Stop::Refused,
                        other => Stop::Other(other.unwrap_or("incomplete").to_owned()),
                    },
                );
            }
            // Progress of other parts, and what is added to the API later.
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, event: &Value) -> Result<&mut Item, StreamError> {
        let missing = || StreamError::Unreadable("an item without its place".to_owned());
        let index = number_at(event, "/output_index").ok_or_else(missing)?;
        Ok(self.items.entry(index).or_default())
    }

    fn end(&mut self, event: &Value, stop: Stop) {
        self.reply.stop = Some(stop);
        self.reply.usage = Usage {
            input: number_at(event, "/response/usage/input_tokens"),
            output: number_at(event, "/response/usage/output_tokens"),
            cache_read: number_at(event, "/response/usage/input_tokens_details/cached_tokens"),
        };
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.items.is_empty() || self.reply.stop.is_some()
    }

    pub(super) fn finish(self) -> Result<Reply, StreamError> {
        let Self { mut reply, items, .. } = self;
        if reply.stop.is_none() {
            return Err(StreamError::Cut);
        }
        for (index, Item { body, pieces }) in items {
            match text_at(&body, "/type").unwrap_or_default() {
                "message" => add_message(&mut reply, &body, &pieces),
                "function_call" => reply.calls.push(function_call(&body, pieces, index)?),
                // Nothing is stored at the provider, so that only sealed reasoning can be given back.
                "reasoning" if body.get("encrypted_content").is_some_and(Value::is_string) => {
                    reply.kept.push(body);
                }
                "reasoning" => {}
                kind if kind.ends_with("_call") => add_provider_call(&mut reply, body)?,
                _ => {}
            }
        }
        Ok(reply)
    }
}

fn add_message(reply: &mut Reply, body: &Value, pieces: &str) {
    let parts = body.get("content").and_then(Value::as_array);
    let parts = parts.map(Vec::as_slice).unwrap_or_default();
    let refusals: String = parts.iter().filter_map(|part| text_at(part, "/refusal")).collect();
    let texts: String = parts.iter().filter_map(|part| text_at(part, "/text")).collect();
    if !refusals.is_empty() {
        reply.stop = Some(Stop::Refused);
    }
    let whole = texts + &refusals;
    reply.text.push_str(if whole.is_empty() { pieces } else { &whole });
}

fn function_call(body: &Value, pieces: String, index: u64) -> Result<AskedCall, StreamError> {
    let whole = text_at(body, "/arguments").filter(|text| !text.is_empty());
    let call = PartialCall {
        id: text_at(body, "/call_id").map(str::to_owned),
        name: text_at(body, "/name").unwrap_or_default().to_owned(),
        arguments: whole.map_or(pieces, str::to_owned),
    };
    call.into_asked(index)
}

/// A call that the provider ran is a call and its result in one item.
fn add_provider_call(reply: &mut Reply, body: Value) -> Result<(), StreamError> {
    let id = provider_id(text_at(&body, "/id").unwrap_or_default())?;
    let kind = text_at(&body, "/type").unwrap_or_default();
    let name = kind.strip_suffix("_call").unwrap_or(kind).to_owned();
    let arguments = body.get("action").filter(|action| action.is_object());
    let arguments = arguments.map_or_else(|| "{}".to_owned(), Value::to_string);
    let result = match text_at(&body, "/status") {
        Some("failed") => {
            let message = "the provider's tool failed";
            CallResult::Err(Failure::new(ErrorClass::ToolError, message))
        }
        Some(_) | None => CallResult::Ok(Output::of_value(body.clone())),
    };
    reply.calls.push(AskedCall { provider_id: id.clone(), name, arguments });
    let meta = Value::Object(Map::from_iter([("openai".to_owned(), body)]));
    reply.provider_results.push(ProviderResult { provider_id: id, result, meta: Some(meta) });
    Ok(())
}
