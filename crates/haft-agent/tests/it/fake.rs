//! A provider on loopback: each connection is answered by the next scene.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_agent::provider::{Api, ApiKey, ProviderConfig, Retry, Timeouts};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) const CHAT: &str = include_str!("fixtures/chat_parallel.sse");
pub(crate) const ANTHROPIC: &str = include_str!("fixtures/anthropic_parallel.sse");
pub(crate) const RESPONSES: &str = include_str!("fixtures/responses_parallel.sse");
pub(crate) const WEB_SEARCH: &str = include_str!("fixtures/anthropic_web_search.sse");

pub(crate) const ALL: [(Api, &str); 3] = [
    (Api::AnthropicMessages, ANTHROPIC),
    (Api::OpenAiChat, CHAT),
    (Api::OpenAiResponses, RESPONSES),
];

/// What happens on one connection.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// How many bytes are written at once.
    pub(crate) piece: usize,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Close,
    /// Only signs of life come, for ever.
    KeepAlive,
    /// Nothing more comes, and the connection stays.
    Stall,
}

impl Scene {
    pub(crate) fn stream(body: impl Into<Vec<u8>>) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream".to_owned();
        Self { head, body: body.into(), piece: 61, end: End::Close }
    }

    pub(crate) fn error(status: u16, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status} No\r\n{headers}content-type: application/json");
        Self { head, body: body.into(), piece: 4096, end: End::Close }
    }

    pub(crate) fn then(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// A running fake.
#[derive(Debug, Clone)]
pub(crate) struct Fake {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Fake {
    pub(crate) async fn start(scenes: impl IntoIterator<Item = Scene>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let fake = Self { url, requests: Arc::clone(&requests) };
        let mut scenes: VecDeque<Scene> = scenes.into_iter().collect();
        tokio::spawn(async move {
            while let Some(scene) = scenes.pop_front() {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(play(stream, scene, Arc::clone(&requests)));
            }
        });
        fake
    }

    /// As [`Fake::start`], for one connection over TLS by a certificate for `localhost` that
    /// nobody has signed; also returns that certificate.
    pub(crate) async fn start_tls(scene: Scene) -> (Self, Vec<u8>) {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = signed.cert.der().to_vec();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone().into()], key.into())
            .unwrap();
        let listener = TcpListener::bind("localhost:0").await.unwrap();
        let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let fake = Self { url, requests: Arc::clone(&requests) };
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
            if let Ok(stream) = stream {
                play(stream, scene, requests).await;
            }
        });
        (fake, certificate)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn config(&self, api: Api) -> ProviderConfig {
        let mut config = ProviderConfig::new(api, &self.url);
        config.api_key = Some(ApiKey::new("sk-hush"));
        let ms = Duration::from_millis;
        let limit = crate::sessions::PATIENCE;
        config.timeouts = Timeouts { connect: limit, first_byte: limit, idle: limit, total: limit };
        config.retry = Retry { attempts: 3, backoff: ms(1), wait_max: ms(1000) };
        config
    }
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    scene: Scene,
    requests: Arc<Mutex<Vec<Request>>>,
) {
    let request = read(&mut stream).await;
    requests.lock().unwrap().push(request);
    let head = format!("{}\r\nconnection: close\r\n\r\n", scene.head);
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in scene.body.chunks(scene.piece) {
        // Whoever has gone is not written to.
        if stream.write_all(piece).await.is_err() {
            return;
        }
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.flush().await.unwrap();
    match scene.end {
        End::Close => {}
        End::KeepAlive => {
            while stream.write_all(b": keep-alive\n\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        End::Stall => std::future::pending::<()>().await,
    }
    // Whoever has gone needs no goodbye.
    stream.shutdown().await.unwrap_or_default();
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Request {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..n]);
        let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap().trim().parse().unwrap();
        if bytes.len() >= at + 4 + length {
            let body = serde_json::from_slice(&bytes[at + 4..]).unwrap();
            return Request { head, body };
        }
    }
}
