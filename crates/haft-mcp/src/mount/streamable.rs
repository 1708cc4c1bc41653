//! HTTP to a mounted server: each message is a POST, answered by JSON or by a stream of events.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use haft_http::{Answer, Client, Endpoint, HttpError, Method, Reach, StatusCode, Timeouts, Trust};
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::event_size::EventSize;
use super::lines::TOO_LARGE;
use super::oauth::{Access, parameter};

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How often a server that does not want a token may say that it is elsewhere on its origin.
const REDIRECTS_MAX: usize = 10;
/// The most that is read of an answer that says no.
const REFUSAL_MAX: usize = 64 << 10;
/// The largest message of an answer, unless rmcp says otherwise.
const EVENT_MAX: usize = 16 << 20;
/// What the HTTP client calls the stage of a request before anything is sent.
const CONNECTION: &str = "connection";

/// A tool may take as long as it likes: whoever calls it says how long they wait.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(30),
    first_byte: Duration::MAX,
    idle: Duration::MAX,
    total: Duration::MAX,
};

/// Makes the requests to one server; a clone shares its connections.
#[derive(Clone)]
pub(super) struct HttpPeer {
    client: Client,
    /// What gives the tokens, if this node was authorized at the server.
    access: Option<Arc<Access>>,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the server answered with HTTP {0}")]
    Status(StatusCode),
    #[error("{0}")]
    Token(String),
}

impl RequestError {
    /// Returns whether the request itself was not sent, or was refused for want of a token: there
    /// was no connection to the server, or no token for it.
    pub(super) fn is_unreached(&self) -> bool {
        match self {
            Self::Token(_)
            | Self::Http(HttpError::Connect { .. } | HttpError::NotPublic { .. }) => true,
            Self::Http(HttpError::Timeout { stage, .. }) => *stage == CONNECTION,
            Self::Http(HttpError::Broken(_)) | Self::Status(_) => false,
        }
    }
}

type Failed = StreamableHttpError<RequestError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

impl HttpPeer {
    pub(super) fn new(
        url: &str,
        access: Option<Arc<Access>>,
        reach: Reach,
    ) -> Result<Self, String> {
        let endpoint = Endpoint::exactly(url).map_err(|error| error.to_string())?;
        let client = Client::reaching(reach, endpoint, TIMEOUTS, Trust::shared());
        let client = client.map_err(|error| error.to_string())?.pooled();
        Ok(Self { client, access })
    }

    /// Sends a request with the token that there is. One that the server does not take is renewed
    /// once, if that needs nobody.
    async fn send(
        &self,
        method: Method,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Answer, Failed> {
        let Some(access) = &self.access else {
            return self.send_with(None, method, headers, body).await;
        };
        let failed = |error| Failed::Client(RequestError::Token(error));
        let token = access.token().await.map_err(failed)?;
        let answer =
            self.send_with(token.as_deref(), method.clone(), headers, body.clone()).await?;
        let is_refused = answer.status == StatusCode::UNAUTHORIZED
            && answer.headers.contains_key(WWW_AUTHENTICATE);
        let Some(token) = token.filter(|_| is_refused) else { return Ok(answer) };
        match access.renewed(&token).await.map_err(failed)? {
            Some(other) => self.send_with(Some(&other), method, headers, body).await,
            None => Ok(answer),
        }
    }

    async fn send_with(
        &self,
        token: Option<&str>,
        method: Method,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Answer, Failed> {
        let mut headers = headers.to_vec();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let unsent = |_| RequestError::Token("the token cannot be sent".to_owned());
            let mut value = value.map_err(unsent).map_err(Failed::Client)?;
            value.set_sensitive(true);
            headers.push((AUTHORIZATION, value));
        }
        let mut moved = None;
        for _ in 0..REDIRECTS_MAX {
            let client = moved.as_ref().unwrap_or(&self.client);
            let answer = client.send_bytes(method.clone(), "", &headers, body.clone()).await;
            let answer = answer.map_err(|error| Failed::Client(error.into()))?;
            moved = self.elsewhere(&answer, client);
            if moved.is_none() {
                return Ok(answer);
            }
        }
        Err(Failed::UnexpectedServerResponse("it is always elsewhere on its origin".into()))
    }

    /// Returns where on its origin the server wants the same request instead. A token goes where it
    /// was given for, and nowhere that the server leads it to.
    fn elsewhere(&self, answer: &Answer, client: &Client) -> Option<Client> {
        let is_same_request = matches!(
            answer.status,
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
        );
        if !is_same_request || self.access.is_some() {
            return None;
        }
        let location = answer.headers.get(LOCATION)?.to_str().ok()?;
        client.at(client.endpoint().join(location).ok()?)
    }
}

/// Puts together the headers of a request.
fn headers(
    session: Option<&str>,
    last_event: Option<&str>,
    custom: Headers,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failed> {
    let accept = HeaderValue::from_static("text/event-stream, application/json");
    let mut headers = vec![(ACCEPT, accept)];
    for (name, value) in custom {
        if [ACCEPT, SESSION, LAST_EVENT].contains(&name) {
            return Err(Failed::ReservedHeaderConflict(name.to_string()));
        }
        headers.push((name, value));
    }
    for (name, value) in [(SESSION, session), (LAST_EVENT, last_event)] {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_str(value).map_err(|_| {
            Failed::UnexpectedServerResponse(format!("it gave a `{name}` that is none").into())
        })?;
        headers.push((name, value));
    }
    Ok(headers)
}

impl StreamableHttpClient for HttpPeer {
    type Error = RequestError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        custom: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.post_message_with_max_sse_event_size(uri, message, session, token, custom, EVENT_MAX)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        custom: Headers,
        event_max: usize,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let headers = headers(session.as_deref(), None, custom)?;
        let body = serde_json::to_vec(&message)?;
        let answer = Box::pin(self.send(Method::POST, &headers, body.into())).await?;
        posted(answer, &message, session.is_some(), event_max).await
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        custom: Headers,
    ) -> Result<(), Failed> {
        let headers = headers(Some(&session), None, custom)?;
        let answer = Box::pin(self.send(Method::DELETE, &headers, Bytes::new())).await?;
        // Some keep their sessions for as long as they like.
        if answer.status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        require_success(&answer)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        custom: Headers,
    ) -> Result<Events, Failed> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, custom, EVENT_MAX)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        custom: Headers,
        event_max: usize,
    ) -> Result<Events, Failed> {
        let headers = headers(session.as_deref(), last_event.as_deref(), custom)?;
        let answer = Box::pin(self.send(Method::GET, &headers, Bytes::new())).await?;
        if answer.status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Failed::ServerDoesNotSupportSse);
        }
        refusal(&answer).map_or(Ok(()), Err)?;
        if let Some(error) = status_error(&answer) {
            return Err(error.into());
        }
        require_success(&answer)?;
        match Kind::of(&answer) {
            Kind::Events | Kind::Json => Ok(events(answer, event_max)),
            Kind::Other(found) => Err(Failed::UnexpectedContentType(found)),
        }
    }
}

/// What the body of an answer is.
enum Kind {
    Json,
    Events,
    Other(Option<String>),
}

impl Kind {
    fn of(answer: &Answer) -> Self {
        let found = answer.headers.get(CONTENT_TYPE);
        let found = found.map(|found| String::from_utf8_lossy(found.as_bytes()).into_owned());
        match found {
            Some(found) if found.starts_with(EVENTS) => Self::Events,
            Some(found) if found.starts_with(JSON) => Self::Json,
            other => Self::Other(other),
        }
    }
}

/// Returns the error of a server that does not let us in and says what it wants.
fn refusal(answer: &Answer) -> Option<Failed> {
    let challenge = answer.headers.get(WWW_AUTHENTICATE)?;
    let read = challenge.to_str().map(str::to_owned);
    match (answer.status, read) {
        (StatusCode::UNAUTHORIZED, Ok(challenge)) => {
            Some(Failed::AuthRequired(AuthRequiredError::new(challenge)))
        }
        (StatusCode::FORBIDDEN, Ok(challenge)) => {
            let scope = parameter(&challenge, "scope");
            Some(Failed::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Err(_)) => {
            let message = "its header `www-authenticate` cannot be read";
            Some(Failed::UnexpectedServerResponse(message.into()))
        }
        _ => None,
    }
}

/// Returns the error of a server that cannot do it now.
fn status_error(answer: &Answer) -> Option<HttpStatusError> {
    let status = answer.status;
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let retry_after = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Some(HttpStatusError::new(status.as_u16(), retry_after.map(str::to_owned)))
}

fn require_success(answer: &Answer) -> Result<(), Failed> {
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(Failed::Client(RequestError::Status(answer.status))),
    }
}

/// Reads the answer to a message.
async fn posted(
    answer: Answer,
    message: &ClientJsonRpcMessage,
    had_session: bool,
    event_max: usize,
) -> Result<StreamableHttpPostResponse, Failed> {
    refusal(&answer).map_or(Ok(()), Err)?;
    match answer.status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        StatusCode::NOT_FOUND if had_session => return Err(Failed::SessionExpired),
        _ => {}
    }
    if !answer.status.is_success() {
        return failed(answer, message, had_session).await;
    }
    let wants_reply = matches!(message, ClientJsonRpcMessage::Request(_));
    let is_empty = answer.headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0");
    // Some say `200` with nothing behind it where `202` is meant.
    if !wants_reply && is_empty {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let session = session_of(&answer);
    match Kind::of(&answer) {
        Kind::Events => Ok(StreamableHttpPostResponse::Sse(events(answer, event_max), session)),
        Kind::Json => {
            let Some(body) = whole(answer, event_max).await? else {
                return Ok(too_large(message, event_max, session));
            };
            match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
                Ok(reply) => Ok(StreamableHttpPostResponse::Json(reply, session)),
                Err(_) if !wants_reply => Ok(StreamableHttpPostResponse::Accepted),
                Err(error) => Err(Failed::UnexpectedServerResponse(unread(&error, &body))),
            }
        }
        Kind::Other(found) => Err(Failed::UnexpectedContentType(found)),
    }
}

/// Reads an answer that says no: as JSON-RPC where it is, so that whoever asked learns why.
async fn failed(
    answer: Answer,
    message: &ClientJsonRpcMessage,
    had_session: bool,
) -> Result<StreamableHttpPostResponse, Failed> {
    let (status, session) = (answer.status, session_of(&answer));
    let is_json = matches!(Kind::of(&answer), Kind::Json);
    let busy = match status_error(&answer) {
        Some(busy) if !is_json || status == StatusCode::TOO_MANY_REQUESTS => {
            return Err(busy.into());
        }
        busy => busy,
    };
    let body = answer.start_of_body(REFUSAL_MAX).await;
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_let_in = !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // A server of the earlier revision, or what stands before it, may refuse the first question
    // of the current one in any form. That is an answer to it, whatever id it names.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !had_session
        && is_let_in
        && status.is_client_error()
    {
        let error = error.map(|error| error.error).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&body);
            ErrorData::invalid_request(format!("HTTP {status}: {text}"), None)
        });
        let reply = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(reply, None));
    }
    match (error, busy) {
        (Some(error), _) if is_let_in && is_json => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session))
        }
        (_, Some(busy)) => Err(busy.into()),
        (_, None) => {
            let text = String::from_utf8_lossy(&body);
            Err(Failed::UnexpectedServerResponse(format!("HTTP {status}: {text}").into()))
        }
    }
}

fn session_of(answer: &Answer) -> Option<String> {
    answer.header(SESSION.as_str()).map(str::to_owned)
}

fn unread(error: &serde_json::Error, body: &[u8]) -> Cow<'static, str> {
    let start = String::from_utf8_lossy(&body[..body.len().min(256)]);
    format!("it is no message of JSON-RPC ({error}): {start}").into()
}

/// Reads an answer that is one message; `None` if that is larger than allowed.
async fn whole(mut answer: Answer, max: usize) -> Result<Option<Vec<u8>>, Failed> {
    let mut body = Vec::new();
    while let Some(bytes) = answer.next().await.map_err(|error| Failed::Client(error.into()))? {
        if body.len() + bytes.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&bytes);
    }
    Ok(Some(body))
}

/// What stands in for an answer that is too large: an error of the request, so that whoever waits
/// for the answer is told, and the connection goes on.
fn too_large(
    message: &ClientJsonRpcMessage,
    max: usize,
    session: Option<String>,
) -> StreamableHttpPostResponse {
    let ClientJsonRpcMessage::Request(request) = message else {
        return StreamableHttpPostResponse::Accepted;
    };
    let told = format!("the answer is larger than {max} bytes");
    let error = ErrorData::new(ErrorCode(TOO_LARGE), told, None);
    let reply = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    StreamableHttpPostResponse::Json(reply, session)
}

/// Reads the events of an answer as they come, none of them larger than allowed.
fn events(answer: Answer, event_max: usize) -> Events {
    let start = Some((answer, EventSize::new(event_max)));
    let bytes = unfold(start, async |state| {
        let (mut answer, mut size) = state?;
        match answer.next().await {
            Ok(Some(bytes)) => match size.add(&bytes) {
                Ok(()) => Some((Ok(bytes), Some((answer, size)))),
                Err(error) => Some((Err(error), None)),
            },
            Ok(None) => None,
            Err(error) => Some((Err(std::io::Error::other(error)), None)),
        }
    });
    SseStream::from_bytes_stream(bytes.boxed()).boxed()
}
