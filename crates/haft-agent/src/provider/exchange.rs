//! Sending a request until there is an answer, or until that is hopeless.

use std::time::Duration;

use haft_core::{ErrorClass, Failure, Timestamp};
use haft_http::{
    Answer, Client, Endpoint, HeaderMap, HeaderName, HeaderValue, HttpError, StatusCode,
};
use haft_runtime::{CancellationToken, ModelError};
use hyper::header::{AUTHORIZATION, DATE, InvalidHeaderValue, RETRY_AFTER};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Api, BaseUrlError, Decoder, NoRootsError, ProviderConfig, Reply, StreamError, reported,
};
use crate::sse::{SseDecoder, SseError};

/// How much of an error's body is read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How much of an error's text is repeated.
const ERROR_CHARS_MAX: usize = 500;
/// How large a whole answer may grow.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a provider cannot be used as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The base URL is none.
    #[error(transparent)]
    BaseUrl(#[from] BaseUrlError),
    /// There is no trust in anyone.
    #[error(transparent)]
    NoRoots(#[from] NoRootsError),
    /// The key cannot stand in a header.
    #[error("expected an API key of visible ASCII characters, found other characters in it")]
    ApiKey,
}

/// Hears what a model says while it says it.
pub type Hear<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// A provider that can be asked.
#[derive(Debug)]
pub struct Provider {
    config: ProviderConfig,
    client: Client,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Why one attempt gave no answer.
struct Trouble {
    failure: Failure,
    again: Again,
}

/// Whether it can help to send the request again.
enum Again {
    No,
    /// After the usual wait, or as long as the provider says.
    After(Option<Duration>),
    /// The answer broke off midway. Whoever heard its beginning decides.
    BrokeOff,
}

#[haft_macros::boxed]
impl Provider {
    /// Takes a provider as configured; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the URL or the key cannot be used, or nobody is trusted for `https`.
    pub fn new(config: ProviderConfig) -> Result<Self, ProviderError> {
        let endpoint = Endpoint::new(&config.base_url, config.api.path())?;
        let client = Client::new(endpoint, config.timeouts, &config.more_roots)?;
        let headers = headers(&config).map_err(|_| ProviderError::ApiKey)?;
        Ok(Self { config, client, headers })
    }

    /// Returns the API that it speaks.
    pub fn api(&self) -> Api {
        self.config.api
    }

    /// Sends a request body and returns the whole answer.
    ///
    /// # Errors
    ///
    /// When there is no answer after the configured attempts, when an answer broke off, and when
    /// `stop` is cancelled.
    pub async fn ask(&self, body: &Value, stop: &CancellationToken) -> Result<Reply, Failure> {
        self.ask_aloud(body, stop, &|_| {}).await.map_err(|error| error.failure)
    }

    /// As [`Provider::ask`], and tells what is said while it is said.
    ///
    /// # Errors
    ///
    /// As [`Provider::ask`]. The error says whether an answer broke off midway: then something of
    /// it may have been heard, so whoever asks again has to say that this is void.
    pub async fn ask_aloud(
        &self,
        body: &Value,
        stop: &CancellationToken,
        hear: Hear<'_>,
    ) -> Result<Reply, ModelError> {
        let cancelled = || Failure::new(ErrorClass::Cancelled, "nobody waits for the model");
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(cancelled().into()),
            answered = self.ask_until_hopeless(body.to_string().into_bytes(), hear) => answered,
        }
    }

    async fn ask_until_hopeless(&self, body: Vec<u8>, hear: Hear<'_>) -> Result<Reply, ModelError> {
        let retry = self.config.retry;
        let mut backoff = retry.backoff;
        let mut attempt = 1;
        loop {
            let Trouble { failure, again } = match self.ask_once(body.clone(), hear).await {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            let wait = match again {
                Again::After(told) if attempt < retry.attempts => told.unwrap_or(backoff),
                Again::BrokeOff => return Err(ModelError::broken_off(failure)),
                Again::After(_) | Again::No => return Err(failure.into()),
            };
            if wait > retry.wait_max {
                return Err(failure.into());
            }
            tracing::debug!(attempt, wait_ms = wait.as_millis() as u64, "asking the model again");
            tokio::time::sleep(wait).await;
            attempt += 1;
            backoff = backoff.saturating_mul(2).min(retry.wait_max);
        }
    }

    async fn ask_once(&self, body: Vec<u8>, hear: Hear<'_>) -> Result<Reply, Trouble> {
        let limit = self.config.timeouts.total;
        match timeout(limit, self.exchange(body, hear)).await {
            Ok(answered) => answered,
            Err(_) => {
                let error = HttpError::Timeout { stage: "end of the answer", limit };
                Err(Trouble::of_transport(&error, true))
            }
        }
    }

    async fn exchange(&self, body: Vec<u8>, hear: Hear<'_>) -> Result<Reply, Trouble> {
        let answer = self.client.post(&self.headers, body).await;
        let answer = answer.map_err(|error| Trouble::of_transport(&error, false))?;
        if answer.status != StatusCode::OK {
            return Err(refused(answer).await);
        }
        self.read(answer, hear).await
    }

    async fn read(&self, mut answer: Answer, hear: Hear<'_>) -> Result<Reply, Trouble> {
        let mut sse = SseDecoder::default();
        let mut decoder = Decoder::new(self.config.api);
        let mut n_bytes = 0;
        loop {
            let bytes = answer.next().await;
            let bytes =
                bytes.map_err(|error| Trouble::of_transport(&error, decoder.has_begun()))?;
            let Some(bytes) = bytes else { break };
            n_bytes += bytes.len();
            if n_bytes > REPLY_BYTES_MAX {
                return Err(Trouble::hopeless("the provider's answer does not end"));
            }
            let frames = sse.push(&bytes);
            let frames = frames.map_err(|error: SseError| Trouble::hopeless(error.to_string()))?;
            for frame in frames {
                if let Some(listener) = &self.config.on_frame {
                    listener(&frame);
                }
                let taken = decoder.take(&frame);
                taken.map_err(|error| Trouble::of_stream(&error, decoder.has_begun()))?;
            }
            let said = decoder.said();
            if !said.is_empty() {
                hear(&said);
            }
        }
        let has_begun = decoder.has_begun();
        decoder.finish().map_err(|error| Trouble::of_stream(&error, has_begun))
    }
}

impl Trouble {
    fn hopeless(message: impl Into<String>) -> Self {
        Self { failure: Failure::new(ErrorClass::Upstream, message), again: Again::No }
    }

    fn of_transport(error: &HttpError, has_begun: bool) -> Self {
        let (class, again) = match error {
            // An answer that came to a halt has had the time that it is given.
            HttpError::Timeout { .. } if has_begun => (ErrorClass::Timeout, Again::No),
            HttpError::Timeout { .. } => (ErrorClass::Timeout, Again::After(None)),
            HttpError::Connect { .. } | HttpError::NotPublic { .. } | HttpError::Broken(_) => {
                (ErrorClass::Upstream, Again::of_broken(has_begun))
            }
        };
        let failure = Failure::new(class, format!("the model gave no whole answer: {error}"));
        Self { failure, again }
    }

    fn of_stream(error: &StreamError, has_begun: bool) -> Self {
        let failure = Failure::new(error.class(), error.to_string());
        let again = match error {
            StreamError::Reported { class: ErrorClass::Auth, .. } => Again::No,
            StreamError::Unreadable(_) => Again::No,
            StreamError::Reported { .. } | StreamError::Cut => Again::of_broken(has_begun),
        };
        Self { failure, again }
    }
}

impl Again {
    fn of_broken(has_begun: bool) -> Self {
        if has_begun { Self::BrokeOff } else { Self::After(None) }
    }
}

/// Reads an answer that is an error, and sorts it by its status.
async fn refused(answer: Answer) -> Trouble {
    let status = answer.status;
    let told = retry_after(&answer.headers);
    let body = answer.start_of_body(ERROR_BYTES_MAX).await;
    let said = serde_json::from_slice::<Value>(&body).ok();
    let said = said.as_ref().and_then(|body| body.get("error")).map(|error| match error {
        Value::String(text) => text.clone(),
        error => reported(error).to_string(),
    });
    let said = said.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    let said: String = said.chars().take(ERROR_CHARS_MAX).collect();
    let (class, again) = match status.as_u16() {
        401 | 403 => (ErrorClass::Auth, Again::No),
        429 | 529 => (ErrorClass::RateLimited, Again::After(told)),
        408 | 409 | 500..=599 => (ErrorClass::Upstream, Again::After(told)),
        _ => (ErrorClass::Upstream, Again::No),
    };
    let message = format!("the provider answered {}: {said}", status.as_u16());
    Trouble { failure: Failure::new(class, message), again }
}

/// How long the provider says to wait. A date is read by the provider's own clock, which its
/// answer shows: ours may be another.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &HeaderName| -> Option<f64> {
        let number: f64 = text(name)?.parse().ok()?;
        (0.0..=1e9).contains(&number).then_some(number)
    };
    let date = |name: &HeaderName| http_date(text(name)?);
    let ms = number(&HeaderName::from_static("retry-after-ms"));
    let ms = ms.map(|ms| Duration::from_secs_f64(ms / 1000.0));
    ms.or_else(|| number(&RETRY_AFTER).map(Duration::from_secs_f64))
        .or_else(|| Some(date(&RETRY_AFTER)?.since(date(&DATE)?).into()))
}

/// Reads the date of a header, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, date) = text.split_once(", ")?;
    let parts: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts.as_slice() else { return None };
    let month = 1 + MONTHS.iter().position(|known| known == month)?;
    Timestamp::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

fn headers(config: &ProviderConfig) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
    let key = config.api_key.as_ref().map(|key| key.0.as_str());
    let secret = |text: &str| {
        let mut value = HeaderValue::from_str(text)?;
        value.set_sensitive(true);
        Ok(value)
    };
    let mut headers = Vec::new();
    match config.api {
        Api::AnthropicMessages => {
            let version = HeaderValue::from_static("2023-06-01");
            headers.push((HeaderName::from_static("anthropic-version"), version));
            if let Some(key) = key {
                headers.push((HeaderName::from_static("x-api-key"), secret(key)?));
            }
        }
        Api::OpenAiChat | Api::OpenAiResponses => {
            if let Some(key) = key {
                headers.push((AUTHORIZATION, secret(&format!("Bearer {key}"))?));
            }
        }
    }
    Ok(headers)
}
