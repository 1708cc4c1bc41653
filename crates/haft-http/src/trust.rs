//! Whose certificates a client trusts.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Whose certificates are trusted. Reading them takes a while, so that clients share one.
#[derive(Debug, Clone)]
pub struct Trust(Arc<ClientConfig>);

/// Why TLS cannot be used here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the system trusts no certificate authority ({message}); install its CA certificates")]
pub struct NoRootsError {
    message: String,
}

/// Why a file of certificate authorities cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected certificates in PEM, found {found}")]
pub struct BadRootsError {
    found: String,
}

impl Trust {
    /// Trusts whom the system trusts.
    ///
    /// # Errors
    ///
    /// When it trusts nobody.
    pub fn of_the_system() -> Result<Self, NoRootsError> {
        Self::with_roots(&[])
    }

    /// Trusts whom the system trusted when this was first called in the process.
    ///
    /// # Errors
    ///
    /// When it trusted nobody.
    pub fn shared() -> &'static Result<Self, NoRootsError> {
        static SHARED: OnceLock<Result<Trust, NoRootsError>> = OnceLock::new();
        SHARED.get_or_init(Self::of_the_system)
    }

    /// Trusts whom the system trusts and these authorities, whose certificates are given in DER.
    ///
    /// # Errors
    ///
    /// When nobody is trusted, or one of these is no certificate.
    pub fn with_roots(more_roots: &[Vec<u8>]) -> Result<Self, NoRootsError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let no_roots = |message: String| NoRootsError { message };
        roots.add_parsable_certificates(found.certs);
        for der in more_roots {
            let added = roots.add(CertificateDer::from(der.clone()));
            added.map_err(|error| no_roots(format!("a certificate that was named: {error}")))?;
        }
        if roots.is_empty() {
            let why = found.errors.first().map(ToString::to_string);
            return Err(no_roots(why.unwrap_or_else(|| "none was found".to_owned())));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| no_roots(error.to_string()))?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }

    /// Trusts one certificate, given in DER, and no authority: for a server whose certificate is
    /// known beforehand. Neither its names nor its dates matter then.
    ///
    /// # Errors
    ///
    /// When TLS cannot be used at all.
    pub fn in_certificate(der: Vec<u8>) -> Result<Self, NoRootsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pinned = Pinned { certificate: der.into(), provider: Arc::clone(&provider) };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| NoRootsError { message: error.to_string() })?;
        let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned));
        Ok(Self(Arc::new(config.with_no_client_auth())))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

/// Reads the certificates of a PEM file, as DER.
///
/// # Errors
///
/// When there is none, or one cannot be read.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, BadRootsError> {
    let bad = |found: String| BadRootsError { found };
    let read = CertificateDer::pem_slice_iter(pem);
    let read: Result<Vec<Vec<u8>>, _> = read.map(|one| one.map(|der| der.to_vec())).collect();
    match read {
        Ok(none) if none.is_empty() => Err(bad("none".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(bad(error.to_string())),
    }
}

/// Takes one certificate and no other; whoever shows it must also hold its key.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match *shown == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
