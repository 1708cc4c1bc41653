//! One connection of a sandbox: its requests, answered, refused or sent on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Scheme;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_rustls::TlsConnector;

use super::{Credential, Egress, EgressError};
use crate::trust::Trust;

/// How long the head of a request may take to come.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// The longest head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// The port of `https`, at which a request with a credential goes on.
const TLS_PORT: u16 = 443;

/// Headers that are for the next hop only.
const FOR_ONE_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

type Body = BoxBody<Bytes, hyper::Error>;

/// A connection of a sandbox.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) egress: Arc<Egress>,
    /// Changes, or closes, when the proxy stops.
    pub(super) stopped: watch::Receiver<()>,
    /// One of the places for connections, held until nothing goes over this one.
    pub(super) place: Arc<OwnedSemaphorePermit>,
}

impl Visit {
    /// Serves the connection to its end, or until the proxy stops.
    pub(super) async fn serve(self, stream: TcpStream) {
        let mut over = self.stopped.clone();
        let answer = service_fn(move |request| {
            let visit = self.clone();
            async move { Ok::<_, hyper::Error>(answered(visit, request).await) }
        });
        let connection = server::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        tokio::select! {
            // Whoever broke it off knows.
            _ = connection => {}
            _ = over.changed() => {}
        }
    }
}

async fn answered(visit: Visit, request: Request<Incoming>) -> Response<Body> {
    let asked = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let answer = match request.method() == Method::CONNECT {
        true => tunnel(visit, request).await,
        false => forward(&visit.egress, request).await,
    };
    answer.unwrap_or_else(|error| {
        tracing::info!(host = asked, %error, "a sandbox was kept from a host");
        refusal(&error)
    })
}

/// Connects to a host, and passes on whatever is said then.
async fn tunnel(visit: Visit, request: Request<Incoming>) -> Result<Response<Body>, EgressError> {
    let Visit { egress, mut stopped, place } = visit;
    let unnamed = || EgressError::NoHost(request.uri().to_string());
    let authority = request.uri().authority().ok_or_else(unnamed)?;
    let port = authority.port_u16().ok_or_else(unnamed)?;
    require_no_user(authority.as_str())?;
    let mut outside = egress.connect(authority.host(), port).await?;
    tokio::spawn(async move {
        let Ok(inside) = hyper::upgrade::on(request).await else { return };
        let mut inside = TokioIo::new(inside);
        tokio::select! {
            // Either side has hung up; the other is told by that.
            _ = copy_bidirectional(&mut inside, &mut outside) => {}
            _ = stopped.changed() => {}
        }
        drop(place);
    });
    Ok(Response::new(Empty::new().map_err(|never| match never {}).boxed()))
}

/// Sends a request on, with the credential of its host if there is one.
async fn forward(
    egress: &Egress,
    request: Request<Incoming>,
) -> Result<Response<Body>, EgressError> {
    let unnamed = || EgressError::NoHost(request.uri().to_string());
    let is_plain = request.uri().scheme() == Some(&Scheme::HTTP);
    let authority = request.uri().authority().filter(|_| is_plain).ok_or_else(unnamed)?.clone();
    require_no_user(authority.as_str())?;
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let credential = match port {
        80 => egress.credential(host).await?,
        _ => None,
    };
    let broken = |why: String| EgressError::Unreachable { host: host.to_owned(), why };
    // Its answer would be the request as it was sent on, with the credential in it.
    if credential.is_some() && request.method() == Method::TRACE {
        return Err(broken("TRACE is not sent on with a credential".to_owned()));
    }
    let request = onward(request, authority.as_str(), credential.as_ref()).map_err(broken)?;
    match credential {
        None => send(egress.connect(host, port).await?, request).await.map_err(broken),
        Some(_) => {
            let stream = egress.connect(host, TLS_PORT).await?;
            let trust = match egress.roots.is_empty() {
                true => Trust::shared().clone(),
                false => Trust::with_roots(&egress.roots),
            };
            let trust = trust.map_err(|error| broken(error.to_string()))?;
            let name = ServerName::try_from(host.to_owned());
            let name = name.map_err(|error| broken(error.to_string()))?;
            let stream = TlsConnector::from(trust.config()).connect(name, stream).await;
            send(stream.map_err(|error| broken(error.to_string()))?, request).await.map_err(broken)
        }
    }
}

/// The request as the host is to see it.
fn onward(
    request: Request<Incoming>,
    authority: &str,
    credential: Option<&Credential>,
) -> Result<Request<Incoming>, String> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
    without_hop(&mut head.headers);
    let host = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
    head.headers.insert(HOST, host);
    if let Some((name, value)) = credential {
        let mut value = value.clone();
        value.set_sensitive(true);
        head.headers.insert(name, value);
    }
    Ok(Request::from_parts(head, body))
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Incoming>,
) -> Result<Response<Body>, String> {
    let (mut sender, connection) =
        client::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with the answer's body, whose reader is told what went wrong.
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (mut head, body) = answer.into_parts();
    without_hop(&mut head.headers);
    Ok(Response::from_parts(head, body.boxed()))
}

/// Takes away what is for this connection only. How the body is framed follows from the body.
fn without_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in FOR_ONE_HOP {
        headers.remove(name);
    }
    headers.remove(TRANSFER_ENCODING);
}

/// A user before the host would make one host look like another.
fn require_no_user(authority: &str) -> Result<(), EgressError> {
    match authority.contains('@') {
        true => Err(EgressError::NoHost(authority.to_owned())),
        false => Ok(()),
    }
}

fn refusal(error: &EgressError) -> Response<Body> {
    let status = match error {
        EgressError::NoHost(_) => StatusCode::BAD_REQUEST,
        EgressError::NotAllowed { .. } | EgressError::Denied(_) | EgressError::NotPublic { .. } => {
            StatusCode::FORBIDDEN
        }
        EgressError::Unreachable { .. } | EgressError::Credential { .. } => StatusCode::BAD_GATEWAY,
    };
    let said = Full::new(Bytes::from(format!("haft: {error}\n")));
    let mut answer = Response::new(said.map_err(|never| match never {}).boxed());
    *answer.status_mut() = status;
    answer
}
