//! The stream of OpenAI's Chat Completions.

use serde_json::Value;

use super::{PartialCalls, Reply, Stop, StreamError, Usage, number_at, reported, text_at};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    reply: Reply,
    refusal: String,
    calls: PartialCalls,
}

impl Decoder {
    pub(super) fn take(&mut self, chunk: &Value) -> Result<(), StreamError> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(reported(error));
        }
        let reply = &mut self.reply;
        reply.id = reply.id.take().or_else(|| text_at(chunk, "/id").map(str::to_owned));
        reply.model = reply.model.take().or_else(|| text_at(chunk, "/model").map(str::to_owned));
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            reply.usage = Usage {
                input: number_at(usage, "/prompt_tokens"),
                output: number_at(usage, "/completion_tokens"),
                cache_read: number_at(usage, "/prompt_tokens_details/cached_tokens"),
            };
        }
        // Only one answer is asked for.
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        reply.text.push_str(text_at(choice, "/delta/content").unwrap_or_default());
        self.refusal.push_str(text_at(choice, "/delta/refusal").unwrap_or_default());
        let calls = choice.pointer("/delta/tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            self.take_call(call);
        }
        if let Some(reason) = text_at(choice, "/finish_reason") {
            self.reply.stop = Some(match reason {
                "stop" | "tool_calls" | "function_call" => Stop::Done,
                "length" => Stop::Length,
                "content_filter" => Stop::Refused,
                other => Stop::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn take_call(&mut self, piece: &Value) {
        let id = text_at(piece, "/id").filter(|id| !id.is_empty());
        let last = self.calls.last_index();
        // Servers that send whole calls leave the index out: an id then begins the next one.
        let index = number_at(piece, "/index").unwrap_or_else(|| match (id, last) {
            (Some(_), Some(last)) => last + 1,
            (None, Some(last)) => last,
            (_, None) => 0,
        });
        let call = self.calls.at(index);
        if let Some(id) = id {
            call.id = Some(id.to_owned());
        }
        call.name.push_str(text_at(piece, "/function/name").unwrap_or_default());
        call.arguments.push_str(text_at(piece, "/function/arguments").unwrap_or_default());
    }

    pub(super) fn has_begun(&self) -> bool {
        let Self { reply, refusal, calls } = self;
        !reply.text.is_empty() || !refusal.is_empty() || !calls.is_empty() || reply.stop.is_some()
    }

    pub(super) fn finish(self) -> Result<Reply, StreamError> {
        let Self { mut reply, refusal, calls } = self;
        if reply.stop.is_none() {
            return Err(StreamError::Cut);
        }
        if !refusal.is_empty() {
            reply.text.push_str(&refusal);
            reply.stop = Some(Stop::Refused);
        }
        reply.calls = calls.into_asked()?;
        Ok(reply)
    }
}
