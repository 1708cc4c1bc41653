//! Tries whether a server takes a token: what a client says to it first, and what it offers.

use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION};
use axum::http::{HeaderName, HeaderValue};
use haft_http::{Client, Endpoint, Method, NoRootsError, Reach, Timeouts, Trust};
use serde_json::{Value, json};

use super::said::Said;

/// How long each stage of a step may take.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    first_byte: Duration::from_secs(15),
    idle: Duration::from_secs(5),
    total: Duration::from_secs(20),
};
/// The revision that begins with `initialize`, and the one that does without.
const EARLIER: &str = "2025-11-25";
const CURRENT: &str = "2026-07-28";
const SESSION: &str = "mcp-session-id";

/// The step that failed.
pub(crate) struct Failed {
    /// What was asked for.
    pub(crate) method: &'static str,
    /// What came back, if anything did.
    pub(crate) said: Option<Said>,
}

impl Failed {
    pub(crate) fn status(&self) -> Option<u16> {
        self.said.as_ref().map(Said::status)
    }
}

/// A server, asked with one token.
struct Probe {
    client: Client,
    token: HeaderValue,
    session: Option<HeaderValue>,
}

/// Tries a token at a server.
pub(crate) async fn probed(
    url: &str,
    token: &str,
    reach: Reach,
    trust: &Result<Trust, NoRootsError>,
) -> Result<(), Failed> {
    let unsent = || Failed { method: "initialize", said: None };
    let endpoint = Endpoint::exactly(url).map_err(|_| unsent())?;
    let client = Client::reaching(reach, endpoint, TIMEOUTS, trust).map_err(|_| unsent())?;
    let mut token = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unsent())?;
    token.set_sensitive(true);
    let mut probe = Probe { client, token, session: None };
    let tried = probe.tried().await;
    probe.left().await;
    tried
}

impl Probe {
    async fn tried(&mut self) -> Result<(), Failed> {
        let about = json!({
            "protocolVersion": EARLIER, "capabilities": {},
            "clientInfo": { "name": "haft", "version": env!("CARGO_PKG_VERSION") },
        });
        match self.asked("initialize", EARLIER, about).await {
            Ok(()) => {
                self.told("notifications/initialized").await;
                self.asked("tools/list", EARLIER, json!({})).await
            }
            // Some do without it.
            Err(failed) if matches!(failed.status(), Some(400 | 404 | 405 | 422)) => {
                let about = json!({ "_meta": {
                    "io.modelcontextprotocol/protocolVersion": CURRENT,
                    "io.modelcontextprotocol/clientInfo":
                        { "name": "haft", "version": env!("CARGO_PKG_VERSION") },
                    "io.modelcontextprotocol/clientCapabilities": {},
                } });
                self.asked("tools/list", CURRENT, about).await
            }
            Err(failed) => Err(failed),
        }
    }

    async fn asked(
        &mut self,
        method: &'static str,
        revision: &'static str,
        params: Value,
    ) -> Result<(), Failed> {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        match self.posted(method, revision, &message).await {
            Some(said) if said.is_success() => Ok(()),
            said => Err(Failed { method, said }),
        }
    }

    /// Says something that needs no answer.
    async fn told(&mut self, method: &'static str) {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        self.posted(method, EARLIER, &message).await;
    }

    async fn posted(
        &mut self,
        method: &'static str,
        revision: &'static str,
        message: &Value,
    ) -> Option<Said> {
        let mut headers = self.headers(revision);
        headers.push((HeaderName::from_static("mcp-method"), HeaderValue::from_static(method)));
        let sending = async {
            let answer = self.client.post(&headers, message.to_string().into_bytes()).await.ok()?;
            let session = answer.header(SESSION).and_then(|id| HeaderValue::from_str(id).ok());
            Some((Said::read(answer).await, session))
        };
        let (said, session) = tokio::time::timeout(TIMEOUTS.total, sending).await.ok()??;
        self.session = session.or_else(|| self.session.take());
        Some(said)
    }

    fn headers(&self, revision: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = vec![
            (AUTHORIZATION, self.token.clone()),
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
            (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static(revision)),
        ];
        headers.extend(self.session.clone().map(|id| (HeaderName::from_static(SESSION), id)));
        headers
    }

    /// Ends the session that the server may have opened; one that it keeps is its own affair.
    async fn left(&self) {
        if self.session.is_some() {
            let headers = self.headers(EARLIER);
            let leaving = self.client.send(Method::DELETE, "", &headers, Vec::new());
            drop(tokio::time::timeout(TIMEOUTS.connect, leaving).await);
        }
    }
}
