//! Gets tokens for one mounted server.

use std::sync::{Mutex, MutexGuard, PoisonError};

use haft_core::Actor;
use rmcp::transport::auth::{
    AuthClient, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    AuthorizationRequest, AuthorizationSession, ClientCredentialsConfig, InMemoryStateStore,
    OAuthClientConfig, StateStore as _,
};

use super::begun::{Authorizations, Awaited, Begun, Client};
use super::tokens::Tokens;
use super::wanted::Wanted;
use super::{Grant, OAuth};
use crate::mount::error::with_causes;
use crate::mount::setting::Secrets;

/// What this node calls itself where it registers.
const CLIENT_NAME: &str = "Haft";

/// Gets tokens for one server.
pub(crate) struct Authorizer {
    url: String,
    oauth: OAuth,
    tokens: Tokens,
    secrets: Secrets,
    /// What the server wants that it did not get.
    wanted: Mutex<Option<Wanted>>,
    authorizations: Authorizations,
}

impl Authorizer {
    pub(crate) fn new(
        (url, oauth): (&str, OAuth),
        tokens: Tokens,
        authorizations: Authorizations,
        secrets: Secrets,
    ) -> Self {
        let wanted = Mutex::default();
        Self { url: url.to_owned(), oauth, tokens, secrets, wanted, authorizations }
    }

    /// Returns whether the server waits for somebody to authorize this node.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted().is_some()
    }

    /// Returns what makes the requests, with the tokens that are there; `None` while there are
    /// none, and before the server has asked for any.
    pub(crate) async fn client(&self) -> Result<Option<AuthClient<reqwest::Client>>, String> {
        if !self.tokens.look().await? {
            return Ok(None);
        }
        let secret = self.tokens.known().await.and_then(|granted| granted.client_secret);
        let mut manager = self.manager(secret.clone()).await?;
        if !manager.initialize_from_store().await.map_err(said)? {
            return Ok(None);
        }
        if let (Some(granted), Some(secret)) = (self.tokens.known().await, secret) {
            let client = OAuthClientConfig::new(granted.credentials.client_id, &self.url);
            manager.configure_client(client.with_client_secret(secret)).map_err(said)?;
        }
        // A token goes where it was given for, and nowhere that the server leads it to.
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let http = http.pool_max_idle_per_host(0).build().map_err(said)?;
        Ok(Some(AuthClient::new(http, manager)))
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
        let granted = self.tokens.known().await?;
        let given = serde_json::to_value(granted.credentials.token_response).ok()?;
        given["access_token"].as_str().map(str::to_owned)
    }

    /// Gets a token for a client that has a right of its own.
    async fn exchange(&self, wanted: &Wanted) -> Result<(), String> {
        let Some(Client { id, secret: Some(secret) }) = self.configured().await? else {
            return Err("`oauth` needs a `client_id` and a `client_secret`".to_owned());
        };
        let mut manager = self.manager(Some(secret.clone())).await?;
        discover(&mut manager, Some(wanted.challenge())).await?;
        let mut scopes = self.scopes(Some(wanted)).await;
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(&[]).await;
        }
        let resource = Some(self.url.clone());
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: id,
            client_secret: secret,
            scopes,
            resource,
        };
        manager.validate_client_credentials_metadata(&config).map_err(said)?;
        manager.configure_client_credentials(&config).map_err(said)?;
        manager.exchange_client_credentials(&config).await.map_err(said)?;
        Ok(())
    }

    /// Begins an authorization, and returns the address that a person opens. They are sent back
    /// to `back_to` when they have said yes.
    pub(crate) async fn begin(&self, back_to: &str, by: &Actor) -> Result<String, String> {
        if self.oauth.grant == Grant::ClientCredentials {
            return Err("it gets its tokens by itself, as its `client_id`".to_owned());
        }
        let wanted = self.wanted().clone();
        let mut manager = self.manager(None).await?;
        let challenge = wanted.as_ref().map(Wanted::challenge);
        let metadata = discover(&mut manager, challenge).await?;
        let client = self.chosen(&mut manager, &metadata, back_to).await?;
        let noted = InMemoryStateStore::new();
        manager.set_state_store(noted.clone());
        let request = AuthorizationRequest::new(back_to)
            .with_initial_scope_selection()
            .with_scopes(self.scopes(wanted.as_ref()).await)
            .with_preregistered_client(client.id.clone());
        let request = match &client.secret {
            Some(secret) => request.with_client_secret(secret.clone()),
            None => request,
        };
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| said(error))?;
        let open = session.get_authorization_url().to_owned();
        let state = state_of(&open).ok_or("its address for people has no `state`")?;
        let state = noted.load(&state).await.map_err(said)?;
        let begun = Begun {
            server: self.tokens.server().clone(),
            url: self.url.clone(),
            state: state.ok_or("its address for people has another `state`")?,
            client,
            metadata,
            challenge: challenge.map(str::to_owned),
            back_to: back_to.to_owned(),
            by: by.clone(),
        };
        self.authorizations.keep(begun).await?;
        Ok(open)
    }

    /// Ends an authorization with what a person came back with, and returns who began it, on
    /// whatever node that was.
    pub(crate) async fn complete(
        &self,
        awaited: Awaited,
        callback: &AuthorizationCallback,
    ) -> Result<Actor, String> {
        let begun = awaited.begun.clone();
        if begun.url != self.url {
            return Err("it is mounted at another address by now: begin it again".to_owned());
        }
        let mut manager = self.manager(begun.client.secret.clone()).await?;
        // What the token is for is the server's to say; the code goes to whom the person was sent.
        discover(&mut manager, begun.challenge.as_deref()).await?;
        manager.set_metadata(begun.metadata);
        let client = OAuthClientConfig::new(begun.client.id, begun.back_to);
        let client = match begun.client.secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        };
        manager.configure_client(client).map_err(said)?;
        manager.set_state_store(awaited);
        let (code, state) = (&callback.code, &callback.csrf_token);
        let issuer = callback.issuer.as_deref();
        let token = manager.exchange_code_for_token_with_issuer(code, state, issuer).await;
        token.map_err(said)?;
        *self.wanted() = None;
        Ok(begun.by)
    }

    async fn manager(&self, secret: Option<String>) -> Result<AuthorizationManager, String> {
        let manager = AuthorizationManager::new(self.url.as_str()).await;
        let mut manager = manager.map_err(said)?;
        manager.set_credential_store(self.tokens.of_client(secret));
        Ok(manager)
    }

    /// Returns who this node is to an authorization server: what was configured, what it was
    /// there before, or what it registers as now. What it is to one it never is to another.
    async fn chosen(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        back_to: &str,
    ) -> Result<Client, String> {
        if let Some(client) = self.configured().await? {
            return Ok(client);
        }
        let takes = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = &self.oauth.client_metadata_url
            && takes.is_some_and(|takes| *takes == true)
        {
            return Ok(Client { id: url.clone(), secret: None });
        }
        if let Some(known) = self.tokens.known().await
            && known.credentials.issuer.is_some()
            && known.credentials.issuer == metadata.issuer
        {
            return Ok(Client { id: known.credentials.client_id, secret: known.client_secret });
        }
        if !is_loopback(back_to) {
            let web = OAuthClientConfig::new(CLIENT_NAME, back_to).with_application_type("web");
            manager.configure_client(web).map_err(said)?;
        }
        let registered = manager.register_client(CLIENT_NAME, back_to, &[]).await.map_err(said)?;
        Ok(Client { id: registered.client_id, secret: registered.client_secret })
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

async fn discover(
    manager: &mut AuthorizationManager,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, String> {
    let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(said)?;
    manager.set_metadata(found.metadata.clone());
    Ok(found.metadata)
}

fn state_of(url: &str) -> Option<String> {
    let query = url.split_once('?')?.1;
    query.split('&').find_map(|pair| pair.strip_prefix("state=")).map(str::to_owned)
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn said(error: impl std::error::Error + 'static) -> String {
    with_causes(&error)
}
