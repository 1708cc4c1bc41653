//! The stream of Anthropic's Messages.

use std::collections::BTreeMap;

use haft_core::session::ProviderResult;
use haft_core::{CallResult, ErrorClass, Failure, Output};
use haft_runtime::AskedCall;
use serde_json::{Map, Value};

use super::{PartialCall, Reply, Stop, StreamError, number_at, provider_id, reported, text_at};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    reply: Reply,
    blocks: BTreeMap<u64, Block>,
    /// The text that nobody has asked for yet.
    pub(super) fresh: String,
    has_ended: bool,
}

/// A content block on its way.
#[derive(Debug)]
enum Block {
    Text(String),
    /// A call, by us or, when `server_tool_use`, by the provider.
    Call(PartialCall),
    /// A result that the provider gives, whole.
    Result(Value),
    /// How the model reasoned, signed: within the work on one question the API wants it back as it
    /// was.
    Reasoning(Value),
    /// Something that is not for us.
    Other,
}

impl Decoder {
    pub(super) fn take(&mut self, event: &Value) -> Result<(), StreamError> {
        match text_at(event, "/type").unwrap_or_default() {
            "error" => return Err(reported(event.get("error").unwrap_or(event))),
            "message_start" => {
                let message = event.get("message").unwrap_or(&Value::Null);
                self.reply.id = text_at(message, "/id").map(str::to_owned);
                self.reply.model = text_at(message, "/model").map(str::to_owned);
                self.take_usage(message.get("usage"));
            }
            "content_block_start" => {
                let block = event.get("content_block").unwrap_or(&Value::Null);
                self.blocks.insert(index(event)?, Block::start(block));
            }
            "content_block_delta" => {
                let delta = event.get("delta").unwrap_or(&Value::Null);
                let block = self.blocks.get_mut(&index(event)?);
                let unknown = || StreamError::Unreadable("a piece of no block".to_owned());
                let block = block.ok_or_else(unknown)?;
                if let Block::Text(_) = block {
                    self.fresh.push_str(text_at(delta, "/text").unwrap_or_default());
                }
                block.add(delta);
            }
            "message_delta" => {
                if let Some(reason) = text_at(event, "/delta/stop_reason") {
                    self.reply.stop = Some(stop(reason));
                }
                self.take_usage(event.get("usage"));
            }
            "message_stop" => self.has_ended = true,
            // `ping`, `content_block_stop`, and what is added to the API later.
            _ => {}
        }
        Ok(())
    }

    /// The counts are totals; each event repeats only some of them.
    fn take_usage(&mut self, usage: Option<&Value>) {
        let Some(given) = usage else { return };
        let usage = &mut self.reply.usage;
        let cache_read = number_at(given, "/cache_read_input_tokens");
        if let Some(fresh) = number_at(given, "/input_tokens") {
            let written = number_at(given, "/cache_creation_input_tokens").unwrap_or(0);
            let cached = cache_read.unwrap_or(0);
            usage.input = Some(fresh.saturating_add(written).saturating_add(cached));
        }
        usage.output = number_at(given, "/output_tokens").or(usage.output);
        usage.cache_read = cache_read.or(usage.cache_read);
    }

    pub(super) fn has_begun(&self) -> bool {
        !self.blocks.is_empty() || self.reply.stop.is_some()
    }

    pub(super) fn finish(self) -> Result<Reply, StreamError> {
        let Self { mut reply, blocks, has_ended, .. } = self;
        if !has_ended || reply.stop.is_none() {
            return Err(StreamError::Cut);
        }
        for (index, block) in blocks {
            match block {
                Block::Text(text) => reply.text.push_str(&text),
                Block::Call(call) => {
                    let mut call: AskedCall = call.into_asked(index)?;
                    // A call without arguments has no pieces; nor has one that was cut.
                    if call.arguments.is_empty() && reply.stop == Some(Stop::Done) {
                        "{}".clone_into(&mut call.arguments);
                    }
                    reply.calls.push(call);
                }
                Block::Result(block) => reply.provider_results.push(provider_result(block)?),
                Block::Reasoning(block) => reply.kept.push(block),
                Block::Other => {}
            }
        }
        Ok(reply)
    }
}

impl Block {
    fn start(block: &Value) -> Self {
        let text = |pointer| text_at(block, pointer).unwrap_or_default().to_owned();
        match text_at(block, "/type").unwrap_or_default() {
            "text" => Self::Text(text("/text")),
            "tool_use" | "server_tool_use" => {
                // The start holds an empty input, and the pieces hold the text of the real one.
                let whole = block.get("input").and_then(Value::as_object);
                let whole = whole.filter(|input| !input.is_empty());
                let arguments = whole.map(|input| Value::Object(input.clone()).to_string());
                Self::Call(PartialCall {
                    id: Some(text("/id")),
                    name: text("/name"),
                    arguments: arguments.unwrap_or_default(),
                })
            }
            "thinking" | "redacted_thinking" => Self::Reasoning(block.clone()),
            kind if kind.ends_with("_tool_result") => Self::Result(block.clone()),
            _ => Self::Other,
        }
    }

    fn add(&mut self, delta: &Value) {
        match self {
            Self::Text(text) => text.push_str(text_at(delta, "/text").unwrap_or_default()),
            Self::Call(call) => {
                let piece = text_at(delta, "/partial_json").unwrap_or_default();
                call.arguments.push_str(piece);
            }
            Self::Reasoning(block) => {
                for member in ["thinking", "signature"] {
                    let Some(piece) = delta.get(member).and_then(Value::as_str) else { continue };
                    let before = block.get(member).and_then(Value::as_str).unwrap_or_default();
                    let whole = format!("{before}{piece}");
                    if let Some(block) = block.as_object_mut() {
                        block.insert(member.to_owned(), whole.into());
                    }
                }
            }
            Self::Result(_) | Self::Other => {}
        }
    }
}

fn provider_result(block: Value) -> Result<ProviderResult, StreamError> {
    let id = provider_id(text_at(&block, "/tool_use_id").unwrap_or_default())?;
    let content = block.get("content").cloned().unwrap_or(Value::Null);
    let code = text_at(&content, "/error_code");
    let result = match code {
        Some(code) => {
            let message = format!("the provider's tool failed: {code}");
            CallResult::Err(Failure::new(ErrorClass::ToolError, message))
        }
        None => CallResult::Ok(Output::of_value(content)),
    };
    let meta = Map::from_iter([("anthropic".to_owned(), block)]);
    Ok(ProviderResult { provider_id: id, result, meta: Some(Value::Object(meta)) })
}

fn index(event: &Value) -> Result<u64, StreamError> {
    let missing = || StreamError::Unreadable("a block without an index".to_owned());
    number_at(event, "/index").ok_or_else(missing)
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "tool_use" | "stop_sequence" => Stop::Done,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refused,
        "pause_turn" => Stop::Paused,
        other => Stop::Other(other.to_owned()),
    }
}
