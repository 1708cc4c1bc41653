//! Gets tokens for one mounted server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use haft_core::Actor;
use haft_http::token_endpoint::TokenRequest;
use haft_http::{Endpoint, Reach, form};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::access::Access;
use super::begun::{AuthorizationState, Authorizations, Awaited, Begun, Client, Returned};
use super::discovery::{Discovered, discover};
use super::metadata::AuthorizationServer;
use super::tokens::{Credentials, Granted, Tokens, now};
use super::wanted::Wanted;
use super::web::Web;
use super::{Grant, OAuth, is_document};
use crate::mount::setting::Secrets;

/// What this node calls itself where it registers.
const CLIENT_NAME: &str = "Haft";

/// Gets tokens for one server.
pub(crate) struct Authorizer {
    url: String,
    /// Which addresses the server may be at.
    reach: Reach,
    oauth: OAuth,
    tokens: Tokens,
    secrets: Secrets,
    /// What the server wants that it did not get.
    wanted: Mutex<Option<Wanted>>,
    authorizations: Authorizations,
}

impl Authorizer {
    pub(crate) fn new(
        (url, reach, oauth): (&str, Reach, OAuth),
        tokens: Tokens,
        authorizations: Authorizations,
        secrets: Secrets,
    ) -> Self {
        let wanted = Mutex::default();
        Self { url: url.to_owned(), reach, oauth, tokens, secrets, wanted, authorizations }
    }

    /// Returns whether the server waits for somebody to authorize this node.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted().is_some()
    }

    /// Returns what gives the tokens that are there; `None` while there are none, and before the
    /// server has asked for any.
    pub(crate) async fn access(&self) -> Result<Option<Arc<Access>>, String> {
        if !self.tokens.look().await? {
            return Ok(None);
        }
        let Some(granted) = self.tokens.known().await else { return Ok(None) };
        if granted.credentials.token_response.is_none() {
            return Ok(None);
        }
        let web = Web::new(&self.url, self.reach)?;
        let found = discover(&web, &self.url, None).await?;
        let Credentials { client_id, issuer, .. } = granted.credentials;
        if issuer.is_some() && found.server.issuer.is_none() {
            // The server itself would be asked in place of whoever gave them.
            return Err("the server no longer says who gives its tokens, so the ones that were \
                        given are not shown to anybody; authorize it again if that is meant"
                .to_owned());
        }
        if let (Some(before), Some(now)) = (issuer, &found.server.issuer)
            && before != *now
        {
            // What one authorization server gave is never shown to another one. A client whose id
            // is the address of a document is the same everywhere.
            let client_secret = granted.client_secret;
            let kept = is_document(&client_id).then(|| {
                let issuer = found.server.issuer.clone();
                Granted { credentials: Credentials::client_only(client_id, issuer), client_secret }
            });
            self.tokens.replace(kept).await?;
            return Ok(None);
        }
        Ok(Some(Arc::new(Access::new(web, self.tokens.clone(), found))))
    }

    /// Does what can be done without a person about not having been let in. After that, another
    /// try makes sense.
    pub(crate) async fn renew(&self, wanted: Wanted) -> Result<(), String> {
        *self.wanted() = Some(wanted.clone());
        match self.oauth.grant {
            Grant::ClientCredentials => self.exchange(&wanted).await?,
            Grant::AuthorizationCode => {
                if !self.finds_another().await? {
                    return Err(self.asks_for());
                }
            }
        }
        *self.wanted() = None;
        Ok(())
    }

    /// Returns whether another node was given the token that this one waits for.
    pub(crate) async fn was_given_elsewhere(&self) -> bool {
        // A store that has trouble has no news.
        let news = self.is_wanted() && self.finds_another().await.unwrap_or(false);
        if news {
            *self.wanted() = None;
        }
        news
    }

    async fn finds_another(&self) -> Result<bool, String> {
        let before = self.access_token().await;
        Ok(self.tokens.look().await? && self.access_token().await != before)
    }

    fn asks_for(&self) -> String {
        let more = match &*self.wanted() {
            Some(Wanted::Scope { scope: Some(scope), .. }) => format!(" for `{scope}`"),
            _ => String::new(),
        };
        format!(
            "the server wants to be authorized{more}: somebody does that in the console, or with \
             `haft mcp authorize`"
        )
    }

    async fn access_token(&self) -> Option<String> {
        self.tokens.known().await?.credentials.access_token().map(str::to_owned)
    }

    /// Gets a token for a client that has a right of its own.
    async fn exchange(&self, wanted: &Wanted) -> Result<(), String> {
        let Some(Client { id, secret: Some(secret) }) = self.configured().await? else {
            return Err("`oauth` needs a `client_id` and a `client_secret`".to_owned());
        };
        let web = Web::new(&self.url, self.reach)?;
        let found = discover(&web, &self.url, Some(wanted.challenge())).await?;
        let mut scopes = self.scopes(Some(wanted)).await;
        if scopes.is_empty() {
            scopes = found.server.with_offline_access(found.scopes);
        }
        let scope = scopes.join(" ");
        let mut fields = vec![("grant_type", "client_credentials"), ("resource", &self.url)];
        if !scope.is_empty() {
            fields.push(("scope", &scope));
        }
        let request = TokenRequest {
            endpoint: &found.server.token_endpoint,
            client_id: &id,
            auth: found.server.own_right_auth()?,
            client_secret: Some(&secret),
            fields,
        };
        let given = web.token(&request).await;
        let given = given.map_err(|error| format!("the token endpoint gave no token: {error}"))?;
        let credentials = Credentials::given(given, &id, Vec::new(), found.server.issuer);
        self.tokens.replace(Some(Granted { credentials, client_secret: Some(secret) })).await
    }

    /// Begins an authorization, and returns the address that a person opens. They are sent back
    /// to `back_to` when they have said yes.
    pub(crate) async fn begin(&self, back_to: &str, by: &Actor) -> Result<String, String> {
        if self.oauth.grant == Grant::ClientCredentials {
            return Err("it gets its tokens by itself, as its `client_id`".to_owned());
        }
        let wanted = self.wanted().clone();
        let challenge = wanted.as_ref().map(Wanted::challenge);
        let web = Web::new(&self.url, self.reach)?;
        let Discovered { server, resource, scopes } = discover(&web, &self.url, challenge).await?;
        server.require_codes()?;
        let client = self.chosen(&web, &server, back_to).await?;
        let asked = self.scopes(wanted.as_ref()).await;
        let scopes = server.with_offline_access(if asked.is_empty() { scopes } else { asked });
        let state = AuthorizationState {
            pkce_verifier: fresh_text()?,
            csrf_token: fresh_text()?,
            expected_issuer: server.issuer.clone(),
            require_issuer: server.names_itself(),
            created_at: now(),
            requested_scopes: scopes,
        };
        let open = page(&server, &client, &state, back_to, &resource);
        let begun = Begun {
            server: self.tokens.server().clone(),
            url: self.url.clone(),
            state,
            client,
            metadata: server,
            resource: Some(resource),
            back_to: back_to.to_owned(),
            by: by.clone(),
        };
        self.authorizations.keep(begun).await?;
        Ok(open)
    }

    /// Ends an authorization with what a person came back with, and returns who began it, on
    /// whatever node that was. The code goes to whom the person was sent.
    pub(crate) async fn complete(
        &self,
        awaited: Awaited,
        returned: &Returned,
    ) -> Result<Actor, String> {
        let begun = &awaited.begun;
        if begun.url != self.url {
            return Err("it is mounted at another address by now: begin it again".to_owned());
        }
        // An answer from somebody else does not use it up.
        begun.state.require_from(returned.issuer.as_deref())?;
        awaited.take().await?;
        let (server, client) = (&begun.metadata, &begun.client);
        let request = TokenRequest {
            endpoint: &server.token_endpoint,
            client_id: &client.id,
            auth: server.client_auth(client.secret.is_some()),
            client_secret: client.secret.as_deref(),
            fields: vec![
                ("grant_type", "authorization_code"),
                ("code", &returned.code),
                ("redirect_uri", &begun.back_to),
                ("code_verifier", &begun.state.pkce_verifier),
                ("resource", begun.resource.as_deref().unwrap_or(&self.url)),
            ],
        };
        let given = Web::new(&self.url, self.reach)?.token(&request).await;
        let given = given.map_err(|error| format!("the code was not taken: {error}"))?;
        let scopes = begun.state.requested_scopes.clone();
        let credentials = Credentials::given(given, &client.id, scopes, server.issuer.clone());
        let client_secret = client.secret.clone();
        self.tokens.replace(Some(Granted { credentials, client_secret })).await?;
        *self.wanted() = None;
        Ok(begun.by.clone())
    }

    /// Returns who this node is to an authorization server: what was configured, what it was
    /// there before, or what it registers as now. What it is to one it never is to another.
    async fn chosen(
        &self,
        web: &Web,
        server: &AuthorizationServer,
        back_to: &str,
    ) -> Result<Client, String> {
        if let Some(client) = self.configured().await? {
            return Ok(client);
        }
        if let Some(url) = &self.oauth.client_metadata_url
            && server.takes_documents()
        {
            return Ok(Client { id: url.clone(), secret: None });
        }
        if let Some(known) = self.tokens.known().await
            && known.credentials.issuer.is_some()
            && known.credentials.issuer == server.issuer
        {
            return Ok(Client { id: known.credentials.client_id, secret: known.client_secret });
        }
        register(web, server, back_to).await
    }

    async fn configured(&self) -> Result<Option<Client>, String> {
        let Some(id) = self.oauth.client_id.clone() else { return Ok(None) };
        let secret = match &self.oauth.client_secret {
            Some(setting) => Some(self.secrets.value("client_secret", setting).await?),
            None => None,
        };
        Ok(Some(Client { id, secret }))
    }

    /// Returns what to ask for: what was configured, and where the server wants more, that beside
    /// what it gave before. None means what it says itself.
    async fn scopes(&self, wanted: Option<&Wanted>) -> Vec<String> {
        let mut scopes = self.oauth.scopes.clone();
        let more: Vec<String> = wanted.into_iter().flat_map(Wanted::scopes).collect();
        if !more.is_empty() {
            let known = self.tokens.known().await;
            scopes.extend(known.map(|known| known.credentials.granted_scopes).unwrap_or_default());
        }
        for scope in more {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    fn wanted(&self) -> MutexGuard<'_, Option<Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers this node as a client (RFC 7591).
async fn register(
    web: &Web,
    server: &AuthorizationServer,
    back_to: &str,
) -> Result<Client, String> {
    #[derive(Deserialize)]
    struct Registered {
        client_id: String,
        client_secret: Option<String>,
    }
    let Some(endpoint) = &server.registration_endpoint else {
        return Err("its authorization server registers nobody: configure a `client_id`".to_owned());
    };
    let is_here = Endpoint::exactly(back_to).is_ok_and(|back_to| back_to.is_loopback());
    let about = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [back_to],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": if is_here { "native" } else { "web" },
    });
    let (status, body) = web.post(endpoint, about.to_string().into_bytes()).await?;
    let refused = |why: &str| format!("its authorization server did not register this node: {why}");
    if !status.is_success() {
        let text = String::from_utf8_lossy(&body);
        return Err(refused(&format!("HTTP {status}: {text}")));
    }
    // An error that repeats what it read would repeat a secret.
    let read = serde_json::from_slice::<Registered>(&body);
    let read = read.map_err(|_| refused("its answer cannot be read"))?;
    let secret = read.client_secret.filter(|secret| !secret.is_empty());
    Ok(Client { id: read.client_id, secret })
}

/// Returns the address that a person opens.
fn page(
    server: &AuthorizationServer,
    client: &Client,
    state: &AuthorizationState,
    back_to: &str,
    resource: &str,
) -> String {
    let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(state.pkce_verifier.as_bytes()));
    let scope = state.requested_scopes.join(" ");
    let mut fields = vec![
        ("response_type", "code"),
        ("client_id", client.id.as_str()),
        ("redirect_uri", back_to),
        ("state", state.csrf_token.as_str()),
        ("code_challenge", proof.as_str()),
        ("code_challenge_method", "S256"),
        ("resource", resource),
    ];
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    let page = &server.authorization_endpoint;
    let joint = if page.contains('?') { '&' } else { '?' };
    format!("{page}{joint}{}", form::encode(fields))
}

/// Returns a text that nobody can guess.
fn fresh_text() -> Result<String, String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("there is no randomness: {error}"))?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_sent_with_a_proof_of_who_asks() {
        let at = Endpoint::exactly("https://auth.example/").unwrap();
        let mut server = AuthorizationServer::unpublished(&at);
        server.authorization_endpoint.push_str("?tenant=1");
        let client = Client { id: "it is me".to_owned(), secret: Some("hush".to_owned()) };
        let state = AuthorizationState {
            // The example of RFC 7636.
            pkce_verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
            csrf_token: "s".to_owned(),
            expected_issuer: None,
            require_issuer: false,
            created_at: 0,
            requested_scopes: vec!["read".to_owned(), "write".to_owned()],
        };
        let page = page(&server, &client, &state, "http://localhost/cb", "https://a/mcp");
        assert_eq!(
            page,
            "https://auth.example/authorize?tenant=1&response_type=code&client_id=it+is+me\
             &redirect_uri=http%3A%2F%2Flocalhost%2Fcb&state=s\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
             &code_challenge_method=S256&resource=https%3A%2F%2Fa%2Fmcp&scope=read+write"
        );
    }

    #[test]
    fn what_nobody_can_guess_is_never_the_same_and_fits_into_an_address() {
        let (a, b) = (fresh_text().unwrap(), fresh_text().unwrap());
        assert!(a != b && a.len() == 43, "{a}");
        assert_eq!(form::encode_value(&a), a);
    }
}
