//! Where `haft serve` listens, and whether what is sent there is encrypted.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;

use super::finding::Finding;
use crate::api::ServerNote;
use crate::serve;

const NAME: &str = "listener";
const TLS: &str = "listener.tls";

/// Looks at the running server, else at what `haft serve` would be started with.
pub(super) fn examine(settings: Option<&serve::Args>, note: Option<&ServerNote>) -> Vec<Finding> {
    if let Some((note, address)) = note.and_then(|note| Some((note, note.listens_on?))) {
        return vec![listening(address, note.certificate.is_some())];
    }
    let Some(settings) = settings else { return Vec::new() };
    let is_encrypted = settings.tls.tls_cert.is_some() || settings.tls.tls_key.is_some();
    let mut findings = vec![listening(settings.listen, is_encrypted)];
    if is_encrypted {
        findings.push(certificate(settings));
    }
    findings
}

fn listening(address: SocketAddr, is_encrypted: bool) -> Finding {
    match (address.ip().is_loopback(), is_encrypted) {
        (_, true) => Finding::ok(NAME, format!("{address}, HTTPS")),
        (true, false) => Finding::ok(NAME, format!("{address}, HTTP, for this machine only")),
        (false, false) => Finding::warning(
            NAME,
            format!("{address} is open to other machines, and keys travel there unencrypted"),
            "serve HTTPS with --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy \
             that does",
        ),
    }
}

fn certificate(settings: &serve::Args) -> Finding {
    if let Err(trouble) = settings.tls.load() {
        let said = trouble.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let fix = "name a certificate with --tls-cert and its key with --tls-key";
        return Finding::problem(TLS, said, fix);
    }
    let key = settings.tls.tls_key.as_ref();
    let mode = key.and_then(|key| std::fs::metadata(key).ok()).map(|it| it.permissions().mode());
    match (key, mode.map(|mode| mode & 0o007)) {
        (Some(key), Some(1..)) => Finding::warning(
            TLS,
            format!("other users of this machine may read the private key `{}`", key.display()),
            format!("`chmod o= {}`", key.display()),
        ),
        _ => Finding::ok(TLS, "the certificate and its key belong together"),
    }
}
