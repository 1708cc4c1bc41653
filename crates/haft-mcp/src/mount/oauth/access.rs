//! The tokens for the requests to a server that this node was authorized at.

use haft_http::token_endpoint::{TokenError, TokenRequest};

use super::discovery::Discovered;
use super::tokens::{Credentials, Granted, Tokens};
use super::web::Web;

/// Gives the token for each request, and refreshes it when it is over.
pub(crate) struct Access {
    web: Web,
    tokens: Tokens,
    found: Discovered,
}

impl Access {
    pub(super) const fn new(web: Web, tokens: Tokens, found: Discovered) -> Self {
        Self { web, tokens, found }
    }

    /// Returns the token that the next request is made with; none if a person has to be asked.
    pub(crate) async fn token(&self) -> Result<Option<String>, String> {
        let Some(granted) = self.tokens.known().await else { return Ok(None) };
        match granted.credentials.access_token() {
            Some(over) if granted.credentials.is_over() => self.renewed(over).await,
            token => Ok(token.map(str::to_owned)),
        }
    }

    /// Returns another token than one that is over, or that the server does not take; none if a
    /// person has to be asked.
    pub(crate) async fn renewed(&self, over: &str) -> Result<Option<String>, String> {
        let refreshing = self.tokens.refreshing().await?;
        let Some(Granted { credentials, client_secret }) = self.tokens.known().await else {
            return Ok(None);
        };
        // Whoever was at it before may have got one.
        if credentials.access_token() != Some(over) && !credentials.is_over() {
            return Ok(credentials.access_token().map(str::to_owned));
        }
        let held = credentials.token_response.as_ref();
        let Some(refresh_token) = held.and_then(|held| held.refresh_token.clone()) else {
            return Ok(None);
        };
        let server = &self.found.server;
        // Without a `scope` it is for what was granted (RFC 6749, section 6): more is refused.
        let fields = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.as_str()),
            ("resource", self.found.resource.as_str()),
        ];
        let request = TokenRequest {
            endpoint: &server.token_endpoint,
            client_id: &credentials.client_id,
            auth: server.client_auth(client_secret.is_some()),
            client_secret: client_secret.as_deref(),
            fields,
        };
        let mut given = match self.web.token(&request).await {
            Ok(given) => given,
            Err(TokenError::Refused { code: Some(code), .. }) if needs_person(&code) => {
                return Ok(None);
            }
            Err(error) => return Err(format!("the token cannot be refreshed: {error}")),
        };
        // One that is not replaced stays good.
        given.refresh_token.get_or_insert_with(|| refresh_token.clone());
        let (issuer, scopes) = (server.issuer.clone(), credentials.granted_scopes);
        let credentials = Credentials::given(given, &credentials.client_id, scopes, issuer);
        self.tokens.refreshed(Granted { credentials, client_secret }, &refreshing).await?;
        let known = self.tokens.known().await;
        Ok(known.and_then(|known| known.credentials.access_token().map(str::to_owned)))
    }
}

/// Returns whether a refusal says that the grant, or the client that it was given to, is over: only
/// a person can give another one.
fn needs_person(code: &str) -> bool {
    matches!(code, "invalid_grant" | "invalid_client" | "unauthorized_client")
}
