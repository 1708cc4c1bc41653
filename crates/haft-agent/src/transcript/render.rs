//! A transcript in the words of each provider.

use std::collections::{BTreeMap, BTreeSet};

use haft_core::tool::Executor;
use haft_core::{
    CallResult, ContentBlock, Outcome, Provenance, ProviderCallId, RequestedCall, Timestamp,
    ToolName, Trust,
};
use haft_wire::{Dialect, Extension};
use serde_json::{Map, Value, json};

use super::{Item, PairedCall, Transcript};
use crate::name::Vendor;
use crate::provider::Api;

/// How the offered tools are called here and at the provider.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    wire: BTreeMap<String, String>,
    canonical: BTreeMap<String, String>,
}

impl Names {
    pub(crate) fn add(&mut self, canonical: &ToolName, wire: &str) {
        self.wire.insert(canonical.to_string(), wire.to_owned());
        self.canonical.insert(wire.to_owned(), canonical.to_string());
    }

    /// Returns the canonical name of what a model called; a name that was not offered stays.
    pub(crate) fn canonical(&self, wire: String) -> String {
        self.canonical.get(&wire).cloned().unwrap_or(wire)
    }

    /// Returns what the provider takes for a name. One that was never a tool's may hold anything.
    fn wire(&self, canonical: &str) -> String {
        if let Some(wire) = self.wire.get(canonical) {
            return wire.clone();
        }
        let plain = |c: char| if is_plain(c) { c } else { '_' };
        let name: String = canonical.chars().take(64).map(plain).collect();
        if name.is_empty() { "unnamed".to_owned() } else { name }
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The messages of a request.
#[derive(Debug, Default)]
pub(crate) struct Rendered(pub(crate) Vec<Value>);

/// Writes a transcript as the messages of an API.
pub(crate) fn render(transcript: &Transcript, api: Api, names: &Names) -> Rendered {
    let mut writer = Writer { api, names, used: BTreeSet::new(), messages: Vec::new() };
    for item in &transcript.items {
        match item {
            Item::User { content } => writer.user(&said(content)),
            Item::LeftOut { items } => writer.user(&left_out(*items)),
            Item::Note { text } => writer.user(text),
            Item::Summary { text } => writer.user(&summarised(text)),
            Item::Assistant { content, calls, provider_meta, .. } => {
                writer.reasoning(provider_meta.as_ref());
                writer.assistant(&said(content), calls);
            }
        }
    }
    Rendered(writer.messages)
}

/// Writes a transcript as the messages of an API, with every tool under its canonical name.
pub fn messages(transcript: &Transcript, api: Api) -> Vec<Value> {
    render(transcript, api, &Names::default()).0
}

/// Returns what a model reads of some content; stored outputs are named, not repeated.
pub(crate) fn said(content: &[ContentBlock]) -> String {
    let blocks = content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Artifact { artifact } => {
            let title = artifact.title.as_deref().unwrap_or("stored output");
            let (id, bytes, kind) = (artifact.id, artifact.bytes, &artifact.media_type);
            format!("[{title}: {id}, {bytes} bytes, {kind}]")
        }
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// Returns what a model reads of how a call ended.
pub(crate) fn result_text(call: &PairedCall) -> String {
    let body =
        Dialect::Anthropic.project_result(&outcome(call), &call.provider_id, Extension::Omit);
    body.get("content").and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn left_out(items: usize) -> String {
    format!("[{items} earlier parts of this conversation are left out here]")
}

/// A summary is not the person's own words, and the model is told so.
pub(crate) fn summarised(text: &str) -> String {
    format!("[what went before, in short]\n{text}")
}

struct Writer<'a> {
    api: Api,
    names: &'a Names,
    /// The call ids that stand in the messages already.
    used: BTreeSet<String>,
    messages: Vec<Value>,
}

impl Writer<'_> {
    fn user(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match self.api {
            Api::AnthropicMessages => self.block("user", json!({"type": "text", "text": text})),
            Api::OpenAiChat | Api::OpenAiResponses => {
                self.messages.push(json!({"role": "user", "content": text}));
            }
        }
    }

    /// What a provider wants back as it was stands before what it belongs to. Another provider's
    /// is of no use to this one.
    fn reasoning(&mut self, meta: Option<&Value>) {
        let vendor = self.api.vendor().as_str();
        let blocks = meta.and_then(|meta| meta.get(vendor)).and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            match self.api {
                Api::AnthropicMessages => self.block("assistant", block.clone()),
                Api::OpenAiResponses => self.messages.push(block.clone()),
                Api::OpenAiChat => {}
            }
        }
    }

    fn assistant(&mut self, text: &str, calls: &[PairedCall]) {
        let (theirs, ours): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| call.executor == Executor::Provider);
        let mut text = text.to_owned();
        let mut verbatim = Vec::new();
        for call in theirs {
            match self.verbatim(call) {
                Some(blocks) => verbatim.extend(blocks),
                None => add_line(&mut text, &provider_note(call)),
            }
        }
        let ours: Vec<_> = ours.into_iter().map(|call| (self.wire_id(call), call)).collect();
        match self.api {
            Api::AnthropicMessages => self.messages_of_anthropic(&text, verbatim, &ours),
            Api::OpenAiChat => self.messages_of_chat(&text, &ours),
            Api::OpenAiResponses => self.items_of_responses(&text, verbatim, &ours),
        }
    }

    fn messages_of_anthropic(
        &mut self,
        text: &str,
        verbatim: Vec<Value>,
        calls: &[(ProviderCallId, &PairedCall)],
    ) {
        for block in verbatim {
            self.block("assistant", block);
        }
        if !text.trim().is_empty() {
            self.block("assistant", json!({"type": "text", "text": text.trim_end()}));
        }
        for (id, call) in calls {
            self.block("assistant", self.call(id, call));
        }
        for (id, call) in calls {
            self.block("user", self.result(id, call));
        }
    }

    fn messages_of_chat(&mut self, text: &str, calls: &[(ProviderCallId, &PairedCall)]) {
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let mut message = Map::from_iter([("role".to_owned(), json!("assistant"))]);
        let content = if text.is_empty() { Value::Null } else { text.into() };
        message.insert("content".to_owned(), content);
        if !calls.is_empty() {
            let calls = calls.iter().map(|(id, call)| self.call(id, call)).collect();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        self.messages.push(Value::Object(message));
        let results: Vec<_> = calls.iter().map(|(id, call)| self.result(id, call)).collect();
        self.messages.extend(results);
    }

    fn items_of_responses(
        &mut self,
        text: &str,
        verbatim: Vec<Value>,
        calls: &[(ProviderCallId, &PairedCall)],
    ) {
        self.messages.extend(verbatim);
        if !text.is_empty() {
            self.messages.push(json!({"role": "assistant", "content": text}));
        }
        let bodies: Vec<_> = calls.iter().map(|(id, call)| self.call(id, call)).collect();
        let results: Vec<_> = calls.iter().map(|(id, call)| self.result(id, call)).collect();
        self.messages.extend(bodies.into_iter().chain(results));
    }

    /// Adds a block to the last message if it is of this role, since roles must alternate.
    fn block(&mut self, role: &str, block: Value) {
        let last = self.messages.last_mut().filter(|last| last.get("role") == Some(&json!(role)));
        match last.and_then(|last| last.get_mut("content")).and_then(Value::as_array_mut) {
            Some(blocks) => blocks.push(block),
            None => self.messages.push(json!({"role": role, "content": [block]})),
        }
    }

    fn call(&self, id: &ProviderCallId, call: &PairedCall) -> Value {
        self.api.dialect().project_call(&RequestedCall {
            provider_id: id.clone(),
            name: self.names.wire(&call.name),
            arguments: call.arguments.clone(),
        })
    }

    fn result(&self, id: &ProviderCallId, call: &PairedCall) -> Value {
        self.api.dialect().project_result(&outcome(call), id, Extension::Omit)
    }

    /// Returns the id under which a call is shown: the provider's own, unless it would stand
    /// twice, or another provider's would not be taken here.
    fn wire_id(&mut self, call: &PairedCall) -> ProviderCallId {
        let given = call.provider_id.as_str();
        let is_taken = given.len() <= 64 && given.chars().all(is_plain);
        if is_taken && self.used.insert(given.to_owned()) {
            return call.provider_id.clone();
        }
        let own = call.id.to_string();
        self.used.insert(own.clone());
        ProviderCallId::new(own).unwrap_or_else(|_| call.provider_id.clone())
    }

    /// Returns the blocks of a call that this very provider ran, as it gave them.
    fn verbatim(&mut self, call: &PairedCall) -> Option<Vec<Value>> {
        let meta = call.provider_meta.as_ref()?.get(self.api.vendor().as_str())?;
        if !self.used.insert(call.provider_id.as_str().to_owned()) {
            return None;
        }
        match (self.api, self.api.vendor()) {
            (_, Vendor::Anthropic) => {
                let id = call.provider_id.as_str();
                let name = self.names.wire(&call.name);
                let input = &call.arguments;
                let block =
                    json!({"type": "server_tool_use", "id": id, "name": name, "input": input});
                Some(vec![block, meta.clone()])
            }
            (Api::OpenAiResponses, _) => Some(vec![meta.clone()]),
            (Api::AnthropicMessages | Api::OpenAiChat, _) => None,
        }
    }
}

/// A call that another provider ran cannot be shown as a call here.
fn provider_note(call: &PairedCall) -> String {
    format!("[{} was run by the provider and gave: {}]", call.name, result_text(call))
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// The result of a call as an outcome, for the dialects. They write what came out and nothing of
/// the rest, which the transcript does not keep.
fn outcome(call: &PairedCall) -> Outcome {
    let mut result = call.result();
    for note in &call.notes {
        match &mut result {
            CallResult::Ok(output) => {
                if output.content.is_empty()
                    && let Some(value) = &output.value
                {
                    output.content.push(ContentBlock::Text { text: value.to_string() });
                }
                output.content.push(ContentBlock::Text { text: format!("[{note}]") });
            }
            CallResult::Err(failure) => add_line(&mut failure.message, &format!("[{note}]")),
        }
    }
    Outcome {
        call: call.id,
        tool: call.name.parse().unwrap_or_else(|_| unnamed()),
        attempt: 0,
        started_at: Timestamp::default(),
        finished_at: Timestamp::default(),
        result,
        directives: haft_core::Directives::default(),
        provenance: Provenance { executor: call.executor, trust: Trust::Untrusted },
        provider_meta: None,
        extra: Map::new(),
    }
}

fn unnamed() -> ToolName {
    "unnamed".parse().unwrap_or_else(|error| unreachable!("a plain word is a name: {error}"))
}
