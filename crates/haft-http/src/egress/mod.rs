//! The proxy through which sandboxes reach a network: it decides which hosts, and connects to the
//! address that it has checked.
//!
//! A sandbox has a network of its own with no way out; this proxy listens in there, and runs
//! outside. It takes `CONNECT host:port` for TLS and everything else, and requests with a whole
//! `http://` URL. A name is resolved once, every address that it leads to is looked at, and the
//! connection goes to one of those: nothing resolves the name again. Addresses that are not of the
//! public internet are never reached, except those to which the operator has pinned a name.
//!
//! Where a host has a credential, a request for `http://HOST/` is sent on over TLS with the
//! credential in a header. So a program in the sandbox uses it without ever having it.

mod forward;
mod host;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::address::{AddressKind, is_public};
use host::Host;
pub use host::{HostRule, HostRuleError};

/// How many connections of one sandbox are served at once; the others wait.
const CONNECTIONS_MAX: usize = 64;
/// How long finding and reaching a host may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long to wait after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What the operator says about the network of sandboxes: `[egress]` in `haft.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressSettings {
    /// Whether environments may be given the host's own network.
    pub host_network: bool,
    /// Hosts that no sandbox reaches.
    pub deny: Vec<HostRule>,
    /// The hosts that an environment with `allow_package_managers` reaches.
    pub package_hosts: Vec<HostRule>,
    /// Hosts with the addresses that they stand for, which may be private.
    pub resolve: BTreeMap<HostRule, IpAddr>,
    /// Hosts with what lets requests in there: `http://HOST/` is sent on over TLS, with this header.
    pub credentials: BTreeMap<HostRule, HostCredential>,
}

/// The header that lets requests in at a host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCredential {
    /// Its name.
    pub header: String,
    /// Its value, with a reference to a vault's secret: `Bearer vault://VAULT/CREDENTIAL`.
    pub value: String,
}

impl EgressSettings {
    /// Checks what its members say together.
    ///
    /// # Errors
    ///
    /// Names the member that cannot be meant.
    pub fn check(&self) -> Result<(), String> {
        for (rule, address) in &self.resolve {
            if !rule.is_one_host() {
                return Err(format!("resolve: `{rule}` names no single host"));
            }
            if AddressKind::of(*address) == AddressKind::Loopback && rule.port().is_none() {
                return Err(format!(
                    "resolve: `{rule}` at {address} needs a port, or everything on this machine \
                     would be within reach, Haft included"
                ));
            }
        }
        for (rule, credential) in &self.credentials {
            if !rule.is_one_host() || rule.port().is_some() {
                return Err(format!("credentials: `{rule}` is not one host without a port"));
            }
            let header = &credential.header;
            HeaderName::try_from(header.as_str())
                .map_err(|_| format!("credentials: {header:?} cannot be the name of a header"))?;
        }
        Ok(())
    }
}

/// Which hosts a sandbox reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowance {
    /// All of the public internet.
    Public,
    /// Only these.
    Only(Vec<HostRule>),
}

/// The header that lets a request in at a host.
pub type Credential = (HeaderName, HeaderValue);

/// Knows the credentials of hosts; sandboxes never see them.
pub trait Credentials: Send + Sync + 'static {
    /// Returns the credential for a host, if it has one.
    ///
    /// # Errors
    ///
    /// Says why the credential that it has cannot be used; the request is then refused.
    fn of<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<Credential>, String>> + Send + 'a>>;
}

/// What one sandbox may reach.
#[derive(Clone)]
pub struct Egress {
    allowance: Allowance,
    settings: Arc<EgressSettings>,
    credentials: Option<Arc<dyn Credentials>>,
    roots: Arc<[Vec<u8>]>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("allowance", &self.allowance).finish_non_exhaustive()
    }
}

/// A proxy at work; it and its connections end when this is dropped.
#[derive(Debug)]
pub struct ServingEgress {
    _stop: watch::Sender<()>,
}

/// Why a host is not reached, in words for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum EgressError {
    #[error("{0:?} is not a host")]
    NoHost(String),
    #[error("`{host}` at port {port} is not among the hosts that this environment allows")]
    NotAllowed { host: String, port: u16 },
    #[error("the operator lets no sandbox reach `{0}`")]
    Denied(String),
    #[error(
        "`{host}` is at {address}, which is this machine or not an address of the public internet"
    )]
    NotPublic { host: String, address: IpAddr },
    #[error("`{host}` cannot be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("the credential for `{host}` cannot be used: {why}")]
    Credential { host: String, why: String },
}

impl Egress {
    /// A proxy that allows these hosts, as far as the operator does.
    pub fn new(allowance: Allowance, settings: Arc<EgressSettings>) -> Self {
        Self { allowance, settings, credentials: None, roots: Arc::default() }
    }

    /// Adds credentials to requests that need them.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Arc<dyn Credentials>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Trusts these authorities beside the system's, given in DER, where it speaks TLS itself.
    #[must_use]
    pub fn with_roots(mut self, roots: Vec<Vec<u8>>) -> Self {
        self.roots = roots.into();
        self
    }

    /// Begins to serve whoever connects to a socket.
    ///
    /// # Errors
    ///
    /// When the socket cannot be served.
    pub fn serve(
        self,
        runtime: &Handle,
        listener: std::net::TcpListener,
    ) -> io::Result<ServingEgress> {
        listener.set_nonblocking(true)?;
        let _inside = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        let (stop, stopped) = watch::channel(());
        runtime.spawn(Arc::new(self).accept(listener, stopped));
        Ok(ServingEgress { _stop: stop })
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, stopped: watch::Receiver<()>) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut over = stopped.clone();
        let accepting = async {
            loop {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let egress = Arc::clone(&self);
                        let stopped = stopped.clone();
                        let visit = forward::Visit { egress, stopped, place: Arc::new(place) };
                        tokio::spawn(visit.serve(stream));
                    }
                    // Too many open files, say: that passes.
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            // Nothing is ever sent: it ends when nobody can send.
            _ = over.changed() => {}
        }
    }

    /// Connects to a host, if that is allowed.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, EgressError> {
        let host = Host::parse(host).ok_or_else(|| EgressError::NoHost(host.to_owned()))?;
        self.require_allowed(&host, port)?;
        let unreachable = |why: String| EgressError::Unreachable { host: host.to_string(), why };
        let connecting = async {
            let addresses = self.addresses(&host, port).await?;
            let stream = TcpStream::connect(&addresses[..]).await;
            let stream = stream.map_err(|error| unreachable(error.to_string()))?;
            stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
            Ok(stream)
        };
        let late = |_| unreachable(format!("no connection within {} s", CONNECT_LIMIT.as_secs()));
        timeout(CONNECT_LIMIT, connecting).await.map_err(late)?
    }

    fn require_allowed(&self, host: &Host, port: u16) -> Result<(), EgressError> {
        if self.settings.deny.iter().any(|rule| rule.is_about(host)) {
            return Err(EgressError::Denied(host.to_string()));
        }
        match &self.allowance {
            Allowance::Public => Ok(()),
            Allowance::Only(rules) if rules.iter().any(|rule| rule.covers(host, port)) => Ok(()),
            Allowance::Only(_) => Err(EgressError::NotAllowed { host: host.to_string(), port }),
        }
    }

    /// Refuses an address that nobody reaches, whatever name led to it.
    fn require_undenied(&self, address: IpAddr) -> Result<(), EgressError> {
        let host = Host::Address(address.to_canonical());
        match self.settings.deny.iter().any(|rule| rule.is_about(&host)) {
            true => Err(EgressError::Denied(host.to_string())),
            false => Ok(()),
        }
    }

    /// The addresses of a host, all of which may be reached.
    async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        let pinned = self.settings.resolve.iter().find(|(rule, _)| match rule.port() {
            Some(_) => rule.covers(host, port),
            None => rule.is_about(host),
        });
        if let Some((_, address)) = pinned {
            self.require_undenied(*address)?;
            return Ok(vec![SocketAddr::new(*address, port)]);
        }
        let addresses: Vec<SocketAddr> = match host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => {
                let found = lookup_host((name.as_str(), port)).await;
                let unknown = |error: io::Error| EgressError::Unreachable {
                    host: name.clone(),
                    why: error.to_string(),
                };
                found.map_err(unknown)?.collect()
            }
        };
        addresses.iter().try_for_each(|address| self.require_undenied(address.ip()))?;
        let is_inside = |address: &&SocketAddr| !is_public(address.ip()) || is_own(**address);
        match addresses.iter().find(is_inside) {
            Some(inside) => {
                let (host, address) = (host.to_string(), inside.ip());
                Err(EgressError::NotPublic { host, address })
            }
            None => Ok(addresses),
        }
    }

    async fn credential(&self, host: &str) -> Result<Option<Credential>, EgressError> {
        let Some(credentials) = &self.credentials else { return Ok(None) };
        let found = credentials.of(host).await;
        found.map_err(|why| EgressError::Credential { host: host.to_owned(), why })
    }
}

/// Whether an address is one of this machine's own: then packets would leave from where they go to.
/// Nothing is sent to find out.
fn is_own(address: SocketAddr) -> bool {
    let from: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let routed = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    // What has no route is not reached either.
    routed.is_ok_and(|local| local.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        assert!(!is_own("192.0.2.1:80".parse().unwrap()));
    }
}
