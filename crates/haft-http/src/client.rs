//! Sends requests to one place; the answer comes piece by piece.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::Reach;
use crate::endpoint::{Endpoint, Scheme};
use crate::pool::{Connection, Pool};
use crate::trust::{NoRootsError, Trust};

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

/// Sends requests to one place.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    timeouts: Timeouts,
    reach: Reach,
    tls: Option<Trust>,
    /// The connections that are used again, if they are.
    pool: Option<Arc<Pool>>,
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
        let tls = match endpoint.scheme() {
            Scheme::Http => None,
            Scheme::Https => Some(Trust::with_roots(more_roots)?),
        };
        Ok(Self { endpoint: endpoint.into(), timeouts, reach: Reach::Anywhere, tls, pool: None })
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
        let tls = match endpoint.scheme() {
            Scheme::Http => None,
            Scheme::Https => Some(trust.clone()?),
        };
        Ok(Self { endpoint: endpoint.into(), timeouts, reach, tls, pool: None })
    }

    /// Keeps connections for later requests. A request that could not be sent over a kept
    /// connection goes over a new one; one that was sent is never sent again.
    #[must_use]
    pub fn pooled(mut self) -> Self {
        self.pool = Some(Arc::default());
        self
    }

    /// Returns where its requests go.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns a client for another place on the same origin, which shares its connections;
    /// nothing if the place is on another origin.
    #[must_use]
    pub fn at(&self, endpoint: Endpoint) -> Option<Self> {
        let is_same = self.endpoint.is_same_origin(&endpoint);
        is_same.then(|| Self { endpoint: endpoint.into(), ..self.clone() })
    }

    /// Posts a body, of JSON unless a header says otherwise, and returns the head of the answer
    /// once it is there.
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
        self.send_bytes(method, path, headers, body.into()).await
    }

    /// Sends a request like [`Client::send`], with a body that the caller may keep a clone of.
    ///
    /// # Errors
    ///
    /// When nobody answers in time.
    pub async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Answer, HttpError> {
        let mut request = self.request(method, path, headers, body)?;
        let mut connection = self.connection().await?;
        let limit = self.timeouts.first_byte;
        loop {
            let answer = timeout(limit, connection.sender.try_send_request(request)).await;
            let mut error =
                match answer.map_err(|_| HttpError::Timeout { stage: "answer", limit })? {
                    Ok(answer) => return Ok(self.answered(answer, connection)),
                    Err(error) => error,
                };
            match error.take_message() {
                Some(unsent) if connection.was_used => request = unsent,
                Some(_) | None => return Err(broken(error.error())),
            }
            connection = self.new_connection().await?;
        }
    }

    fn answered(&self, answer: Response<Incoming>, connection: Connection) -> Answer {
        let (head, body) = answer.into_parts();
        let mut answer = Answer {
            status: head.status,
            headers: head.headers,
            body,
            idle: self.timeouts.idle,
            connection: Some(connection),
            pool: self.pool.as_ref().map(Arc::downgrade),
        };
        if answer.body.is_end_stream() {
            answer.give_back();
        }
        answer
    }

    /// Connects, with TLS where the place wants it, and hangs up: nothing is sent to whoever
    /// answers.
    ///
    /// # Errors
    ///
    /// When nobody answers in time, or is not to be trusted.
    pub async fn probe(&self) -> Result<(), HttpError> {
        self.new_connection().await.map(drop)
    }

    async fn connection(&self) -> Result<Connection, HttpError> {
        if let Some(pool) = &self.pool
            && let Ok(Some(kept)) = timeout(self.timeouts.connect, pool.take()).await
        {
            return Ok(kept);
        }
        self.new_connection().await
    }

    async fn new_connection(&self) -> Result<Connection, HttpError> {
        let limit = self.timeouts.connect;
        let connected = timeout(limit, self.connect()).await;
        connected.map_err(|_| HttpError::Timeout { stage: "connection", limit })?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint.target()))
            .header(HOST, self.endpoint.authority());
        if !headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body)).map_err(|error| HttpError::Broken(error.to_string()))
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let (host, port) = (self.endpoint.host(), self.endpoint.port());
        let failed = |message: String| HttpError::Connect { host: host.to_owned(), message };
        let addresses = lookup_host((host, port)).await;
        let addresses: Vec<SocketAddr> =
            addresses.map_err(|error| failed(error.to_string()))?.collect();
        if let Some(inside) = addresses.iter().find(|address| !self.reach.allows(address.ip())) {
            return Err(HttpError::NotPublic { host: host.to_owned(), address: inside.ip() });
        }
        let stream = TcpStream::connect(&addresses[..]).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        // Requests are small and answers are waited for: nothing is gained by collecting bytes.
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let Some(tls) = &self.tls else {
            return Connection::over(stream).await.map_err(|error| broken(&error));
        };
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| failed(error.to_string()))?;
        let stream = TlsConnector::from(tls.config()).connect(name, stream).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        Connection::over(stream).await.map_err(|error| broken(&error))
    }
}

/// The head of an answer, and its body piece by piece.
#[derive(Debug)]
pub struct Answer {
    /// How it went.
    pub status: StatusCode,
    /// The headers as they came.
    pub headers: HeaderMap,
    body: Incoming,
    idle: Duration,
    /// Closed when the answer is dropped before its end.
    connection: Option<Connection>,
    pool: Option<Weak<Pool>>,
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
            let Some(frame) = frame else {
                self.give_back();
                return Ok(None);
            };
            let frame = frame.map_err(|error| broken(&error))?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Lets the connection be used again, now that nothing more comes over it.
    fn give_back(&mut self) {
        let pool = self.pool.take().and_then(|pool| pool.upgrade());
        if let (Some(pool), Some(connection)) = (pool, self.connection.take()) {
            pool.keep(connection);
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
