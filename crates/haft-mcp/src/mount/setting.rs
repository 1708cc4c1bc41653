//! What a server is given that may be secret: written out, or by reference to a vault.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use haft_core::SessionId;
use haft_runtime::{SealingKey, ToolError};
use serde::{Deserialize, Serialize};

const SCHEME: &str = "vault://";

/// A secret in a vault: `vault://VAULT/ENTRY`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VaultEntry {
    /// The vault.
    pub vault: String,
    /// The secret within it.
    pub entry: String,
}

impl fmt::Display for VaultEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.vault, self.entry)
    }
}

/// The value of a variable or a header: a text, at whose end may stand a reference to a secret,
/// as in `Bearer vault://VAULT/ENTRY`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Setting {
    plain: String,
    secret: Option<VaultEntry>,
}

/// A reference to a secret that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a reference such as `vault://VAULT/ENTRY` at the end of the value")]
pub struct SettingError;

impl TryFrom<String> for Setting {
    type Error = SettingError;

    fn try_from(text: String) -> Result<Self, SettingError> {
        let Some((plain, reference)) = text.split_once(SCHEME) else {
            return Ok(Self { plain: text, secret: None });
        };
        let is_name = |name: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.is_empty() && name.bytes().all(is_letter)
        };
        match reference.split_once('/') {
            Some((vault, entry)) if is_name(vault) && is_name(entry) => {
                let secret = VaultEntry { vault: vault.to_owned(), entry: entry.to_owned() };
                Ok(Self { plain: plain.to_owned(), secret: Some(secret) })
            }
            _ => Err(SettingError),
        }
    }
}

impl From<Setting> for String {
    fn from(setting: Setting) -> Self {
        match setting.secret {
            Some(secret) => format!("{}{secret}", setting.plain),
            None => setting.plain,
        }
    }
}

impl Setting {
    /// A value that is no secret.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { plain: text.into(), secret: None }
    }

    /// A secret, as a header shows it to a server.
    pub(super) fn bearer(secret: VaultEntry) -> Self {
        Self { plain: "Bearer ".to_owned(), secret: Some(secret) }
    }

    /// Returns the secret that it refers to.
    pub fn secret(&self) -> Option<&VaultEntry> {
        self.secret.as_ref()
    }
}

/// What is written out may be a secret that somebody did not put into a vault.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.secret {
            Some(secret) => write!(f, "{secret}"),
            None => f.write_str("(set)"),
        }
    }
}

/// A secret that is being looked up, or why it is not there.
pub type SecretFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// What a session shows to a mounted server in place of what the mount has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Where its secret is.
    pub entry: VaultEntry,
    /// Grows whenever the secret is another one: then there is another connection.
    pub version: u64,
}

/// The credential that a session brings for a server, which is being looked up. That it brings
/// none is no error; that it cannot have the one that is meant for it is.
pub type CredentialFuture =
    Pin<Box<dyn Future<Output = Result<Option<Credential>, ToolError>> + Send>>;

/// Another secret in place of one that a server does not take, which is being got: whether there
/// is one now, or why it could not be got.
pub type RenewalFuture = Pin<Box<dyn Future<Output = Result<bool, String>> + Send>>;

type Find<Of, Found> = Arc<dyn Fn(Of) -> Found + Send + Sync>;

/// Where secrets are looked up whenever a server is connected, so that they are kept nowhere else.
#[derive(Clone)]
pub struct Secrets {
    find: Find<VaultEntry, SecretFuture>,
    credentials: Option<Find<(SessionId, String), CredentialFuture>>,
    renewal: Option<Find<(VaultEntry, String), RenewalFuture>>,
    key: Option<SealingKey>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Looks secrets up like this.
    pub fn new(find: impl Fn(VaultEntry) -> SecretFuture + Send + Sync + 'static) -> Self {
        Self { find: Arc::new(find), credentials: None, renewal: None, key: None }
    }

    /// Asks before each call which credential its session brings for the server at an address.
    /// Without this, every session is let in as the mount is.
    #[must_use]
    pub fn with_credentials(
        self,
        find: impl Fn((SessionId, String)) -> CredentialFuture + Send + Sync + 'static,
    ) -> Self {
        Self { credentials: Some(Arc::new(find)), ..self }
    }

    pub(super) async fn credential(
        &self,
        session: SessionId,
        url: &str,
    ) -> Result<Option<Credential>, ToolError> {
        match &self.credentials {
            Some(find) => find((session, url.to_owned())).await,
            None => Ok(None),
        }
    }

    /// Asks for another secret where a server does not take the one that a session brought: with
    /// the entry that it stands in, and the secret that the server was shown.
    #[must_use]
    pub fn with_renewal(
        self,
        renew: impl Fn((VaultEntry, String)) -> RenewalFuture + Send + Sync + 'static,
    ) -> Self {
        Self { renewal: Some(Arc::new(renew)), ..self }
    }

    pub(super) async fn renewed(&self, entry: &VaultEntry, shown: String) -> Result<bool, String> {
        match &self.renewal {
            Some(renew) => renew((entry.clone(), shown)).await,
            None => Ok(false),
        }
    }

    /// Has the tokens that this node is given for servers sealed with a key and kept. Without one
    /// they end with the process.
    #[must_use]
    pub fn sealed_with(self, key: SealingKey) -> Self {
        Self { key: Some(key), ..self }
    }

    pub(super) fn key(&self) -> Option<SealingKey> {
        self.key.clone()
    }

    /// Returns a value as whoever needs it gets it.
    ///
    /// # Errors
    ///
    /// When the secret that it refers to cannot be had.
    pub async fn value(&self, name: &str, setting: &Setting) -> Result<String, String> {
        let settings = BTreeMap::from([(name.to_owned(), setting.clone())]);
        let mut values = self.resolved(&settings, &mut Vec::new()).await?;
        Ok(values.remove(name).unwrap_or_default())
    }

    /// Has no vaults: every reference is one to nothing.
    pub fn none() -> Self {
        Self::new(|entry| {
            Box::pin(async move { Err(format!("{entry} is not there: this node has no vaults")) })
        })
    }

    /// Returns the values as the server gets them, and adds the secrets among them.
    pub(super) async fn resolved(
        &self,
        settings: &BTreeMap<String, Setting>,
        found: &mut Vec<String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut values = BTreeMap::new();
        for (name, setting) in settings {
            let mut value = setting.plain.clone();
            if let Some(entry) = &setting.secret {
                let secret = (self.find)(entry.clone()).await;
                let secret = secret.map_err(|why| format!("`{name}`: {why}"))?;
                value.push_str(&secret);
                found.push(secret);
            }
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}
