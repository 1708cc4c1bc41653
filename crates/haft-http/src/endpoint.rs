//! Where requests go.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;
use hyper::header::HeaderValue;

/// Where requests go: an origin, a path and a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    /// As it stands in the `Host` header.
    authority: HeaderValue,
    /// The path, with the query if there is one.
    path: String,
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// As it is.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Why a base URL cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a URL as `https://HOST[:PORT][/PATH]` or with `http://`, found {found:?}")]
pub struct BaseUrlError {
    found: String,
}

impl Endpoint {
    /// Reads a base URL and what stands below it for every request.
    ///
    /// # Errors
    ///
    /// When the base is no URL of a host, or holds more than host and path.
    pub fn new(base_url: &str, path: &str) -> Result<Self, BaseUrlError> {
        let error = || BaseUrlError { found: without_userinfo(base_url) };
        let mut endpoint = Self::exactly(base_url)?;
        if endpoint.path.contains('?') {
            return Err(error());
        }
        endpoint.path = format!("{}{path}", endpoint.path.trim_end_matches('/'));
        Ok(endpoint)
    }

    /// Takes a URL as it is, its query included.
    ///
    /// # Errors
    ///
    /// When it is none of HTTP, or holds a name and a password.
    pub fn exactly(url: &str) -> Result<Self, BaseUrlError> {
        let error = || BaseUrlError { found: without_userinfo(url) };
        let uri: Uri = url.parse().map_err(|_| error())?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) | None => return Err(error()),
        };
        let authority = uri.authority().ok_or_else(error)?;
        if authority.as_str().contains('@') {
            return Err(error());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(match scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        });
        let authority = HeaderValue::from_str(authority.as_str()).map_err(|_| error())?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { scheme, host, port, authority, path })
    }

    /// Resolves a reference that stands in an answer from here, such as a `Location`: a URL, or a
    /// path on the same origin.
    ///
    /// # Errors
    ///
    /// When it leads to no URL that requests can go to.
    pub fn join(&self, reference: &str) -> Result<Self, BaseUrlError> {
        if reference.contains("://") {
            return Self::exactly(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::exactly(&format!("{}://{rest}", self.scheme.name()));
        }
        let path = match reference.chars().next() {
            Some('/') => reference.to_owned(),
            Some('?') => format!("{}{reference}", self.path()),
            _ => {
                let folder = self.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                format!("{folder}/{reference}")
            }
        };
        Self::exactly(&format!("{}{path}", self.origin()))
    }

    /// Returns another place on the same origin, without a query.
    ///
    /// # Errors
    ///
    /// When the path cannot be part of a URL.
    pub fn with_path(&self, path: &str) -> Result<Self, BaseUrlError> {
        Self::exactly(&format!("{}{path}", self.origin()))
    }

    /// Returns how it is reached.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the name or the address of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which may be the scheme's usual one.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host, if it is an address and not a name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns whether the host is this machine by its address or by the name `localhost`.
    pub fn is_loopback(&self) -> bool {
        let name = self.host.trim_end_matches('.').to_ascii_lowercase();
        let is_name = name == "localhost" || name.ends_with(".localhost");
        is_name || self.address().is_some_and(|address| address.to_canonical().is_loopback())
    }

    /// Returns scheme, host and port, as in `https://example.com:8443`.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.name(), self.authority.to_str().unwrap_or_default())
    }

    /// Returns whether another place has the same scheme, host and port.
    pub fn is_same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.port == other.port
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Returns the path without the query.
    pub fn path(&self) -> &str {
        self.path.split_once('?').map_or(self.path.as_str(), |(path, _)| path)
    }

    /// Returns the path with the query, as a request has it.
    pub(crate) fn target(&self) -> &str {
        &self.path
    }

    pub(crate) const fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

fn without_userinfo(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_keeps_its_path_and_says_where_to_connect() {
        let endpoint = Endpoint::new("http://localhost:8080/v1/", "/chat/completions").unwrap();
        assert_eq!((endpoint.host(), endpoint.port()), ("localhost", 8080));
        assert_eq!(endpoint.target(), "/v1/chat/completions");
        let endpoint = Endpoint::new("https://[::1]", "/v1/messages").unwrap();
        assert_eq!((endpoint.host(), endpoint.port()), ("::1", 443));
        assert_eq!((endpoint.target(), endpoint.scheme()), ("/v1/messages", Scheme::Https));
    }

    #[test]
    fn a_base_url_that_would_send_a_key_astray_is_refused_without_repeating_it() {
        for bad in ["", "localhost", "ftp://x", "http://user:hush@x/v1", "https://x/v1?key=1"] {
            let error = Endpoint::new(bad, "/x").unwrap_err().to_string();
            assert!(error.contains("https://HOST") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_reference_is_resolved_against_where_it_was_read() {
        let from = Endpoint::exactly("https://a.example:8443/one/two?x=1").unwrap();
        let joined = |reference| from.join(reference).map(|to| to.to_string());
        assert_eq!(joined("/three").unwrap(), "https://a.example:8443/three");
        assert_eq!(joined("three?y=2").unwrap(), "https://a.example:8443/one/three?y=2");
        assert_eq!(joined("?y=2").unwrap(), "https://a.example:8443/one/two?y=2");
        assert_eq!(joined("//b.example/x").unwrap(), "https://b.example/x");
        assert_eq!(joined("http://b.example").unwrap(), "http://b.example/");
        assert!(joined("ftp://b.example").is_err() && joined("http://u:p@b.example").is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let of = |url| Endpoint::exactly(url).unwrap();
        let here = of("https://A.example/x");
        assert!(here.is_same_origin(&of("https://a.example:443/y?z")));
        assert!(!here.is_same_origin(&of("http://a.example/x")));
        assert!(!here.is_same_origin(&of("https://a.example:8443/x")));
        for url in
            ["http://localhost", "http://x.localhost./", "http://[::1]:1", "http://127.1.2.3"]
        {
            assert!(of(url).is_loopback(), "{url}");
        }
        assert!(!of("http://localhost.example").is_loopback());
    }
}
