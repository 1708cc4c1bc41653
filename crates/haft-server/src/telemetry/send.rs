//! Posting spans to the collector, some at a time.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue};
use haft_http::{BaseUrlError, Client, Endpoint, NoRootsError, Reach, Timeouts, Trust};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::collect::Spans;
use super::{Ended, TelemetrySettings, encode};

/// How many spans may wait to be sent.
const WAITING_MAX: usize = 8192;

/// How many go in one request.
const AT_ONCE: usize = 512;

/// How long a span waits for others.
const GATHER_FOR: Duration = Duration::from_secs(1);

/// How often a request is sent at most, and how long after a failure.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(10),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};

/// Why spans cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExporterError {
    /// There is no such place.
    #[error("the OTLP endpoint: {0}")]
    Endpoint(#[from] BaseUrlError),
    /// A header cannot be sent.
    #[error("the OTLP header `{0}` is none that HTTP knows")]
    Header(String),
    /// TLS cannot be used.
    #[error(transparent)]
    NoRoots(#[from] NoRootsError),
}

/// Sends spans until it is asked to stop.
#[derive(Debug)]
pub struct Exporter {
    settings: TelemetrySettings,
    client: Client,
    headers: Vec<(HeaderName, HeaderValue)>,
    ended: mpsc::Receiver<Ended>,
}

impl Exporter {
    /// Makes an exporter and the layer that feeds it.
    ///
    /// # Errors
    ///
    /// When the settings cannot be followed.
    pub fn new(settings: TelemetrySettings) -> Result<(Spans, Self), ExporterError> {
        let endpoint = Endpoint::exactly(&settings.endpoint)?;
        let mut headers = vec![(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))];
        for (name, value) in &settings.headers {
            let invalid = || ExporterError::Header(name.clone());
            let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.push((known, value));
        }
        let trust = Trust::of_the_system();
        let client = Client::reaching(Reach::Anywhere, endpoint, TIMEOUTS, &trust)?;
        let (sender, ended) = mpsc::channel(WAITING_MAX);
        Ok((Spans::new(sender), Self { settings, client, headers, ended }))
    }

    /// Begins to send.
    pub fn start(self) -> Running {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        Running { stop, task: tokio::spawn(self.run(stopped)) }
    }

    async fn run(mut self, mut stopped: tokio::sync::oneshot::Receiver<()>) {
        loop {
            let mut batch = Vec::new();
            let mut is_over = tokio::select! {
                n = self.ended.recv_many(&mut batch, AT_ONCE) => n == 0,
                _ = &mut stopped => true,
            };
            if !is_over {
                is_over = tokio::select! {
                    () = tokio::time::sleep(GATHER_FOR) => false,
                    _ = &mut stopped => true,
                };
            }
            while let Ok(ended) = self.ended.try_recv() {
                batch.push(ended);
            }
            for spans in batch.chunks(AT_ONCE) {
                self.send(spans).await;
            }
            if is_over {
                return;
            }
        }
    }

    async fn send(&self, spans: &[Ended]) {
        let body = encode::request(&self.settings.resource, spans);
        let mut trouble = String::new();
        for try_ in 0..TRIES {
            if try_ > 0 {
                tokio::time::sleep(PAUSE * 2u32.pow(try_)).await;
            }
            match self.client.post(&self.headers, body.clone()).await {
                Ok(answer) if answer.status.is_success() => return,
                Ok(answer) => {
                    trouble = format!("it answered {}", answer.status);
                    if !matches!(answer.status.as_u16(), 429 | 502..=504) {
                        break;
                    }
                }
                Err(error) => trouble = error.to_string(),
            }
        }
        tracing::warn!(n = spans.len(), trouble, "spans are lost: the collector did not take them");
    }
}

/// An exporter at work.
#[derive(Debug)]
pub struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    task: JoinHandle<()>,
}

#[haft_macros::boxed]
impl Running {
    /// Sends what is left.
    pub async fn finish(self) {
        // It may have ended by itself.
        self.stop.send(()).unwrap_or_default();
        // A panic of it is in the log already.
        drop(self.task.await);
    }
}
