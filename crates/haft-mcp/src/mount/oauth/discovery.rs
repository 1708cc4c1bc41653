//! Finds out who gives tokens for a mounted server, and for what.

use haft_http::{Answer, Endpoint};
use http::StatusCode;
use http::header::WWW_AUTHENTICATE;

use super::challenge::parameter;
use super::metadata::{AuthorizationServer, ResourceMetadata, resource_places, server_places};
use super::web::Web;

/// Who gives tokens for a mounted server.
#[derive(Debug, Clone)]
pub(super) struct Discovered {
    pub(super) server: AuthorizationServer,
    /// What the tokens are for, as the server calls itself (RFC 8707).
    pub(super) resource: String,
    /// What the server wants tokens to be good for, if it says that.
    pub(super) scopes: Vec<String>,
}

/// How a place of a document is known, which says what another document there means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The server named it.
    Named,
    /// The standards put documents there.
    Guessed,
}

/// Asks a mounted server, and whom it names, who gives tokens; `challenge` is what it said when it
/// wanted one.
pub(super) async fn discover(
    web: &Web,
    url: &str,
    challenge: Option<&str>,
) -> Result<Discovered, String> {
    let mut search = Search { web, challenge_scopes: challenge.map(scopes_of) };
    let named = challenge.and_then(|challenge| search.pointer(challenge));
    let mut found = match named {
        Some(place) => search.resource_at(&place, Known::Named).await?,
        None => None,
    };
    if found.is_none() {
        found = search.resource().await?;
    }
    let resource_scopes = found.as_ref().map(|found| found.scopes().to_vec()).unwrap_or_default();
    let scopes = search.challenge_scopes.take().filter(|scopes| !scopes.is_empty());
    let scopes = without_repeats(scopes.unwrap_or(resource_scopes));
    let resource = found.as_ref().and_then(ResourceMetadata::resource).unwrap_or(url).to_owned();
    let server = search.server(found.as_ref()).await?;
    Ok(Discovered { server, resource, scopes })
}

struct Search<'a> {
    web: &'a Web,
    /// What the first challenge names; `None` until there was one.
    challenge_scopes: Option<Vec<String>>,
}

impl Search<'_> {
    /// Returns where a challenge says that the server's document is.
    fn pointer(&self, challenge: &str) -> Option<Endpoint> {
        let named = parameter(challenge, "resource_metadata")?;
        self.web.mounted().join(named.trim()).ok().filter(|place| self.web.may_ask(place))
    }

    /// Looks for the server's document where the server says, and where the standards put it.
    async fn resource(&mut self) -> Result<Option<ResourceMetadata>, String> {
        let mut tried = Vec::new();
        let mounted = self.web.mounted().clone();
        // Of an answer that is a stream, nobody waits for the end.
        let answer = self.web.get(&mounted).await?;
        if let Some(place) = self.asked(&answer) {
            if let Some(found) = self.resource_at(&place, Known::Named).await? {
                return Ok(Some(found));
            }
            tried.push(place);
        }
        for path in resource_places(&mounted) {
            let Ok(place) = mounted.with_path(&path) else { continue };
            if tried.contains(&place) {
                continue;
            }
            if let Some(found) = self.resource_at(&place, Known::Guessed).await? {
                return Ok(Some(found));
            }
            tried.push(place);
        }
        Ok(None)
    }

    /// Returns where an answer that wants a token says that the document is, and remembers what the
    /// token is to be good for.
    fn asked(&mut self, answer: &Answer) -> Option<Endpoint> {
        let challenges: Vec<&str> = match answer.status {
            StatusCode::UNAUTHORIZED => {
                let values = answer.headers.get_all(WWW_AUTHENTICATE).iter();
                values.filter_map(|value| value.to_str().ok()).collect()
            }
            _ => Vec::new(),
        };
        let pointing =
            challenges.iter().find_map(|challenge| Some((self.pointer(challenge)?, *challenge)));
        let with_scope = challenges.iter().find(|one| parameter(one, "scope").is_some());
        let first = pointing.as_ref().map(|(_, challenge)| challenge).or(with_scope);
        let scopes = first.map(|challenge| scopes_of(challenge)).unwrap_or_default();
        self.challenge_scopes.get_or_insert(scopes);
        pointing.map(|(place, _)| place)
    }

    async fn resource_at(
        &self,
        place: &Endpoint,
        known: Known,
    ) -> Result<Option<ResourceMetadata>, String> {
        let Some(body) = self.web.document(place).await? else { return Ok(None) };
        let wrong = |why: &str| Err(format!("the server's document at {place} is wrong: {why}"));
        match (ResourceMetadata::read(&body, self.web.mounted()), known) {
            (Ok(None), Known::Named) if is_json(&body) => {
                wrong("it names neither a resource nor who gives tokens for it")
            }
            (Err(why), Known::Named) => wrong(&why),
            (Err(_), Known::Guessed) => Ok(None),
            (Ok(read), _) => Ok(read),
        }
    }

    /// Finds what the one says about itself who gives tokens. Nobody is sent to one that the server
    /// did not name.
    async fn server(
        &self,
        resource: Option<&ResourceMetadata>,
    ) -> Result<AuthorizationServer, String> {
        let named = resource.map(ResourceMetadata::servers).unwrap_or_default();
        if named.is_empty() {
            let mounted = self.web.mounted();
            let found = self.server_of(mounted, None).await?;
            return Ok(found.unwrap_or_else(|| AuthorizationServer::unpublished(mounted)));
        }
        for name in &named {
            let Ok(issuer) = self.web.mounted().join(name) else { continue };
            let written =
                if name.contains("://") { (*name).to_owned() } else { issuer.to_string() };
            if let Some(found) = self.server_of(&issuer, Some(&written)).await? {
                return Ok(found);
            }
        }
        Err(format!("none of those who give tokens for it says how: {}", named.join(", ")))
    }

    async fn server_of(
        &self,
        issuer: &Endpoint,
        written: Option<&str>,
    ) -> Result<Option<AuthorizationServer>, String> {
        for place in server_places(issuer) {
            let Ok(at) = issuer.with_path(&place.path) else { continue };
            let Some(body) = self.web.document(&at).await? else { continue };
            let read = AuthorizationServer::read(&body, written.unwrap_or(&place.issuer));
            let wrong =
                |why| format!("the authorization server's document at {at} is wrong: {why}");
            if let Some(found) = read.map_err(wrong)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

fn scopes_of(challenge: &str) -> Vec<String> {
    let scope = parameter(challenge, "scope").unwrap_or_default();
    scope.split_whitespace().map(str::to_owned).collect()
}

fn without_repeats(scopes: Vec<String>) -> Vec<String> {
    let mut each = Vec::new();
    for scope in scopes {
        if !each.contains(&scope) {
            each.push(scope);
        }
    }
    each
}
