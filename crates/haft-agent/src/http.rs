//! One HTTP request whose answer is a stream: to models, and to whoever else is told something.
//!
//! Directly on hyper's connection: one connection for each request, no pool, no redirects (a key
//! is sent to the configured host and nowhere else), no proxy from the environment, and a time
//! limit of its own for each stage.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
pub use hyper::header::{HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use crate::trust::{BadRootsError, NoRootsError, Trust, certificates};

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
pub enum HttpError {
    /// There is no connection.
    #[error("cannot connect to {host}: {message}")]
    Connect {
        /// To whom.
        host: String,
        /// Why.
        message: String,
    },
    /// The host is at an address that requests may not go to.
    #[error("`{host}` is at {address}, which is not an address of the public internet")]
    NotPublic {
        /// The host.
        host: String,
        /// Where it is.
        address: IpAddr,
    },
    /// It takes too long.
    #[error("no {stage} within {} ms", limit.as_millis())]
    Timeout {
        /// What does.
        stage: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The connection did not last.
    #[error("the connection broke: {0}")]
    Broken(String),
}

/// Where requests go.
#[derive(Debug, Clone)]
pub struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    /// As it stands in the `Host` header.
    authority: HeaderValue,
    path: String,
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// As it is.
    Http,
    /// Over TLS.
    Https,
}

/// How far requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To whatever the host's name leads to.
    Anywhere,
    /// Only to addresses of the public internet: someone else chose the host, and it could lead
    /// to what only this machine or its network reaches.
    Public,
}

/// Why a base URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a URL as `https://HOST[:PORT][/PATH]` or with `http://`, found {found:?}")]
pub struct BaseUrlError {
    found: String,
}

impl Endpoint {
    /// Reads a base URL and what stands below it for every request.
    ///
    /// # Errors
    ///
    /// When the base is no URL of a host, or holds more than host and path.
    pub fn new(base_url: &str, path: &str) -> Result<Self, BaseUrlError> {
        let error = || BaseUrlError { found: without_userinfo(base_url) };
        let mut endpoint = Self::exactly(base_url)?;
        if endpoint.path.contains('?') {
            return Err(error());
        }
        endpoint.path = format!("{}{path}", endpoint.path.trim_end_matches('/'));
        Ok(endpoint)
    }

    /// Takes a URL as it is, its query included.
    ///
    /// # Errors
    ///
    /// When it is none of HTTP, or holds a name and a password.
    pub fn exactly(url: &str) -> Result<Self, BaseUrlError> {
        let error = || BaseUrlError { found: without_userinfo(url) };
        let uri: Uri = url.parse().map_err(|_| error())?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) | None => return Err(error()),
        };
        let authority = uri.authority().ok_or_else(error)?;
        if authority.as_str().contains('@') {
            return Err(error());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        });
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| error())?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { scheme, host, port, authority, path })
    }

    /// Returns how it is reached.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the host, if it is an address and not a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
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
pub struct Client {
    endpoint: Endpoint,
    timeouts: Timeouts,
    reach: Reach,
    tls: Option<Trust>,
}

#[haft_macros::boxed]
impl Client {
    /// A client for one place; `more_roots` are trusted beside the system's authorities.
    ///
    /// # Errors
    ///
    /// When the place wants TLS and nobody is trusted.
    pub fn new(
        endpoint: Endpoint,
        timeouts: Timeouts,
        more_roots: &[Vec<u8>],
    ) -> Result<Self, NoRootsError> {
        let tls = match endpoint.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Trust::with_roots(more_roots)?),
        };
        Ok(Self { endpoint, timeouts, reach: Reach::Anywhere, tls })
    }

    /// Sends requests to where someone else says.
    ///
    /// # Errors
    ///
    /// When that needs trust and there is none.
    pub fn reaching(
        reach: Reach,
        endpoint: Endpoint,
        timeouts: Timeouts,
        trust: &Result<Trust, NoRootsError>,
    ) -> Result<Self, NoRootsError> {
        let tls = match endpoint.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(trust.clone()?),
        };
        Ok(Self { endpoint, timeouts, reach, tls })
    }

    /// Posts a body, of JSON unless a header says otherwise, and returns the head of the answer once it is there.
    ///
    /// # Errors
    ///
    /// When there is no answer in time.
    pub async fn post(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Answer, HttpError> {
        self.send(Method::POST, "", headers, body).await
    }

    /// Sends a request to a path below the place, and returns the head of the answer once it is
    /// there.
    ///
    /// # Errors
    ///
    /// When nobody answers in time.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Answer, HttpError> {
        let limit = self.timeouts.connect;
        let connecting = timeout(limit, self.connect()).await;
        let connection =
            connecting.map_err(|_| HttpError::Timeout { stage: "connection", limit })??;
        let request = self.request(method, path, headers, body)?;
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

    /// Connects, with TLS where the place wants it, and hangs up: nothing is sent to whoever
    /// answers.
    ///
    /// # Errors
    ///
    /// When nobody answers in time, or is not to be trusted.
    pub async fn probe(&self) -> Result<(), HttpError> {
        let limit = self.timeouts.connect;
        let connected = timeout(limit, self.connect()).await;
        connected.map_err(|_| HttpError::Timeout { stage: "connection", limit })?.map(drop)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint.path))
            .header(HOST, &self.endpoint.authority);
        if !headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(body));
        request.body(body).map_err(|error| HttpError::Broken(error.to_string()))
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let failed = |message: String| HttpError::Connect { host: host.clone(), message };
        let addresses = lookup_host((host.as_str(), *port)).await;
        let addresses: Vec<SocketAddr> =
            addresses.map_err(|error| failed(error.to_string()))?.collect();
        if self.reach == Reach::Public
            && let Some(inside) = addresses.iter().find(|address| !is_public(address.ip()))
        {
            return Err(HttpError::NotPublic { host: host.clone(), address: inside.ip() });
        }
        let stream = TcpStream::connect(&addresses[..]).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        // Requests are small and answers are waited for: nothing is gained by collecting bytes.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let Some(tls) = &self.tls else { return Connection::over(stream).await };
        let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
        let stream = TlsConnector::from(tls.config()).connect(name, stream).await;
        Connection::over(stream.map_err(|error| failed(error.to_string()))?).await
    }
}

/// Whether an address is one of the public internet: not of this machine, a private network, a
/// link, a group, a test, nor one that carries such an address inside.
pub fn is_public(address: IpAddr) -> bool {
    let v6 = match address {
        IpAddr::V4(v4) => return is_public_v4(v4),
        IpAddr::V6(v6) => v6,
    };
    if let Some(inside) = v6.to_ipv4_mapped() {
        return is_public_v4(inside);
    }
    let s = v6.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s[0] {
        0x0064 if s[1] == 0xff9b => is_public_v4(v4(s[6], s[7])),
        0x2002 => is_public_v4(v4(s[1], s[2])),
        // Teredo, benchmarks, documentation and the like.
        0x2001 if s[1] < 0x0200 || s[1] == 0x0db8 => false,
        0x3fff => false,
        // All that is given out for the internet.
        0x2000..=0x3fff => true,
        _ => false,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_inside = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !is_inside
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
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    idle: Duration,
    _driver: Driver,
}

#[haft_macros::boxed]
impl Answer {
    /// Returns a header, if it is there and can be read.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the next bytes, or nothing at the end.
    ///
    /// # Errors
    ///
    /// When the answer breaks off or stands still.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
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
    pub async fn start_of_body(mut self, bytes_max: usize) -> Vec<u8> {
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
    fn only_addresses_of_the_internet_are_public() {
        let inside = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "192.0.2.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
        ];
        for address in inside {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_base_url_that_would_send_a_key_astray_is_refused_without_repeating_it() {
        for bad in ["", "localhost", "ftp://x", "http://user:hush@x/v1", "https://x/v1?key=1"] {
            let error = Endpoint::new(bad, "/x").unwrap_err().to_string();
            assert!(error.contains("https://HOST") && !error.contains("hush"), "{error}");
        }
    }
}
