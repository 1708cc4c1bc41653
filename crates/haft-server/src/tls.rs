//! TLS for the server's own listener: the certificate, its key, and how both are replaced while
//! the server runs.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// How many characters a line of a PEM file has.
const PEM_LINE: usize = 64;

/// The PEM files of a certificate and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// The private key of the certificate, not encrypted: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// A certificate in use. Clones share it, so that [`Tls::reload`] replaces it for all of them.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// Why a certificate and its key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file is missing, is not readable, or holds something else.
    #[error("`{}`: expected {expected}, found {found}", path.display())]
    File {
        /// The file that was read.
        path: PathBuf,
        /// What it must hold.
        expected: &'static str,
        /// What is there instead.
        found: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "the private key in `{}` does not belong to the first certificate in `{}`",
        files.key.display(), files.certificate.display()
    )]
    Mismatch {
        /// The files of the certificate and of the key.
        files: TlsFiles,
    },
    /// The TLS library refuses the pair.
    #[error("{0}")]
    Unusable(String),
}

impl Tls {
    /// Reads the files and checks that the key belongs to the certificate.
    ///
    /// # Errors
    ///
    /// When a file cannot be used, or the two do not belong together.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = read_pair(&files, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(pair))));
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::<Current>::clone(&current);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { files, current, config: Arc::new(config) })
    }

    /// Reads the files again. New connections are shown the new certificate; if it cannot be used,
    /// the one before stays.
    ///
    /// # Errors
    ///
    /// As for [`Tls::load`].
    pub fn reload(&self) -> Result<(), TlsError> {
        let pair = read_pair(&self.files, self.config.crypto_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
        Ok(())
    }

    /// Returns the server's own certificate, without the intermediate ones, that new connections
    /// are shown, in PEM.
    pub fn certificate(&self) -> String {
        let pair = self.current.pair();
        let der = pair.cert.first().map(|certificate| certificate.as_ref()).unwrap_or_default();
        let text = STANDARD.encode(der);
        let lines: String = text
            .as_bytes()
            .chunks(PEM_LINE)
            .map(|line| format!("{}\n", String::from_utf8_lossy(line)))
            .collect();
        format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
    }

    /// Returns the files that the certificate is read from.
    pub const fn files(&self) -> &TlsFiles {
        &self.files
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// The key stays out of whatever is printed.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The pair that new connections are shown.
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn pair(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair())
    }
}

fn read_pair(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = read_chain(&files.certificate)?;
    let key = read_key(&files.key)?;
    let unusable = |path: &Path, expected, error: rustls::Error| TlsError::File {
        path: path.to_owned(),
        expected,
        found: error.to_string(),
    };
    let signing = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| unusable(&files.key, "an RSA, ECDSA or Ed25519 key", error))?;
    let pair = CertifiedKey::new(chain, signing);
    match pair.keys_match() {
        Ok(()) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::Mismatch { files: files.clone() })
        }
        Err(error) => Err(unusable(&files.certificate, "an X.509 certificate", error)),
    }
}

const CERTIFICATE: &str = "a PEM file that begins with the server's certificate";
const KEY: &str = "a PEM file with a private key that is not encrypted";

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let file =
        |found: String| TlsError::File { path: path.to_owned(), expected: CERTIFICATE, found };
    let text = fs::read(path).map_err(|error| file(missing(&error)))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = read.map_err(|error| file(error.to_string()))?;
    match chain.is_empty() {
        true => Err(file(described(&text))),
        false => Ok(chain),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let file = |found: String| TlsError::File { path: path.to_owned(), expected: KEY, found };
    let text = fs::read(path).map_err(|error| file(missing(&error)))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| file(described(&text)))
}

fn missing(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => error.to_string(),
    }
}

/// Says what kinds of PEM sections a file has, never what is in them.
fn described(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let kinds = text.lines().filter_map(|line| {
        let kind = line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
        Some(format!("`{kind}`"))
    });
    let kinds: Vec<String> = kinds.collect();
    match kinds.is_empty() {
        true => "a file without any PEM section".to_owned(),
        false => kinds.join(", "),
    }
}
