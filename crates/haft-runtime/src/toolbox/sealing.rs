//! Secret arguments: recorded masked, kept encrypted, opened when the call runs.
//!
//! A call may wait for a week and run on another node, so what it needs must be in the store; a
//! copy of the store must not be enough to read it. Hence a key that lives outside.

use std::fmt;

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use haft_core::json::read_stored;
use haft_core::tool::Redaction;
use haft_core::{Actor, Arguments, Seal, SealId, SessionId};
use haft_store::{Expected, Place, Put, Store, Which};
use serde_json::{Map, Value, json};

use crate::clock::Clock;
use crate::fresh::fresh_bits;

const NONCE_LEN: usize = 24;

/// The key under which secret arguments are kept. Every node over one database needs the same.
#[derive(Clone)]
pub struct SealingKey([u8; 32]);

impl SealingKey {
    /// Takes 32 random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Decrypts a secret that was sealed under a name.
    ///
    /// # Errors
    ///
    /// When it was sealed under another name or another key.
    pub fn open_secret(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        decrypt_bytes(self, &secret_of(name), sealed)
    }

    /// Encrypts a secret that is kept under a name, and opens under no other one.
    ///
    /// # Errors
    ///
    /// When the system gives no random bytes.
    pub fn seal_secret(&self, name: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        encrypt_bytes(self, &secret_of(name), secret)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey")
    }
}

/// Why something secret was not sealed or not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no key.
    #[error("secret arguments need a store and a sealing key; the operator must give both")]
    NoKey,
    /// What was sealed is gone.
    #[error("the secret arguments of this call are gone from the store")]
    Gone,
    /// It does not open.
    #[error("what was sealed does not open; was the sealing key changed?")]
    WrongKey,
    /// It is not what was sealed.
    #[error("the arguments that were kept are not those that were permitted")]
    Changed,
    /// The store or the system has trouble.
    #[error("{message}")]
    Store {
        /// Which.
        message: String,
    },
}

/// Seals and opens secret arguments.
#[derive(Debug, Clone)]
pub(crate) struct Sealer {
    safe: Option<(Store, SealingKey)>,
    clock: Clock,
}

impl Sealer {
    pub(crate) fn new(store: Option<Store>, key: Option<SealingKey>, clock: Clock) -> Self {
        Self { safe: store.zip(key), clock }
    }

    /// Takes arguments into the form that is recorded.
    pub(crate) async fn seal(
        &self,
        session: SessionId,
        arguments: Map<String, Value>,
        redaction: &Redaction,
    ) -> Result<Arguments, SealError> {
        if redaction.secret.iter().all(|secret| secret.find(&arguments).is_none()) {
            return Ok(Arguments::plain(arguments));
        }
        let (store, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        let now = self.clock.now();
        let id = SealId::from_bits(fresh_bits(now).map_err(trouble)?);
        let mut salt = [0; 32];
        getrandom::fill(&mut salt).map_err(trouble)?;
        let sealed = Arguments::sealed(&arguments, redaction, Seal { id, salt });
        let body = encrypt(key, id, &json!({ "salt": salt, "arguments": arguments }))?;
        let place = place(store, session, id).await?;
        let put = Put { place, expected: Expected::Absent, body: Some(body) };
        store.put_versions(vec![put], &Actor::system(), now).await.map_err(trouble)?;
        Ok(sealed)
    }

    /// Encrypts what a tool keeps about a session.
    pub(crate) fn seal_note(&self, about: SessionId, note: &[u8]) -> Result<Vec<u8>, SealError> {
        let (_, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        encrypt_bytes(key, &note_of(about), note)
    }

    /// Encrypts a secret that is kept under a name, and opens under no other one.
    pub(crate) fn seal_secret(&self, name: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        let (_, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        key.seal_secret(name, secret)
    }

    /// Decrypts it.
    pub(crate) fn open_secret(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (_, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        key.open_secret(name, sealed)
    }

    /// Decrypts it.
    pub(crate) fn open_note(&self, about: SessionId, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (_, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        decrypt_bytes(key, &note_of(about), sealed)
    }

    /// Returns the arguments that run.
    pub(crate) async fn open(
        &self,
        session: SessionId,
        arguments: &Arguments,
        redaction: &Redaction,
    ) -> Result<Map<String, Value>, SealError> {
        let Some(id) = arguments.seal() else { return Ok(arguments.record().clone()) };
        let (store, key) = self.safe.as_ref().ok_or(SealError::NoKey)?;
        let place = place(store, session, id).await?;
        let version = store.version(&place, Which::Latest).await.map_err(trouble)?;
        let body = version.and_then(|version| version.body).ok_or(SealError::Gone)?;
        let (salt, opened) = decrypt(key, id, &body)?;
        let again = Arguments::sealed(&opened, redaction, Seal { id, salt });
        if again.digest() == arguments.digest() { Ok(opened) } else { Err(SealError::Changed) }
    }
}

fn encrypt(key: &SealingKey, id: SealId, content: &Value) -> Result<Vec<u8>, SealError> {
    encrypt_bytes(key, &id.to_string(), content.to_string().as_bytes())
}

fn encrypt_bytes(key: &SealingKey, bound_to: &str, content: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(trouble)?;
    let payload = Payload { msg: content, aad: bound_to.as_bytes() };
    let sealed = cipher(key).encrypt(&XNonce::from(nonce), payload).map_err(trouble)?;
    Ok([&nonce[..], &sealed].concat())
}

fn decrypt_bytes(key: &SealingKey, bound_to: &str, body: &[u8]) -> Result<Vec<u8>, SealError> {
    let (nonce, sealed) = body.split_first_chunk::<NONCE_LEN>().ok_or(SealError::WrongKey)?;
    let payload = Payload { msg: sealed, aad: bound_to.as_bytes() };
    cipher(key).decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::WrongKey)
}

/// What a note is bound to: never the id of sealed arguments.
fn note_of(session: SessionId) -> String {
    format!("note/{session}")
}

/// What a named secret is bound to: never a note, never the id of sealed arguments.
fn secret_of(name: &str) -> String {
    format!("secret/{name}")
}

fn decrypt(
    key: &SealingKey,
    id: SealId,
    body: &[u8],
) -> Result<([u8; 32], Map<String, Value>), SealError> {
    let text = decrypt_bytes(key, &id.to_string(), body)?;
    // It was checked before it was sealed; an error here must not quote it.
    let content = read_stored::<Map<String, Value>>(&text);
    let mut content = content.map_err(|_| SealError::WrongKey)?;
    let salt = content.remove("salt").and_then(|salt| serde_json::from_value(salt).ok());
    match (salt, content.remove("arguments")) {
        (Some(salt), Some(Value::Object(arguments))) => Ok((salt, arguments)),
        _ => Err(SealError::WrongKey),
    }
}

fn cipher(key: &SealingKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&key.0.into())
}

async fn place(store: &Store, session: SessionId, id: SealId) -> Result<Place, SealError> {
    let tenant = store.tenant(session).await.map_err(trouble)?.ok_or(SealError::Gone)?;
    Place::new(tenant, "seals", &id.to_string()).map_err(trouble)
}

fn trouble(error: impl fmt::Display) -> SealError {
    SealError::Store { message: error.to_string() }
}
