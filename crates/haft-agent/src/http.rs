//! One HTTP request whose answer is a stream.
//!
//! Directly on hyper's connection: one connection for each request, no pool, no redirects (a key
//! is sent to the configured host and nowhere else), no proxy from the environment, and a time
//! limit of its own for each stage.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long each stage of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Duration,
    /// From the request to the first byte of the answer.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// From the first to the last byte, however lively the answer is.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1800),
        }
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot connect to {host}: {message}")]
    Connect { host: String, message: String },
    #[error("no {stage} within {} ms", limit.as_millis())]
    Timeout { stage: &'static str, limit: Duration },
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    /// As it stands in the `Host` header.
    authority: HeaderValue,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// Why a base URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a base URL as `https://HOST[:PORT][/PATH]` or with `http://`, found {found:?}")]
pub struct BaseUrlError {
    found: String,
}

impl Endpoint {
    pub(crate) fn new(base_url: &str, path: &str) -> Result<Self, BaseUrlError> {
        let error = || BaseUrlError { found: without_userinfo(base_url) };
        let uri: Uri = base_url.parse().map_err(|_| error())?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) | None => return Err(error()),
        };
        let authority = uri.authority().ok_or_else(error)?;
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(error());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        });
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| error())?;
        let path = format!("{}{path}", uri.path().trim_end_matches('/'));
        Ok(Self { scheme, host, port, authority, path })
    }
}

fn without_userinfo(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

/// Sends requests to one place.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    endpoint: Endpoint,
    timeouts: Timeouts,
    tls: Option<Arc<rustls::ClientConfig>>,
}

/// Why TLS cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system trusts no certificate authority ({message}); install its CA certificates")]
pub struct NoRootsError {
    message: String,
}

impl Client {
    pub(crate) fn new(
        endpoint: Endpoint,
        timeouts: Timeouts,
        more_roots: &[Vec<u8>],
    ) -> Result<Self, NoRootsError> {
        let tls = match endpoint.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Arc::new(tls_config(more_roots)?)),
        };
        Ok(Self { endpoint, timeouts, tls })
    }

    /// Posts a body, and returns the head of the answer once it is there.
    pub(crate) async fn post(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Answer, HttpError> {
        let limit = self.timeouts.connect;
        let connecting = timeout(limit, self.connect()).await;
        let connection =
            connecting.map_err(|_| HttpError::Timeout { stage: "connection", limit })??;
        let request = self.request(headers, body)?;
        let limit = self.timeouts.first_byte;
        let Connection { mut sender, driver } = connection;
        let answer = timeout(limit, sender.send_request(request)).await;
        let answer = answer.map_err(|_| HttpError::Timeout { stage: "answer", limit })?;
        let (head, body) = answer.map_err(|error| broken(&error))?.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
            idle: self.timeouts.idle,
            _driver: driver,
        })
    }

    fn request(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.path.as_str())
            .header(HOST, &self.endpoint.authority)
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(body));
        request.body(body).map_err(|error| HttpError::Broken(error.to_string()))
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let failed = |message: String| HttpError::Connect { host: host.clone(), message };
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        // Requests are small and answers are waited for: nothing is gained by collecting bytes.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let Some(tls) = &self.tls else { return Connection::over(stream).await };
        let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        Connection::over(stream.map_err(|error| failed(error.to_string()))?).await
    }
}

fn tls_config(more_roots: &[Vec<u8>]) -> Result<rustls::ClientConfig, NoRootsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    let more = more_roots.iter().map(|der| CertificateDer::from(der.clone()));
    let (n_added, _) = roots.add_parsable_certificates(found.certs.into_iter().chain(more));
    let no_roots = |message: String| NoRootsError { message };
    if n_added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        return Err(no_roots(why.unwrap_or_else(|| "none was found".to_owned())));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| no_roots(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Driver,
}

/// The task that moves a connection's bytes; the connection closes when this is dropped.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    async fn over<S>(stream: S) -> Result<Self, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        // What goes wrong with the connection is told to whoever reads the answer.
        let driver = Driver(tokio::spawn(async move { connection.await.unwrap_or_default() }));
        Ok(Self { sender, driver })
    }
}

/// The head of an answer, and its body piece by piece.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    idle: Duration,
    _driver: Driver,
}

impl Answer {
    /// Returns the next bytes, or nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        let limit = self.idle;
        loop {
            let frame = timeout(limit, self.body.frame()).await;
            let frame = frame.map_err(|_| HttpError::Timeout { stage: "next piece", limit })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| broken(&error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the start of the body, for a message; what breaks off is cut short.
    pub(crate) async fn start_of_body(mut self, bytes_max: usize) -> Vec<u8> {
        let mut read = Vec::new();
        while let Ok(Some(bytes)) = self.next().await {
            read.extend_from_slice(&bytes);
            if read.len() >= bytes_max {
                break;
            }
        }
        read.truncate(bytes_max);
        read
    }
}

fn broken(error: &hyper::Error) -> HttpError {
    HttpError::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_keeps_its_path_and_says_where_to_connect() {
        let endpoint = Endpoint::new("http://localhost:8080/v1/", "/chat/completions").unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("localhost", 8080));
        assert_eq!(endpoint.path, "/v1/chat/completions");
        let endpoint = Endpoint::new("https://[::1]", "/v1/messages").unwrap();
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("::1", 443));
        assert_eq!((endpoint.path.as_str(), endpoint.scheme), ("/v1/messages", Scheme::Https));
    }

    #[test]
    fn a_base_url_that_would_send_a_key_astray_is_refused_without_repeating_it() {
        for bad in ["", "localhost", "ftp://x", "http://user:hush@x/v1", "https://x/v1?key=1"] {
            let error = Endpoint::new(bad, "/x").unwrap_err().to_string();
            assert!(error.contains("https://HOST") && !error.contains("hush"), "{error}");
        }
    }
}
