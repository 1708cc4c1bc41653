//! The API, over HTTP to a running server or in this process over the store itself: the same
//! paths, the same answers.

mod found;
mod local;
mod note;
mod reach;
mod stream;

pub(crate) use found::{Listed, rows, short};
pub(crate) use note::ServerNote;
pub(crate) use reach::{Reach, ServerOrStore, StoreUse};
pub(crate) use stream::{Heard, Stream};

use haft_agent::SseDecoder;
use haft_agent::http::{Answer, Client, HeaderName, HeaderValue, HttpError, Method};
use haft_server::InProcessAnswer;
use serde_json::Value;

use crate::trouble::{Code, Trouble};
use local::Local;

/// Whoever answers.
pub(crate) struct Api {
    transport: Transport,
}

enum Transport {
    Http { client: Client, key: String, base: String },
    InProcess(Local),
}

/// An answer that has begun, from whoever gives it.
enum Begun {
    Http(Answer),
    InProcess(InProcessAnswer),
}

/// Whether what was set going must be awaited here, or goes on without this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// A server goes on with it.
    Yes,
    /// It runs in this process.
    No,
}

impl Api {
    pub(crate) fn runs_elsewhere(&self) -> Elsewhere {
        match self.transport {
            Transport::Http { .. } => Elsewhere::Yes,
            Transport::InProcess(_) => Elsewhere::No,
        }
    }

    /// Where the server is that answers; `None` if it is this process.
    pub(crate) fn base(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { base, .. } => Some(base),
            Transport::InProcess(_) => None,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Trouble> {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, Trouble> {
        self.ask(Method::DELETE, path, None).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Trouble> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut begun = self.send(method, path, &[], body).await?;
        let mut read = Vec::new();
        while let Some(bytes) = begun.next().await.map_err(|error| self.broken(&error))? {
            read.extend_from_slice(&bytes);
        }
        let status = begun.status();
        let answer = match read.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&read).map_err(|error| not_ours(status, &error))?,
        };
        match status {
            200..300 => Ok(answer),
            _ => Err(Trouble::refused(status, &answer)),
        }
    }

    /// Follows a session's log from its beginning, or after a place in it.
    pub(crate) async fn follow(&self, session: &str, after: u64) -> Result<Stream, Trouble> {
        let path = format!("/haft/v1/sessions/{session}/events/stream");
        let after = after.to_string();
        let begun = self.send(Method::GET, &path, &[("last-event-id", &after)], Vec::new()).await?;
        match begun.status() {
            200 => Ok(Stream::new(begun, SseDecoder::default())),
            status => Err(Trouble::refused(status, &Value::Null)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Begun, Trouble> {
        match &self.transport {
            Transport::Http { client, key, .. } => {
                let all = headers.iter().copied().chain([("x-api-key", key.as_str())]);
                let headers: Vec<_> = all.filter_map(header).collect();
                let sent = client.send(method, path, &headers, body).await;
                sent.map(Begun::Http).map_err(|error| self.broken(&error))
            }
            Transport::InProcess(local) => {
                let sent = local.api.send(method.as_str(), path, headers, body).await;
                sent.map(Begun::InProcess)
                    .map_err(|error| Trouble::new(Code::Unreadable, error.to_string()))
            }
        }
    }

    fn broken(&self, error: &HttpError) -> Trouble {
        let at = match &self.transport {
            Transport::Http { base, .. } => base,
            Transport::InProcess(_) => "this process",
        };
        let is_untrusted = error.to_string().contains("certificate");
        let next = match is_untrusted {
            true => "name the authority that vouches for the server with --ca-file",
            false => "start it with `haft serve`, or name another one with --server",
        };
        Trouble::new(Code::Unreachable, format!("the server at {at} does not answer"))
            .why(error)
            .next(next)
    }

    /// Lets what runs in this process end, and hands the rest over to whoever comes next.
    pub(crate) async fn close(self) {
        if let Transport::InProcess(local) = self.transport {
            local.close().await;
        }
    }
}

fn header((name, value): (&str, &str)) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?))
}

fn not_ours(status: u16, error: &serde_json::Error) -> Trouble {
    Trouble::new(Code::Unreadable, format!("the answer ({status}) is not Haft's"))
        .why(error)
        .next("check that --server names a Haft server and not something in front of it")
}

impl Begun {
    fn status(&self) -> u16 {
        match self {
            Self::Http(answer) => answer.status.as_u16(),
            Self::InProcess(answer) => answer.status,
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        match self {
            Self::Http(answer) => Ok(answer.next().await?.map(|bytes| bytes.to_vec())),
            Self::InProcess(answer) => Ok(answer.next().await.map(|bytes| bytes.to_vec())),
        }
    }
}
