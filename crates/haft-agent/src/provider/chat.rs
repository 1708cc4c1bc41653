//! The stream of OpenAI's Chat Completions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PartialCall, Reply, Stop, StreamError, Usage, number_at, reported, text_at};

#[derive(Debug, Default)]
pub(super) struct Decoder {
    reply: Reply,
    /// The text that nobody has asked for yet.
    pub(super) fresh: String,
    refusal: String,
    calls: Vec<PartialCall>,
    /// Where the call of an index stands among them.
    places: BTreeMap<u64, usize>,
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
        let piece = text_at(choice, "/delta/content").unwrap_or_default();
        reply.text.push_str(piece);
        self.fresh.push_str(piece);
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
        let Some(call) = self.call_of(number_at(piece, "/index"), id) else { return };
        if let Some(id) = id {
            call.id = Some(id.to_owned());
        }
        call.name.push_str(text_at(piece, "/function/name").unwrap_or_default());
        call.arguments.push_str(text_at(piece, "/function/arguments").unwrap_or_default());
    }

    /// Finds the call that a piece belongs to, or begins one. Servers that send whole calls leave
    /// the index out or give every call the same: another id then begins another call.
    fn call_of(&mut self, index: Option<u64>, id: Option<&str>) -> Option<&mut PartialCall> {
        let known = match index {
            Some(index) => self.places.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        let begun = known.and_then(|at| self.calls.get(at)).and_then(|call| call.id.as_deref());
        let is_another = id.is_some() && begun.is_some() && begun != id;
        let at = known.filter(|_| !is_another).unwrap_or(self.calls.len());
        if at == self.calls.len() {
            self.calls.push(PartialCall::default());
        }
        if let Some(index) = index {
            self.places.insert(index, at);
        }
        self.calls.get_mut(at)
    }

    pub(super) fn has_begun(&self) -> bool {
        let Self { reply, refusal, calls, .. } = self;
        !reply.text.is_empty() || !refusal.is_empty() || !calls.is_empty() || reply.stop.is_some()
    }

    pub(super) fn finish(self) -> Result<Reply, StreamError> {
        let Self { mut reply, refusal, calls, .. } = self;
        if reply.stop.is_none() {
            return Err(StreamError::Cut);
        }
        if !refusal.is_empty() {
            reply.text.push_str(&refusal);
            reply.stop = Some(Stop::Refused);
        }
        let calls = (0..).zip(calls).map(|(at, call)| call.into_asked(at));
        reply.calls = calls.collect::<Result<_, _>>()?;
        Ok(reply)
    }
}
