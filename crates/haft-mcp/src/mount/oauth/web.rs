//! The requests to whoever gives tokens. A server that is mounted says where that is, and must not
//! lead this node into its own network.

use std::time::Duration;

use haft_http::token_endpoint::{GivenToken, TokenError, TokenRequest};
use haft_http::{AddressKind, Answer, Client, Endpoint, Method, Reach, Scheme, Timeouts, Trust};
use http::header::{ACCEPT, LOCATION};
use http::{HeaderName, HeaderValue, StatusCode};

/// How long each stage may take.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    first_byte: Duration::from_secs(20),
    idle: Duration::from_secs(10),
    total: Duration::from_secs(30),
};
/// How often a document may be elsewhere on its origin.
const REDIRECTS_MAX: usize = 10;
/// The largest document that is read.
const DOCUMENT_MAX: usize = 256 << 10;
/// What this node says that it speaks.
const VERSION: &str = "2025-11-25";

/// The requests for one mounted server.
#[derive(Debug, Clone)]
pub(super) struct Web {
    mounted: Endpoint,
    /// Which addresses the server may be at; anywhere but there nothing is sent either.
    reach: Reach,
}

impl Web {
    pub(super) fn new(url: &str, reach: Reach) -> Result<Self, String> {
        Ok(Self { mounted: Endpoint::exactly(url).map_err(said)?, reach })
    }

    /// Returns where the mounted server is.
    pub(super) const fn mounted(&self) -> &Endpoint {
        &self.mounted
    }

    /// Returns whether anything is sent there at all.
    pub(super) fn may_ask(&self, at: &Endpoint) -> bool {
        self.reach(at).is_ok()
    }

    /// Returns how far a request may go: to the mounted server's own origin, to the internet, and
    /// to addresses of the kind that the mounted server's own address is written with.
    fn reach(&self, to: &Endpoint) -> Result<Reach, String> {
        if self.mounted.scheme() == Scheme::Https && to.scheme() == Scheme::Http {
            return Err(format!("{to} is not encrypted, and the mounted server is"));
        }
        if self.reach != Reach::Anywhere {
            return Ok(self.reach);
        }
        if self.mounted.is_same_origin(to) {
            return Ok(Reach::Anywhere);
        }
        if self.mounted.is_loopback() {
            return Ok(Reach::PublicOr(AddressKind::Loopback));
        }
        match self.mounted.address().map(AddressKind::of) {
            Some(AddressKind::Private) => Ok(Reach::PublicOr(AddressKind::Private)),
            _ => Ok(Reach::Public),
        }
    }

    /// Reads a document. `None` where there is none; what may be there another time is an error.
    pub(super) async fn document(&self, at: &Endpoint) -> Result<Option<Vec<u8>>, String> {
        let answer = self.get(at).await?;
        if answer.status != StatusCode::OK {
            return Ok(None);
        }
        let reading = answer.start_of_body(DOCUMENT_MAX);
        let body = tokio::time::timeout(TIMEOUTS.total, reading).await;
        body.map(Some).map_err(|_| format!("{at} takes too long"))
    }

    /// Gets the head of an answer, at another place of the same origin if it is said to be there.
    pub(super) async fn get(&self, at: &Endpoint) -> Result<Answer, String> {
        let mut at = at.clone();
        for _ in 0..REDIRECTS_MAX {
            let headers = [
                (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
                (
                    HeaderName::from_static("mcp-protocol-version"),
                    HeaderValue::from_static(VERSION),
                ),
            ];
            let answer = self.client(&at)?.send(Method::GET, "", &headers, Vec::new()).await;
            let answer = answer.map_err(|error| format!("{at} cannot be read: {error}"))?;
            let status = answer.status;
            let comes_back = status.is_server_error()
                || matches!(
                    status,
                    StatusCode::REQUEST_TIMEOUT
                        | StatusCode::TOO_EARLY
                        | StatusCode::TOO_MANY_REQUESTS
                );
            if comes_back {
                return Err(format!("{at} answered {status}"));
            }
            let location = answer.headers.get(LOCATION).filter(|_| status.is_redirection());
            let Some(location) = location else { return Ok(answer) };
            let location = location.to_str().map_err(said)?;
            let next = at.join(location).map_err(said)?;
            if !next.is_same_origin(&at) {
                return Err(format!("{at} leads to another origin: {next}"));
            }
            at = next;
        }
        Err(format!("{at} is always elsewhere"))
    }

    /// Posts JSON, and returns the status and the body of the answer.
    pub(super) async fn post(
        &self,
        at: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let at = Endpoint::exactly(at).map_err(said)?;
        let headers = [(ACCEPT, HeaderValue::from_static("application/json"))];
        let posting = async {
            let answer = self.client(&at)?.post(&headers, body).await.map_err(said)?;
            Ok((answer.status, answer.start_of_body(DOCUMENT_MAX).await))
        };
        let posted = tokio::time::timeout(TIMEOUTS.total, posting).await;
        posted.map_err(|_| format!("{at} takes too long"))?
    }

    /// Asks for a token.
    pub(super) async fn token(&self, request: &TokenRequest<'_>) -> Result<GivenToken, TokenError> {
        let unanswered = |error: String| TokenError::Unanswered(error);
        let at = Endpoint::exactly(request.endpoint).map_err(said).map_err(unanswered)?;
        let reach = self.reach(&at).map_err(unanswered)?;
        request.send(reach, Trust::shared()).await
    }

    fn client(&self, at: &Endpoint) -> Result<Client, String> {
        Client::reaching(self.reach(at)?, at.clone(), TIMEOUTS, Trust::shared()).map_err(said)
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(mounted: &str, to: &str) -> Result<Reach, String> {
        Web::new(mounted, Reach::Anywhere).unwrap().reach(&Endpoint::exactly(to).unwrap())
    }

    #[test]
    fn a_mounted_server_leads_no_further_than_it_is_itself() {
        let public = "https://mcp.example/mcp";
        assert_eq!(reach(public, "https://mcp.example/x"), Ok(Reach::Anywhere));
        assert_eq!(reach(public, "https://auth.example/x"), Ok(Reach::Public));
        assert_eq!(reach(public, "https://mcp.example:8443/x"), Ok(Reach::Public));
        let loopback = Ok(Reach::PublicOr(AddressKind::Loopback));
        for here in ["http://127.0.0.1:1/mcp", "http://localhost:1/mcp", "http://[::1]:1/mcp"] {
            assert_eq!(reach(here, "http://127.0.0.1:2/x"), loopback, "{here}");
        }
        let private = Ok(Reach::PublicOr(AddressKind::Private));
        assert_eq!(reach("http://10.0.0.5/mcp", "http://10.0.0.6/x"), private);
        assert_eq!(reach("http://169.254.1.1/mcp", "http://10.0.0.6/x"), Ok(Reach::Public));
    }

    #[test]
    fn nothing_is_sent_in_the_clear_on_behalf_of_an_encrypted_server() {
        let refused = reach("https://mcp.example/mcp", "http://auth.example/token").unwrap_err();
        assert!(refused.contains("is not encrypted"), "{refused}");
        let refused = reach("https://mcp.example/mcp", "http://mcp.example/token").unwrap_err();
        assert!(refused.contains("is not encrypted"), "{refused}");
    }
}
