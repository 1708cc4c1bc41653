//! Requests that are sent again are done once.
//!
//! A client names a request by `Idempotency-Key`, or is an official SDK that retries by itself and
//! counts its tries in `x-stainless-retry-count`. Such a request is worked on in a task of its own,
//! within the scope of a [`Request`]: every write that comes of it records the request in the same
//! transaction, and the answer is kept. A client that goes away changes nothing about that.
//!
//! What was answered is answered the same again. What was done and not answered, because the process
//! died in between, is run again: what is recorded is skipped, what is missing is made up for.

use axum::Extension;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts as _, Request as HttpRequest, State};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use haft_core::Digest;
use haft_runtime::{Begun, RequestKey, WorkingRequest};
use haft_store::Request;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument as _;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::routes::v1::UPLOAD_MAX;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The largest answer that is read to be kept.
const ANSWER_MAX: usize = 64 << 20;

/// Says that an answer shows a secret, which is kept nowhere and so cannot be shown again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownOnce;

impl ShownOnce {
    /// Marks the answer.
    pub(crate) const fn answer() -> Extension<Self> {
        Extension(Self)
    }

    /// Refuses a request whose answer was lost along with the secret in it.
    pub(crate) fn require_first(what: &str) -> Result<(), Error> {
        let Some(request) = Request::current().filter(Request::was_begun_before) else {
            return Ok(());
        };
        let made = request.written_before();
        let message = format!(
            "this request was done before, and the secret of the {what} was shown in its first \
             answer only; if that was lost, delete the {what} and make another one with a new key"
        );
        Err(Error::conflict(message).with_details(json!({ "code": "shown_once", "made": made })))
    }
}

/// A finished answer, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    status: u16,
    media_type: String,
    body: String,
}

/// Does a request once, however often it is sent.
pub(crate) async fn guarded(State(app): State<App>, request: HttpRequest, next: Next) -> Response {
    let does = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let key = match key(request.headers()) {
        Ok(Some(key)) if does => key,
        Ok(_) => return next.run(request).await,
        Err(error) => return error.into_response(),
    };
    let (mut parts, body) = request.into_parts();
    // Whoever is not known is refused by whatever they ask for.
    let Ok(caller) = Caller::from_request_parts(&mut parts, &app).await else {
        return next.run(HttpRequest::from_parts(parts, body)).await;
    };
    let Ok(body) = to_bytes(body, UPLOAD_MAX).await else {
        return Error::new(Kind::TooLarge, "the body is too large, or broke off").into_response();
    };
    let digest = digest(&parts, &body);
    parts.extensions.insert(caller.clone());
    let begun = app.haft().begin_request(&caller.tenant, &caller.actor, &key, digest).await;
    match begun {
        Ok(Begun::Work(working)) => {
            let request = HttpRequest::from_parts(parts, Body::from(body));
            let work = worked(working, request, next).in_current_span();
            // In a task of its own: a client that goes away does not stop it half way.
            match tokio::spawn(work).await {
                Ok(response) => response,
                Err(error) => Error::internal(error).into_response(),
            }
        }
        Ok(Begun::Answered(answer)) => match serde_json::from_str(&answer) {
            Ok(answer) => replayed(answer),
            Err(error) => Error::internal(error).into_response(),
        },
        Err(error) => Error::from(error).into_response(),
    }
}

/// Works on a request and keeps its answer.
async fn worked(working: WorkingRequest, request: HttpRequest, next: Next) -> Response {
    let scope = working.request().clone();
    let was_begun_before = scope.was_begun_before();
    let mut response = scope.scope(next.run(request)).await;
    if !response.status().is_success() {
        return response;
    }
    if was_begun_before {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let media_type = media_type.unwrap_or_default().to_owned();
    // A stream is told from the log, as often as it is asked for.
    if !media_type.starts_with("application/json")
        || response.extensions().get::<ShownOnce>().is_some()
    {
        return response;
    }
    let status = response.status().as_u16();
    let (head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, ANSWER_MAX).await else {
        return Error::internal("an answer could not be read").into_response();
    };
    if let Ok(text) = std::str::from_utf8(&body) {
        let answer = Answer { status, media_type, body: text.to_owned() };
        match serde_json::to_string(&answer) {
            Ok(answer) => working.answered(answer),
            Err(error) => tracing::warn!(%error, "an answer is not kept"),
        }
    }
    Response::from_parts(head, Body::from(body))
}

fn replayed(answer: Answer) -> Response {
    let Answer { status, media_type, body } = answer;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let media_type = HeaderValue::try_from(media_type);
    let media_type = media_type.unwrap_or_else(|_| HeaderValue::from_static("application/json"));
    let headers = [(CONTENT_TYPE, media_type), (REPLAYED, HeaderValue::from_static("true"))];
    (status, headers, body).into_response()
}

/// Reads by what a request is to be recognised, if it is.
fn key(headers: &HeaderMap) -> Result<Option<RequestKey>, Error> {
    let mut keys = headers.get_all(&KEY).iter();
    if let Some(key) = keys.next() {
        let is_one = keys.next().is_none();
        let text = key.to_str().ok().map(str::trim).filter(|_| is_one);
        let text = text.ok_or_else(|| {
            Error::invalid("Idempotency-Key: expected one key of printable ASCII characters")
        })?;
        return Ok(Some(RequestKey::Given(text.to_owned())));
    }
    let count = headers.get(&RETRY_COUNT).and_then(|count| count.to_str().ok()?.parse().ok());
    Ok(count.map(|count: u32| match count {
        0 => RequestKey::FirstTry,
        _ => RequestKey::Retry,
    }))
}

/// Hashes what was sent. The line between the parts of a form is made up anew for each try.
fn digest(parts: &Parts, body: &Bytes) -> Digest {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let media_type = text(CONTENT_TYPE).unwrap_or_default();
    let (kind, boundary) = match media_type.split_once("boundary=") {
        Some((kind, boundary)) if kind.starts_with("multipart/") => {
            (kind, boundary.split(';').next().unwrap_or_default().trim_matches('"'))
        }
        _ => (media_type, ""),
    };
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let head = [parts.method.as_str().as_bytes(), path.as_bytes(), kind.as_bytes()];
    let body = match boundary {
        "" => Digest::of_bytes(body),
        boundary => Digest::of_parts(&without(body, boundary.as_bytes())),
    };
    Digest::of_parts(&[head[0], head[1], head[2], body.as_bytes()])
}

/// Splits bytes at a separator.
fn without<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        pieces.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    pieces.push(rest);
    pieces
}
