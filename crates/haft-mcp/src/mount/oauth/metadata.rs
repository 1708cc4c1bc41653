//! What servers publish about who gives tokens: protected resource metadata (RFC 9728) and
//! authorization server metadata (RFC 8414, and OpenID Connect Discovery).

use haft_http::Endpoint;
use haft_http::token_endpoint::ClientAuth;
use serde::{Deserialize, Serialize};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// What a server that wants tokens says about itself.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ResourceMetadata {
    resource: Option<String>,
    /// As an early draft had it.
    authorization_server: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
}

impl ResourceMetadata {
    /// Reads the document of a mounted server. `None` if it is no such document.
    pub(super) fn read(body: &[u8], mounted: &Endpoint) -> Result<Option<Self>, String> {
        let Ok(read) = serde_json::from_slice::<Self>(body) else { return Ok(None) };
        let names_servers =
            read.authorization_server.is_some() || read.authorization_servers.is_some();
        match &read.resource {
            None if !names_servers => Ok(None),
            None => Err("it does not say which resource it is about".to_owned()),
            Some(resource) if is_about(resource, mounted) => Ok(Some(read)),
            Some(resource) => Err(format!("it is about {resource}, not about {mounted}")),
        }
    }

    /// Returns what tokens are asked for.
    pub(super) fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Returns the scopes that it names.
    pub(super) fn scopes(&self) -> &[String] {
        self.scopes_supported.as_deref().unwrap_or_default()
    }

    /// Returns who gives tokens for it, each once.
    pub(super) fn servers(&self) -> Vec<&str> {
        let one = self.authorization_server.as_deref();
        let all = self.authorization_servers.iter().flatten().map(String::as_str);
        let mut servers = Vec::new();
        for server in one.into_iter().chain(all).map(str::trim) {
            if !server.is_empty() && !servers.contains(&server) {
                servers.push(server);
            }
        }
        servers
    }
}

/// Whether a resource is a mounted server, or what it stands below.
fn is_about(resource: &str, mounted: &Endpoint) -> bool {
    let Ok(named) = Endpoint::exactly(resource) else { return false };
    if resource.contains('#') || !named.is_same_origin(mounted) {
        return false;
    }
    let Some(below) = mounted.path().strip_prefix(named.path()) else { return false };
    below.is_empty() || below.starts_with('/') || named.path().ends_with('/')
}

/// Returns where a mounted server's own document may be.
pub(super) fn resource_places(mounted: &Endpoint) -> Vec<String> {
    match mounted.path().trim_matches('/') {
        "" => vec![RESOURCE.to_owned()],
        path => {
            vec![format!("{RESOURCE}/{path}"), format!("/{path}{RESOURCE}"), RESOURCE.to_owned()]
        }
    }
}

/// Where the document of an authorization server may be, and which issuer it is of then.
pub(super) struct ServerPlace {
    pub(super) path: String,
    pub(super) issuer: String,
}

/// Returns where the document of an issuer may be.
pub(super) fn server_places(issuer: &Endpoint) -> Vec<ServerPlace> {
    let origin = issuer.origin();
    let place = |path: String, issuer: String| ServerPlace { path, issuer };
    match issuer.path().trim_matches('/') {
        "" => [SERVER, OPENID].map(|path| place(path.to_owned(), origin.clone())).into(),
        path => {
            let issuer = format!("{origin}/{path}");
            vec![
                place(format!("{SERVER}/{path}"), issuer.clone()),
                place(format!("{OPENID}/{path}"), issuer.clone()),
                place(format!("/{path}{OPENID}"), issuer),
                place(SERVER.to_owned(), origin),
            ]
        }
    }
}

/// What an authorization server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorizationServer {
    #[serde(default)]
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) issuer: Option<String>,
    scopes_supported: Option<Vec<String>>,
    response_types_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    client_id_metadata_document_supported: Option<bool>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

impl AuthorizationServer {
    /// Reads the document of an issuer. `None` if it is no such document.
    pub(super) fn read(body: &[u8], issuer: &str) -> Result<Option<Self>, String> {
        let Ok(read) = serde_json::from_slice::<Self>(body) else { return Ok(None) };
        match &read.issuer {
            None => Err(format!("it does not say that its issuer is {issuer}")),
            Some(named) if is_same_issuer(named, issuer) => Ok(Some(read)),
            Some(named) => Err(format!("its issuer is {named}, not {issuer}")),
        }
    }

    /// Returns what servers had that published nothing, before they had to.
    pub(super) fn unpublished(mounted: &Endpoint) -> Self {
        let at = |path: &str| format!("{}{path}", mounted.origin());
        Self {
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            ..Self::default()
        }
    }

    /// Checks that a person can be sent there for a code.
    pub(super) fn require_codes(&self) -> Result<(), String> {
        let lacks = |named: &Option<Vec<String>>, wanted: &str| {
            named.as_ref().is_some_and(|named| !named.iter().any(|name| name == wanted))
        };
        if self.authorization_endpoint.is_empty() {
            return Err("its authorization server has no page for people".to_owned());
        }
        if lacks(&self.response_types_supported, "code") {
            return Err("its authorization server gives no codes".to_owned());
        }
        if lacks(&self.code_challenge_methods_supported, "S256") {
            return Err("its authorization server does not take PKCE with S256".to_owned());
        }
        Ok(())
    }

    /// Returns whether the address of a document about a client is taken for its id.
    pub(super) fn takes_documents(&self) -> bool {
        self.client_id_metadata_document_supported == Some(true)
    }

    /// Returns whether it says in every answer who it is.
    pub(super) fn names_itself(&self) -> bool {
        self.authorization_response_iss_parameter_supported == Some(true)
    }

    /// Adds the scope with which some give refresh tokens, where it is known there.
    pub(super) fn with_offline_access(&self, mut scopes: Vec<String>) -> Vec<String> {
        const OFFLINE: &str = "offline_access";
        let has = |scopes: &[String]| scopes.iter().any(|scope| scope == OFFLINE);
        let is_known = self.scopes_supported.as_deref().is_some_and(has);
        if is_known && !scopes.is_empty() && !has(&scopes) {
            scopes.push(OFFLINE.to_owned());
        }
        scopes
    }

    /// Returns how a client shows who it is, for which people agree to something.
    pub(super) fn client_auth(&self, has_secret: bool) -> ClientAuth {
        match has_secret {
            false => ClientAuth::None,
            true if self.takes("client_secret_post") && !self.takes("client_secret_basic") => {
                ClientAuth::ClientSecretPost
            }
            true => ClientAuth::ClientSecretBasic,
        }
    }

    /// Returns how a client shows who it is that has a right of its own.
    pub(super) fn own_right_auth(&self) -> Result<ClientAuth, String> {
        match &self.token_endpoint_auth_methods_supported {
            None => Ok(ClientAuth::ClientSecretPost),
            Some(_) if self.takes("client_secret_post") => Ok(ClientAuth::ClientSecretPost),
            Some(_) if self.takes("client_secret_basic") => Ok(ClientAuth::ClientSecretBasic),
            Some(named) => Err(format!(
                "its authorization server takes no `client_secret`, only {}",
                named.join(", ")
            )),
        }
    }

    fn takes(&self, method: &str) -> bool {
        let named = self.token_endpoint_auth_methods_supported.iter().flatten();
        named.into_iter().any(|name| name == method)
    }
}

/// Whether two names are of the same issuer: a root may be written with and without its slash.
fn is_same_issuer(named: &str, expected: &str) -> bool {
    let bare = |issuer: &str| match issuer.strip_suffix('/') {
        Some(bare) if Endpoint::exactly(bare).is_ok_and(|at| at.path() == "/") => bare.to_owned(),
        _ => issuer.to_owned(),
    };
    bare(named) == bare(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Endpoint {
        Endpoint::exactly(url).unwrap()
    }

    #[test]
    fn a_document_is_about_the_mounted_server_or_what_it_stands_below() {
        let mounted = at("https://a.example/mcp/v1?x=1");
        for resource in [
            "https://a.example/mcp/v1",
            "https://a.example/mcp",
            "https://a.example/mcp/",
            "https://a.example",
            "https://A.example:443/",
        ] {
            assert!(is_about(resource, &mounted), "{resource}");
        }
        for resource in [
            "https://a.example/mc",
            "https://a.example/mcp/v1/more",
            "https://a.example/mcp#x",
            "http://a.example/mcp",
            "https://b.example/mcp",
            "mcp",
        ] {
            assert!(!is_about(resource, &mounted), "{resource}");
        }
    }

    #[test]
    fn a_document_of_something_else_is_told_from_one_that_is_wrong() {
        let mounted = at("https://a.example/mcp");
        let read = |body: &str| ResourceMetadata::read(body.as_bytes(), &mounted);
        assert!(read("<html>").unwrap().is_none() && read(r#"{"a": 1}"#).unwrap().is_none());
        assert!(read(r#"{"authorization_servers": []}"#).is_err());
        assert!(read(r#"{"resource": "https://b.example"}"#).is_err());
        let found = read(
            r#"{"resource": "https://a.example", "authorization_server": "https://x ",
                "authorization_servers": ["https://x", "", "https://y"]}"#,
        );
        assert_eq!(found.unwrap().unwrap().servers(), ["https://x", "https://y"]);
    }

    #[test]
    fn documents_are_looked_for_where_the_standards_put_them() {
        let mounted = at("https://a.example/mcp/v1/");
        assert_eq!(
            resource_places(&mounted),
            [
                "/.well-known/oauth-protected-resource/mcp/v1",
                "/mcp/v1/.well-known/oauth-protected-resource",
                "/.well-known/oauth-protected-resource",
            ]
        );
        let places = |issuer| {
            let places = server_places(&at(issuer)).into_iter();
            places.map(|place| (place.path, place.issuer)).collect::<Vec<_>>()
        };
        let pair = |path: &str, issuer: &str| (path.to_owned(), issuer.to_owned());
        assert_eq!(
            places("https://a.example/"),
            [
                pair("/.well-known/oauth-authorization-server", "https://a.example"),
                pair("/.well-known/openid-configuration", "https://a.example"),
            ]
        );
        assert_eq!(
            places("https://a.example/t"),
            [
                pair("/.well-known/oauth-authorization-server/t", "https://a.example/t"),
                pair("/.well-known/openid-configuration/t", "https://a.example/t"),
                pair("/t/.well-known/openid-configuration", "https://a.example/t"),
                pair("/.well-known/oauth-authorization-server", "https://a.example"),
            ]
        );
    }

    // An authorization server that gives itself out for another one could get its codes.
    #[test]
    fn an_issuer_is_the_one_that_was_asked_for() {
        let body = |issuer: &str| format!(r#"{{"issuer": "{issuer}", "token_endpoint": "x"}}"#);
        let read = |named: &str, expected: &str| {
            AuthorizationServer::read(body(named).as_bytes(), expected).is_ok()
        };
        assert!(read("https://a.example", "https://a.example/"));
        assert!(read("https://a.example/t", "https://a.example/t"));
        assert!(!read("https://a.example/t/", "https://a.example/t"));
        assert!(!read("https://b.example", "https://a.example"));
        let unnamed = br#"{"token_endpoint": "x"}"#;
        assert!(AuthorizationServer::read(unnamed, "https://a.example").is_err());
        assert_eq!(AuthorizationServer::read(b"<html>", "https://a.example"), Ok(None));
    }

    fn server(more: &str) -> AuthorizationServer {
        let body = format!(
            r#"{{"authorization_endpoint": "https://a/x", "token_endpoint": "https://a/t",
                "issuer": "https://a"{more}}}"#
        );
        AuthorizationServer::read(body.as_bytes(), "https://a").unwrap().unwrap()
    }

    #[test]
    fn people_are_sent_only_where_their_codes_are_safe() {
        assert_eq!(server("").require_codes(), Ok(()));
        for lacking in [
            r#", "code_challenge_methods_supported": ["plain"]"#,
            r#", "response_types_supported": ["token"]"#,
        ] {
            assert!(server(lacking).require_codes().is_err(), "{lacking}");
        }
        let bare = AuthorizationServer { authorization_endpoint: String::new(), ..server("") };
        assert!(bare.require_codes().is_err());
    }

    #[test]
    fn a_client_shows_who_it_is_in_a_way_that_is_taken() {
        let taking = |methods: &str| {
            server(&format!(r#", "token_endpoint_auth_methods_supported": {methods}"#))
        };
        assert_eq!(server("").client_auth(true), ClientAuth::ClientSecretBasic);
        assert_eq!(server("").client_auth(false), ClientAuth::None);
        let post = taking(r#"["client_secret_post"]"#);
        assert_eq!(post.client_auth(true), ClientAuth::ClientSecretPost);
        let basic = taking(r#"["client_secret_basic"]"#);
        assert_eq!(basic.own_right_auth(), Ok(ClientAuth::ClientSecretBasic));
        assert_eq!(server("").own_right_auth(), Ok(ClientAuth::ClientSecretPost));
        assert!(taking(r#"["private_key_jwt"]"#).own_right_auth().is_err());
    }

    #[test]
    fn offline_access_is_asked_for_where_it_is_known() {
        let knowing = server(r#", "scopes_supported": ["read", "offline_access"]"#);
        let read = || vec!["read".to_owned()];
        assert_eq!(knowing.with_offline_access(read()), ["read", "offline_access"]);
        assert_eq!(server("").with_offline_access(read()), ["read"]);
        assert!(knowing.with_offline_access(Vec::new()).is_empty());
    }
}
