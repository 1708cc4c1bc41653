//! The HTTP side: one service for both eras, to mount in a router.

use std::convert::Infallible;
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tower_service::Service;

use super::handler::{Handler, Server};
use super::plain;
use super::transport_sessions::{SessionOwner, TransportSessions};
use crate::principal::{CredentialId, Principal};

/// Who may come in over HTTP.
#[derive(Debug, Clone)]
pub struct HttpDoor {
    /// The `Host`s that requests may name; without a port, any port. Anything else may be a
    /// website that had its name point here. `None` where whatever stands before has checked it.
    pub hosts: Option<Vec<String>>,
    /// The `Origin`s that browsers may come from, as `scheme://host:port`. Requests of programs
    /// that are no browsers have none. `None` where whatever stands before has checked it.
    pub origins: Option<Vec<String>>,
    /// Who is meant by a request that nobody has authenticated. `None` refuses it.
    pub anonymous: Option<Principal>,
    /// Where a client finds out how to authorize itself: the protected resource's metadata.
    pub resource_metadata: Option<String>,
}

impl HttpDoor {
    /// Lets in what comes from this machine and was authenticated by whatever stands before: it
    /// puts a [`Principal`] into the request's extensions.
    pub fn local() -> Self {
        let hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        let origins = hosts.iter().map(|host| format!("http://{host}:*")).collect();
        let (hosts, origins) = (Some(hosts), Some(origins));
        Self { hosts, origins, anonymous: None, resource_metadata: None }
    }
}

/// The service to mount; a clone shares its connections.
///
/// Whatever listens must set `TCP_NODELAY`: an answer is written in several small pieces, and the
/// last would wait for an acknowledgement.
#[derive(Clone)]
pub struct McpService {
    server: Server,
    inner: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<TransportSessions>,
    hosts: Option<Arc<[String]>>,
    anonymous: Option<Principal>,
    challenge: HeaderValue,
}

impl std::fmt::Debug for McpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpService").field("anonymous", &self.anonymous).finish_non_exhaustive()
    }
}

impl McpService {
    /// Serves what comes through a door, each connection by a handler of its own.
    pub(super) fn behind(door: HttpDoor, server: Server) -> Self {
        let hosts = door.hosts.as_deref().map(Arc::from);
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let config = match door.hosts {
            Some(hosts) => config.with_allowed_hosts(hosts),
            None => config.disable_allowed_hosts(),
        };
        let config = match door.origins {
            Some(origins) => config.with_allowed_origins(origins).enforce_origin_validation(),
            None => config.disable_allowed_origins(),
        };
        let metadata = door.resource_metadata.map(|at| format!(" resource_metadata=\"{at}\""));
        let challenge = format!("Bearer{}", metadata.unwrap_or_default());
        let sessions = Arc::new(LocalSessionManager::default());
        let connecting = server.clone();
        let connect = move || Ok(connecting.connect());
        Self {
            server,
            sessions: Arc::new(TransportSessions::of(Arc::clone(&sessions))),
            inner: StreamableHttpService::new(connect, sessions, config),
            hosts,
            anonymous: door.anonymous,
            challenge: HeaderValue::try_from(challenge)
                .unwrap_or_else(|_| HeaderValue::from_static("Bearer")),
        }
    }

    fn refused(&self) -> Answer {
        let mut response = said(StatusCode::UNAUTHORIZED, "authorization is required".to_owned());
        response.headers_mut().insert(WWW_AUTHENTICATE, self.challenge.clone());
        response
    }
}

impl<B> Service<Request<B>> for McpService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        self.answer(request.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }
}

/// What a request is answered with.
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

type Asked = Request<UnsyncBoxBody<Bytes, String>>;

impl McpService {
    /// For one type of body, so that the protocol is compiled here and not with each router.
    fn answer(&self, request: Asked) -> Answering {
        let behind = request.extensions().get::<Principal>();
        let Some(principal) = behind.or(self.anonymous.as_ref()).cloned() else {
            let refused = self.refused();
            return Box::pin(async move { Ok(refused) });
        };
        let credential = request.extensions().get::<CredentialId>().cloned();
        let service = self.clone();
        Box::pin(async move {
            match service.called(request, &principal).await {
                Taken::Answered(answer) => Ok(answer),
                Taken::Not(mut request) => {
                    request.extensions_mut().insert(principal.clone());
                    let owner = SessionOwner::new(principal, credential);
                    Ok(service.negotiated(request, &owner).await)
                }
            }
        })
    }

    /// Answers a request that is nothing but a call.
    async fn called(&self, request: Asked, principal: &Principal) -> Taken {
        let (parts, body) = request.into_parts();
        if !plain::is_headed(&parts, &body.size_hint(), self.hosts.as_deref()) {
            return Taken::Not(Request::from_parts(parts, body));
        }
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                let error = format!("the request's body could not be read: {error}");
                return Taken::Answered(said(StatusCode::BAD_REQUEST, error));
            }
        };
        let call = plain::read(&parts.headers, &body);
        match call.filter(|call| self.server.calls_plainly(&call.name, &principal.tenant)) {
            Some(call) => {
                let id = call.id.clone();
                Taken::Answered(plain::answer(id, self.server.call(principal.clone(), call).await))
            }
            None => {
                let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
                Taken::Not(Request::from_parts(parts, body))
            }
        }
    }

    async fn negotiated(&self, request: Asked, owner: &SessionOwner) -> Answer {
        if !self.sessions.lets_in(request.headers(), owner) {
            // What rmcp answers when there is no such session.
            return said(StatusCode::NOT_FOUND, "Not Found: Session not found".to_owned());
        }
        let ends_session = request.method() == Method::DELETE;
        let mut response = self.inner.handle(request).await;
        self.sessions.began(response.headers(), owner).await;
        // It is over, and not only taken note of; clients complain about anything else.
        if ends_session && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        response
    }
}

/// Whether a request was nothing but a call.
enum Taken {
    Answered(Answer),
    Not(Asked),
}

fn said(status: StatusCode, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = status;
    response
}
