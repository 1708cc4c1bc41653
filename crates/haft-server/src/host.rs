//! The names that requests come for (`Host`) and the pages that they come from (`Origin`), read
//! strictly: what is not exactly a name with an optional port is nothing at all.

use std::fmt;
use std::net::Ipv6Addr;

use axum::http::header::HeaderName;
use axum::http::{HeaderMap, Uri};

/// A host and, if it is said, its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    /// In lower case, without brackets.
    name: String,
    port: Option<u16>,
}

/// A page's site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    scheme: Scheme,
    authority: Authority,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Authority {
    /// Reads `name`, `name:port`, `[address]` or `[address]:port`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, rest) = match text.strip_prefix('[') {
            Some(rest) => {
                let (inside, rest) = rest.split_once(']')?;
                (inside.parse::<Ipv6Addr>().ok()?.to_string(), rest)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                let (name, rest) = text.split_at(end);
                (host_name(name)?, rest)
            }
        };
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Self { name, port })
    }

    /// Reads a name as an operator configures it, where an IPv6 address needs no brackets.
    pub(crate) fn configured(text: &str) -> Option<Self> {
        match text.parse::<Ipv6Addr>() {
            Ok(address) => Some(Self { name: address.to_string(), port: None }),
            Err(_) => Self::parse(text),
        }
    }

    /// Whether it is a name of this machine for itself.
    pub(crate) fn is_local(&self) -> bool {
        ["localhost", "127.0.0.1", "::1"].contains(&self.name.as_str())
    }

    /// Whether it is a host that the operator named: with a port, that one; without, any.
    pub(crate) fn is(&self, known: &Self) -> bool {
        self.name == known.name && known.port.is_none_or(|port| self.port == Some(port))
    }

    /// The host that a request came for: said once, or not at all.
    pub(crate) fn of_request(headers: &HeaderMap, uri: &Uri) -> Result<Option<Self>, Unreadable> {
        let named = only(headers, &axum::http::header::HOST)?;
        let parsed = |text: &str| Self::parse(text).ok_or_else(|| Unreadable(text.to_owned()));
        let from_header = named.map(parsed).transpose()?;
        let from_uri = uri.authority().map(|found| parsed(found.as_str())).transpose()?;
        match (from_header, from_uri) {
            (Some(header), Some(uri)) if header != uri => Err(Unreadable("two hosts".to_owned())),
            (header, uri) => Ok(header.or(uri)),
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => f.write_str(&self.name)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted() { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl Site {
    /// Reads `http://name` or `https://name`, with an optional port.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        Some(Self { scheme, authority: Authority::parse(rest)? })
    }

    /// The site whose page sent a request, if a page did.
    pub(crate) fn of_request(headers: &HeaderMap) -> Result<Option<Self>, Unreadable> {
        let named = only(headers, &axum::http::header::ORIGIN)?;
        let parsed = |text: &str| Self::parse(text).ok_or_else(|| Unreadable(text.to_owned()));
        named.map(parsed).transpose()
    }

    /// Whether a page of a host is of this site.
    pub(crate) fn is_of(&self, host: &Authority) -> bool {
        let usual = match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        let port = |authority: &Authority| authority.port.unwrap_or(usual);
        self.authority.name == host.name && port(&self.authority) == port(host)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }
}

/// What a header says that is neither a host nor a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable(pub(crate) String);

/// Returns the value of a header that stands at most once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Unreadable> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Unreadable(format!("several `{name}` headers")));
    }
    match first.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Unreadable("bytes that are no text".to_owned())),
    }
}

/// A DNS name or an IPv4 address; names of containers may have `_`.
fn host_name(text: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_name = !name.is_empty() && name.len() <= 253 && name.bytes().all(is_plain);
    is_name.then(|| name.to_ascii_lowercase())
}

fn port(digits: &str) -> Option<u16> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<u16>)> {
        Authority::parse(text).map(|found| (found.name, found.port))
    }

    #[test]
    fn a_host_is_a_name_and_a_port_and_nothing_else() {
        assert_eq!(read("LocalHost:7800"), Some(("localhost".to_owned(), Some(7800))));
        assert_eq!(read("[::1]"), Some(("::1".to_owned(), None)));
        assert_eq!(read("[0:0::1]:80"), Some(("::1".to_owned(), Some(80))));
        assert_eq!(read("my_service.internal."), Some(("my_service.internal".to_owned(), None)));
        let nothing = [
            "",
            ":80",
            "[::1].evil.example",
            "[::1]evil",
            "[::1",
            "::1",
            "localhost:evil.example",
            "localhost:",
            "localhost:80:80",
            "localhost:+80",
            "localhost:99999",
            "127.0.0.1:x@evil.example",
            "user@localhost",
            "localhost/x",
            "local host",
            "[evil]",
            "localhost\t",
            "ex\u{e4}mple",
        ];
        for text in nothing {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_site_is_of_a_host_by_name_and_port() {
        let host = |text| Authority::parse(text).unwrap();
        let site = |text| Site::parse(text).unwrap();
        assert!(site("http://localhost:7800").is_of(&host("localhost:7800")));
        assert!(site("https://haft.example").is_of(&host("haft.example:443")));
        assert!(!site("http://localhost:80").is_of(&host("localhost:7800")));
        assert!(!site("http://localhost").is_of(&host("localhost:7800")));
        for text in ["null", "file://", "http://localhost:7800@evil.example", "http://a/b", "a"] {
            assert_eq!(Site::parse(text), None, "{text}");
        }
    }
}
