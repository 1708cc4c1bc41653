//! Leases: the names under which workers hold jobs.
//!
//! A lease says which attempt of which call it is for, and carries a code that only this server's
//! store can make. So any node, also after a restart, knows what a late report is about, and
//! nobody can report on a job that they were not given.

use std::fmt;
use std::str::FromStr as _;

use haft_core::{Actor, CallId, Digest, SessionId, Timestamp};
use haft_store::{Expected, Place, Put, PutError, Store, Tenant, Which};
use tokio::sync::OnceCell;

use super::job::JobKind;
use crate::error::Error;

const TENANT: &str = "haft:server";
const SPACE: &str = "workers";
const KEY: &str = "lease-secret";

/// What a lease is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaseTerms {
    pub(super) kind: JobKind,
    pub(super) session: SessionId,
    pub(super) call: CallId,
    pub(super) attempt: u32,
    /// Tells it from every other lease of the same attempt.
    pub(super) nonce: String,
}

impl fmt::Display for LeaseTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, session, call, attempt, nonce } = self;
        write!(f, "{}.{session}.{call}.{attempt}.{nonce}", kind.word())
    }
}

impl LeaseTerms {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let kind = JobKind::of_word(parts.next()?)?;
        let session = SessionId::from_str(parts.next()?).ok()?;
        let call = CallId::from_str(parts.next()?).ok()?;
        let attempt = parts.next()?.parse().ok()?;
        let nonce = parts.next()?.to_owned();
        parts.next().is_none().then_some(Self { kind, session, call, attempt, nonce })
    }
}

/// Makes leases and recognises them.
pub(super) struct LeaseMint {
    store: Store,
    secret: OnceCell<Vec<u8>>,
}

impl LeaseMint {
    pub(super) fn new(store: Store) -> Self {
        Self { store, secret: OnceCell::new() }
    }

    /// Writes a lease down for the worker that holds it.
    pub(super) async fn token(&self, terms: &LeaseTerms) -> Result<String, Error> {
        let text = terms.to_string();
        let code = code(self.secret().await?, &text);
        Ok(format!("{text}.{code}"))
    }

    /// Reads a lease; nothing if this server never gave it.
    pub(super) async fn read(&self, token: &str) -> Result<Option<LeaseTerms>, Error> {
        let Some((text, shown)) = token.rsplit_once('.') else { return Ok(None) };
        let known = code(self.secret().await?, text);
        let differing = known.bytes().zip(shown.bytes()).fold(0u8, |sum, (a, b)| sum | (a ^ b));
        let is_ours = known.len() == shown.len() && std::hint::black_box(differing) == 0;
        Ok(if is_ours { LeaseTerms::read(text) } else { None })
    }

    /// The secret of the store, which the first node that needs it makes.
    async fn secret(&self) -> Result<&[u8], Error> {
        let secret = self.secret.get_or_try_init(|| async {
            let tenant = Tenant::new(TENANT).map_err(Error::internal)?;
            let place = Place::new(tenant, SPACE, KEY).map_err(Error::internal)?;
            loop {
                let found = self.store.version(&place, Which::Latest).await?;
                if let Some(secret) = found.and_then(|found| found.body) {
                    return Ok::<_, Error>(secret);
                }
                let mut fresh = vec![0; 32];
                getrandom::fill(&mut fresh).map_err(Error::internal)?;
                let (expected, body) = (Expected::Absent, Some(fresh));
                let put = Put { place: place.clone(), expected, body };
                let now = Timestamp::from_ms(0);
                match self.store.put_versions(vec![put], &Actor::system(), now).await {
                    // Another node was first: its secret is the one.
                    Ok(_) | Err(PutError::Moved { .. }) => {}
                    Err(PutError::Store(error)) => return Err(error.into()),
                }
            }
        });
        secret.await.map(Vec::as_slice)
    }
}

/// The code of a text: hashed twice, so that knowing one code helps with no other.
fn code(secret: &[u8], text: &str) -> String {
    let inner = Digest::of_parts(&[secret, b"inner", text.as_bytes()]);
    let outer = Digest::of_parts(&[secret, b"outer", inner.as_bytes()]);
    outer.as_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
