//! A client that keeps its connection.

use std::collections::VecDeque;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A connection to a server.
pub(super) struct Http {
    address: String,
    key: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Http {
    pub(super) async fn connect(address: &str, key: &str) -> anyhow::Result<Self> {
        let sender = sender(address).await?;
        Ok(Self { address: address.to_owned(), key: key.to_owned(), sender })
    }

    pub(super) async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = self.whole(Method::POST, path, body.to_string()).await?;
        serde_json::from_slice(&body).with_context(|| format!("reading what {path} answers"))
    }

    pub(super) async fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        let body = self.whole(Method::GET, path, String::new()).await?;
        serde_json::from_slice(&body).with_context(|| format!("reading what {path} answers"))
    }

    pub(super) async fn text(&mut self, path: &str) -> anyhow::Result<String> {
        let body = self.whole(Method::GET, path, String::new()).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Follows a stream, with this connection.
    pub(super) async fn follow(mut self, path: &str) -> anyhow::Result<Lines> {
        let answer = self.send(Method::GET, path, String::new()).await?;
        anyhow::ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        let (body, rest, ready) = (answer.into_body(), Vec::new(), VecDeque::new());
        Ok(Lines { body, rest, ready, _connection: self })
    }

    async fn whole(&mut self, method: Method, path: &str, body: String) -> anyhow::Result<Bytes> {
        let answer = self.send(method, path, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await.context("reading an answer")?.to_bytes();
        let said = || String::from_utf8_lossy(&body);
        anyhow::ensure!(status.is_success(), "{path}: {status} {}", said());
        Ok(body)
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<Response<Incoming>> {
        // A server closes what has been silent for a while.
        if self.sender.ready().await.is_err() {
            self.sender = sender(&self.address).await?;
        }
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.address)
            .header("x-api-key", &self.key)
            .body(Full::new(Bytes::from(body)))?;
        self.sender.send_request(request).await.with_context(|| format!("asking {path}"))
    }
}

async fn sender(address: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.context("connecting to the server")?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with the connection is told to whoever waits for an answer.
    tokio::spawn(async move { connection.await.unwrap_or_default() });
    Ok(sender)
}

/// The lines of a stream.
pub(super) struct Lines {
    body: Incoming,
    rest: Vec<u8>,
    ready: VecDeque<String>,
    _connection: Http,
}

impl Lines {
    /// Returns the next line; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let Ok(data) = frame.context("following a stream")?.into_data() else { continue };
            self.rest.extend_from_slice(&data);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.ready.push_back(String::from_utf8_lossy(&line[..end]).into_owned());
            }
        }
    }
}
