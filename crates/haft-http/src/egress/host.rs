//! Hosts as programs name them, and the rules that name hosts.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

/// The ports that a rule means which names none.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// A host: a name as DNS has it, or an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Host {
    /// In lower case, without a closing dot.
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads the host of a URL or of an authority. What a resolver would take for an address though
    /// it is not written as one (`127.1`, `0x7f.1`, `2130706433`) is no host.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::from(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let last = name.rsplit('.').next()?;
        let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = name.len() <= 253 && name.split('.').all(is_label) && !is_number;
        is_name.then_some(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// Names a host, or every name below one, and perhaps a port: `example.com`, `example.com:8443`,
/// `*.example.com`, `203.0.113.7`, `[2001:db8::1]:443`. Without a port it means 80 and 443.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct HostRule {
    host: Host,
    /// Whether the names below are meant, and not this one.
    below: bool,
    port: Option<u16>,
}

/// Why a text names no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a host such as `example.com`, `example.com:8443` or `*.example.com`, found {found:?}"
)]
pub struct HostRuleError {
    found: String,
}

impl HostRule {
    pub(crate) fn covers(&self, host: &Host, port: u16) -> bool {
        let is_port = match self.port {
            Some(own) => own == port,
            None => USUAL_PORTS.contains(&port),
        };
        is_port && self.is_about(host)
    }

    /// Whether it means a host, whatever the port.
    pub(crate) fn is_about(&self, host: &Host) -> bool {
        match (&self.host, host) {
            (Host::Name(own), Host::Name(name)) if self.below => {
                name.strip_suffix(own.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            (own, host) => own == host,
        }
    }

    /// Returns whether it means one host, at one port or at the usual ones.
    pub const fn is_one_host(&self) -> bool {
        !self.below
    }

    /// Returns the port that it names.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(text: &str) -> Result<Self, HostRuleError> {
        parse(text).ok_or_else(|| HostRuleError { found: text.chars().take(80).collect() })
    }
}

fn parse(text: &str) -> Option<HostRule> {
    let is_plain_v6 = text.starts_with('[') && text.ends_with(']');
    let (host, port) = match text.rsplit_once(':').filter(|_| !is_plain_v6) {
        Some((host, port)) => {
            let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse().ok().filter(|port| *port != 0 && is_number)?;
            (host, Some(port))
        }
        None => (text, None),
    };
    match host.strip_prefix("*.") {
        None => Some(HostRule { host: Host::parse(host)?, below: false, port }),
        Some(host) => match Host::parse(host)? {
            host @ Host::Name(_) => Some(HostRule { host, below: true, port }),
            Host::Address(_) => None,
        },
    }
}

impl TryFrom<String> for HostRule {
    type Error = HostRuleError;

    fn try_from(text: String) -> Result<Self, HostRuleError> {
        text.parse()
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.below { "*." } else { "" };
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            host => write!(f, "{below}{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resolver_would_take_for_an_address_is_no_name() {
        for bad in [
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "1.2.3",
            "",
            ".",
            "a..b",
            "a b",
            "é.x",
            "-a.b",
            "a-.b",
            "[::1",
            "::1",
            "a/b",
            "a@b",
            "127.0.0.1%00",
        ] {
            assert_eq!(Host::parse(bad), None, "{bad}");
        }
        let name = |text: &str| Host::parse(text).map(|host| host.to_string());
        assert_eq!(name("API.Example.com.").as_deref(), Some("api.example.com"));
        assert_eq!(name("[::ffff:127.0.0.1]").as_deref(), Some("127.0.0.1"));
        assert_eq!(name("localhost").as_deref(), Some("localhost"));
    }

    #[test]
    fn a_rule_means_its_host_and_ports_and_nothing_else() {
        let covers = |rule: &str, host: &str, port| {
            let rule: HostRule = rule.parse().unwrap();
            rule.covers(&Host::parse(host).unwrap(), port)
        };
        assert!(
            covers("example.com", "EXAMPLE.com", 443) && covers("example.com", "example.com", 80)
        );
        assert!(!covers("example.com", "example.com", 22));
        assert!(!covers("example.com", "a.example.com", 443));
        assert!(!covers("example.com", "badexample.com", 443));
        assert!(covers("*.example.com", "a.b.example.com", 443));
        assert!(!covers("*.example.com", "example.com", 443));
        assert!(!covers("*.example.com", "badexample.com", 443));
        assert!(covers("example.com:8443", "example.com", 8443));
        assert!(!covers("example.com:8443", "example.com", 443));
        assert!(covers("[2001:db8::1]:443", "[2001:db8::1]", 443));
        for bad in [
            "",
            "*",
            "*.",
            "https://x.example",
            "x.example/",
            "x.example:0",
            "x.example:http",
            "*.1.2.3.4",
            "x:+1",
        ] {
            assert!(bad.parse::<HostRule>().is_err(), "{bad}");
        }
        let shown = ["example.com", "*.example.com:8443", "[2001:db8::1]:443", "1.2.3.4"];
        assert!(shown.iter().all(|text| text.parse::<HostRule>().unwrap().to_string() == *text));
    }
}
