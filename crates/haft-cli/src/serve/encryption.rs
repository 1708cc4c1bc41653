//! HTTPS for `haft serve`: the certificate's files, and their renewal while the server runs.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_server::{Tls, TlsFiles};

use crate::trouble::{Code, Trouble};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TlsArgs {
    /// Serves HTTPS with this certificate: a PEM file with the server's certificate and the
    /// intermediate ones. It is read again when it changes.
    #[arg(long, value_name = "FILE", env = "HAFT_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file that is not encrypted.
    #[arg(long, value_name = "FILE", env = "HAFT_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// A certificate in use and the state of its files when it was read.
pub(crate) struct Encryption {
    pub(crate) tls: Tls,
    seen: [Option<Stamp>; 2],
}

/// What tells one state of a file from another.
type Stamp = (u64, u64, i64, i64, i64, i64);

impl TlsArgs {
    /// Reads the certificate and its key, if they are named.
    pub(crate) fn load(&self) -> Result<Option<Encryption>, Trouble> {
        let files = match (&self.tls_cert, &self.tls_key) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(one_alone("--tls-cert", "--tls-key")),
            (None, Some(_)) => return Err(one_alone("--tls-key", "--tls-cert")),
            (Some(certificate), Some(key)) => {
                TlsFiles { certificate: certificate.clone(), key: key.clone() }
            }
        };
        let seen = stamps(&files);
        let tls = Tls::load(files).map_err(|error| {
            Trouble::new(Code::BadConfig, "HTTPS cannot be served with this certificate")
                .why(error)
                .next(
                    "name the certificate's PEM file with --tls-cert (certbot: `fullchain.pem`) \
                     and its key's with --tls-key (certbot: `privkey.pem`)",
                )
        })?;
        Ok(Some(Encryption { tls, seen }))
    }
}

fn one_alone(given: &str, lacking: &str) -> Trouble {
    Trouble::new(Code::BadConfig, format!("{given} is given without {lacking}"))
        .why("HTTPS needs both a certificate and its private key")
        .next(format!("name the other file with {lacking}, or leave out {given} to serve HTTP"))
}

impl Encryption {
    /// Reads the certificate again whenever a file changes, and tells `renewed`. One that cannot
    /// be used is logged, and the one before stays.
    pub(crate) async fn follow(mut self, renewed: impl Fn(&Tls)) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = stamps(self.tls.files());
            if now == self.seen {
                continue;
            }
            self.seen = now;
            match self.tls.reload() {
                Ok(()) => {
                    tracing::info!("the certificate has changed: new connections are shown it");
                    renewed(&self.tls);
                }
                Err(error) => tracing::error!(
                    %error,
                    "the certificate has changed and cannot be used: the one before stays"
                ),
            }
        }
    }
}

fn stamps(files: &TlsFiles) -> [Option<Stamp>; 2] {
    [stamp(&files.certificate), stamp(&files.key)]
}

/// A link that leads to another file than before counts as changed, as certbot renews. So does a
/// file whose owner or permissions changed: it may be readable now.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    let (modified, changed) =
        ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    Some((found.ino(), found.size(), modified.0, modified.1, changed.0, changed.1))
}
