//! The clients of the model providers: small, so that raw frames, exact ids and argument text
//! are kept as they came.
//!
//! A decoder is pure: frames in, a [`Reply`] out. [`Provider`] does the rest: sends the request,
//! waits, tries again. It tries again only while nothing of an answer has been seen. An answer that
//! breaks off after its first token is reported as such; the session then asks again, and tells
//! whoever heard the beginning that it is void.

mod anthropic;
mod chat;
mod exchange;
mod responses;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use haft_core::session::ProviderResult;
use haft_core::{ErrorClass, ProviderCallId};
pub use haft_http::{BaseUrlError, NoRootsError, Timeouts};
use haft_runtime::AskedCall;
use haft_wire::Dialect;
use serde_json::Value;

use crate::name::Vendor;
use crate::sse::Frame;

pub use exchange::{Hear, Provider, ProviderError};

/// Which API a model is asked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic's Messages.
    AnthropicMessages,
    /// OpenAI's Chat Completions, which most local servers speak too.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
}

impl Api {
    /// Returns the dialect of tools, calls and results.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::AnthropicMessages => Dialect::Anthropic,
            Self::OpenAiChat => Dialect::OpenAiChat,
            Self::OpenAiResponses => Dialect::OpenAiResponses,
        }
    }

    /// Returns whose API it is.
    pub const fn vendor(self) -> Vendor {
        match self {
            Self::AnthropicMessages => Vendor::Anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => Vendor::OpenAi,
        }
    }

    /// The base URLs are those of the official SDKs: OpenAI's has its `/v1`, Anthropic's has not.
    const fn path(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "/v1/messages",
            Self::OpenAiChat => "/chat/completions",
            Self::OpenAiResponses => "/responses",
        }
    }
}

/// A secret that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Takes a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Hears every frame as it arrives.
pub type FrameListener = Arc<dyn Fn(&Frame) + Send + Sync>;

/// How a provider is reached.
#[derive(Clone)]
pub struct ProviderConfig {
    /// The API it speaks.
    pub api: Api,
    /// Where it is, as the vendor's SDKs have it.
    pub base_url: String,
    /// What it is opened with; local servers need none.
    pub api_key: Option<ApiKey>,
    /// How long each stage of a request may take.
    pub timeouts: Timeouts,
    /// When a request is sent again.
    pub retry: Retry,
    /// Certificate authorities (DER) that are trusted beside the system's.
    pub more_roots: Vec<Vec<u8>>,
    /// Hears every frame as it arrives.
    pub on_frame: Option<FrameListener>,
}

impl ProviderConfig {
    /// A provider with the usual limits and no key.
    pub fn new(api: Api, base_url: impl Into<String>) -> Self {
        Self {
            api,
            base_url: base_url.into(),
            api_key: None,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            more_roots: Vec::new(),
            on_frame: None,
        }
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderConfig")
            .field("api", &self.api)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .finish_non_exhaustive()
    }
}

/// When a request is sent again: only while nothing of an answer has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often it is sent at most.
    pub attempts: u32,
    /// The first wait, doubled each time, unless the provider says how long.
    pub backoff: Duration,
    /// The longest wait; a provider that asks for more is not waited for.
    pub wait_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 4, backoff: Duration::from_millis(500), wait_max: Duration::from_secs(60) }
    }
}

/// A whole answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// What the model said.
    pub text: String,
    /// The calls it asks for, in its order, as it wrote them.
    pub calls: Vec<AskedCall>,
    /// Results of calls that the provider ran.
    pub provider_results: Vec<ProviderResult>,
    /// What the provider wants back as it was, such as signed reasoning.
    pub kept: Vec<Value>,
    /// Why it stopped.
    pub stop: Option<Stop>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered, by the provider's account.
    pub model: Option<String>,
    /// What it cost.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It was done, or it waits for its calls.
    Done,
    /// It ran out of output tokens.
    Length,
    /// It, or its provider, refused.
    Refused,
    /// The provider wants to be asked again, to go on.
    Paused,
    /// Something else, in the provider's words.
    Other(String),
}

impl Stop {
    /// Returns a word for it.
    pub fn word(&self) -> &str {
        match self {
            Self::Done => "stop",
            Self::Length => "length",
            Self::Refused => "refusal",
            Self::Paused => "pause",
            Self::Other(word) => word,
        }
    }
}

/// Tokens, by the provider's count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// What was read, cached or not.
    pub input: Option<u64>,
    /// What was written.
    pub output: Option<u64>,
    /// How much of what was read came from a cache.
    pub cache_read: Option<u64>,
}

/// Why a stream gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The provider reports an error.
    #[error("the provider reports: {message}")]
    Reported {
        /// What kind.
        class: ErrorClass,
        /// In its words.
        message: String,
    },
    /// The stream is not what the API's documentation says.
    #[error("the provider's stream cannot be read: {0}")]
    Unreadable(String),
    /// The stream ended before the answer did.
    #[error("the provider's stream ended before its answer did")]
    Cut,
}

impl StreamError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Reported { class, .. } => *class,
            Self::Unreadable(_) | Self::Cut => ErrorClass::Upstream,
        }
    }
}

/// Reads the frames of one answer, whichever API they are of.
#[derive(Debug)]
pub struct Decoder(Frames);

#[derive(Debug)]
enum Frames {
    Anthropic(anthropic::Decoder),
    Chat(chat::Decoder),
    Responses(responses::Decoder),
}

impl Decoder {
    /// A decoder that has read nothing.
    pub fn new(api: Api) -> Self {
        Self(match api {
            Api::AnthropicMessages => Frames::Anthropic(anthropic::Decoder::default()),
            Api::OpenAiChat => Frames::Chat(chat::Decoder::default()),
            Api::OpenAiResponses => Frames::Responses(responses::Decoder::default()),
        })
    }

    /// Takes the next frame.
    ///
    /// # Errors
    ///
    /// When the provider reports an error, or the frame cannot be read.
    pub fn take(&mut self, frame: &Frame) -> Result<(), StreamError> {
        if frame.data.is_empty() || frame.data == "[DONE]" {
            return Ok(());
        }
        let data: Value = serde_json::from_str(&frame.data)
            .map_err(|error| StreamError::Unreadable(format!("a frame is not JSON: {error}")))?;
        match &mut self.0 {
            Frames::Anthropic(decoder) => decoder.take(&data),
            Frames::Chat(decoder) => decoder.take(&data),
            Frames::Responses(decoder) => decoder.take(data),
        }
    }

    /// Returns the text that has come since this was last asked.
    pub fn said(&mut self) -> String {
        std::mem::take(match &mut self.0 {
            Frames::Anthropic(decoder) => &mut decoder.fresh,
            Frames::Chat(decoder) => &mut decoder.fresh,
            Frames::Responses(decoder) => &mut decoder.fresh,
        })
    }

    /// Returns whether anything of the answer has been seen.
    pub fn has_begun(&self) -> bool {
        match &self.0 {
            Frames::Anthropic(decoder) => decoder.has_begun(),
            Frames::Chat(decoder) => decoder.has_begun(),
            Frames::Responses(decoder) => decoder.has_begun(),
        }
    }

    /// Returns the answer, now that the stream is over.
    ///
    /// # Errors
    ///
    /// When the provider never said that it had finished: what came so far is no answer, and
    /// none of its calls may run.
    pub fn finish(self) -> Result<Reply, StreamError> {
        let reply = match self.0 {
            Frames::Anthropic(decoder) => decoder.finish(),
            Frames::Chat(decoder) => decoder.finish(),
            Frames::Responses(decoder) => decoder.finish(),
        }?;
        Ok(reply.without_refused_calls())
    }
}

impl Reply {
    /// A model that refuses asks for nothing, whatever it had begun to ask for.
    fn without_refused_calls(mut self) -> Self {
        if self.stop == Some(Stop::Refused) {
            self.calls.clear();
            if self.text.is_empty() {
                "[the provider refused to answer]".clone_into(&mut self.text);
            }
        }
        self
    }
}

/// A call whose arguments arrive in pieces.
#[derive(Debug, Default)]
struct PartialCall {
    id: Option<String>,
    name: String,
    arguments: String,
}

impl PartialCall {
    fn into_asked(self, index: u64) -> Result<AskedCall, StreamError> {
        let Self { id, name, arguments } = self;
        // Some servers give no id. Within the answer the place is one.
        let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{index}"));
        Ok(AskedCall { provider_id: provider_id(&id)?, name, arguments })
    }
}

fn provider_id(id: &str) -> Result<ProviderCallId, StreamError> {
    ProviderCallId::new(id)
        .map_err(|error| StreamError::Unreadable(format!("a call's id cannot be kept: {error}")))
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

fn number_at(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64)
}

/// Sorts an error that a provider reports, by the words that the vendors use.
fn reported(error: &Value) -> StreamError {
    let word = |key: &str| error.get(key).and_then(Value::as_str);
    let kind = word("type").filter(|kind| *kind != "error");
    let kind = word("code").or(kind).unwrap_or_default();
    let message = word("message").unwrap_or("an error without a message");
    let class = match kind {
        "rate_limit_error" | "overloaded_error" | "rate_limit_exceeded" | "server_overloaded" => {
            ErrorClass::RateLimited
        }
        "authentication_error" | "permission_error" | "invalid_api_key" => ErrorClass::Auth,
        _ => ErrorClass::Upstream,
    };
    let message = if kind.is_empty() { message.to_owned() } else { format!("{kind}: {message}") };
    StreamError::Reported { class, message }
}
