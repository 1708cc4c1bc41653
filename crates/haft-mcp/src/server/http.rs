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

use super::handler::Handler;
use crate::principal::Principal;

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
    inner: StreamableHttpService<Handler, LocalSessionManager>,
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
    pub(super) fn behind(
        door: HttpDoor,
        connect: impl Fn() -> Handler + Send + Sync + 'static,
    ) -> Self {
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
        Self {
            inner: StreamableHttpService::new(move || Ok(connect()), sessions, config),
            anonymous: door.anonymous,
            challenge: HeaderValue::try_from(challenge)
                .unwrap_or_else(|_| HeaderValue::from_static("Bearer")),
        }
    }

    fn refused(&self) -> Response<BoxBody<Bytes, Infallible>> {
        let body = Full::new(Bytes::from_static(b"authorization is required")).boxed();
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(WWW_AUTHENTICATE, self.challenge.clone());
        response
    }
}

impl<B> Service<Request<B>> for McpService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Display,
{
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answering {
        self.answer(request.map(|body| body.map_err(|error| error.to_string()).boxed_unsync()))
    }
}

type Answering =
    Pin<Box<dyn Future<Output = Result<Response<BoxBody<Bytes, Infallible>>, Infallible>> + Send>>;

impl McpService {
    /// For one type of body, so that the protocol is compiled here and not with each router.
    fn answer(&self, mut request: Request<UnsyncBoxBody<Bytes, String>>) -> Answering {
        if request.extensions().get::<Principal>().is_none() {
            match self.anonymous.clone() {
                Some(principal) => {
                    request.extensions_mut().insert(principal);
                }
                None => {
                    let refused = self.refused();
                    return Box::pin(async move { Ok(refused) });
                }
            }
        }
        let inner = self.inner.clone();
        let ends_session = request.method() == Method::DELETE;
        Box::pin(async move {
            let mut response = inner.handle(request).await;
            // It is over, and not only taken note of; clients complain about anything else.
            if ends_session && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            Ok(response)
        })
    }
}
