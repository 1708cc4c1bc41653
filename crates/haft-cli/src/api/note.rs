//! Where the server of a data directory is: a note that `haft serve` leaves there for the other
//! commands of its operator, with a key that is good for as long as that server runs. Whoever can
//! read it can read the store beside it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const NAME: &str = "server.json";

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerNote {
    pub(crate) address: String,
    pub(crate) key: String,
    pid: u32,
    /// Where the server listens; `address` is where it is found from this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) listens_on: Option<SocketAddr>,
    /// The certificate that a server of HTTPS shows, in PEM: the only one that is trusted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
}

/// A note that is there until this is dropped; after a kill it stays, and leads nowhere.
#[derive(Debug)]
pub(crate) struct Left(PathBuf);

impl ServerNote {
    pub(crate) fn new(listens_on: SocketAddr, key: String, certificate: Option<String>) -> Self {
        // Who listens on every address is found on the loopback one.
        let host = match listens_on.ip() {
            ip if !ip.is_unspecified() => ip,
            std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", SocketAddr::new(host, listens_on.port()));
        let (pid, listens_on) = (std::process::id(), Some(listens_on));
        Self { address, key, pid, listens_on, certificate }
    }

    /// The same server with another certificate.
    pub(crate) fn renewed(&self, certificate: String) -> Self {
        Self { certificate: Some(certificate), ..self.clone() }
    }

    /// Whether it leads to a server on the loopback address.
    pub(super) fn is_on_this_machine(&self) -> bool {
        let address = self.address.strip_prefix("http://");
        let address = address.or_else(|| self.address.strip_prefix("https://"));
        let address = address.and_then(|address| address.parse::<SocketAddr>().ok());
        address.is_some_and(|address| address.ip().is_loopback())
    }

    /// Leaves the note until what is returned is dropped.
    pub(crate) fn leave(&self, data: &Path) -> io::Result<Left> {
        Ok(Left(self.write(data)?))
    }

    /// Writes the note, readable for this user alone, whole or not at all.
    pub(crate) fn write(&self, data: &Path) -> io::Result<PathBuf> {
        let (path, beside) = (data.join(NAME), data.join(format!("{NAME}.{}", self.pid)));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&beside, &path)?;
        Ok(path)
    }

    /// The process that left it.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// Finds a note; what cannot be read is none.
    pub(crate) fn find(data: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(data.join(NAME)).ok()?).ok()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // A note that stays leads nowhere, which whoever follows it finds out.
        drop(fs::remove_file(&self.0));
    }
}
