//! Mounted servers that let only those in whom somebody has authorized: OAuth 2.1, as MCP says.
//!
//! A server that wants it says so when it is first asked. Where it was configured with a client of
//! its own right, this node gets a token by itself; elsewhere a person opens an address, says yes
//! there, and is sent back here with a code.

mod access;
mod authorizer;
mod begun;
mod challenge;
mod discovery;
mod metadata;
mod tokens;
mod wanted;
mod web;

pub(super) use access::Access;
pub(super) use authorizer::Authorizer;
pub(super) use begun::{Authorizations, Returned};
pub(super) use challenge::parameter;
pub(super) use tokens::{Safe, Tokens};
pub(super) use wanted::Wanted;

use serde::{Deserialize, Serialize};

use super::declared::DeclaredError;
use super::setting::Setting;

/// How this node makes itself known to whoever authorizes it at a server. All of it may be left
/// out: then it registers itself there when it is first needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// How tokens are got.
    #[serde(default, skip_serializing_if = "Grant::is_default")]
    pub grant: Grant,
    /// The client that this node was registered as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of that client, in a vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Setting>,
    /// The address of a document about this node, where the other side takes such for a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// What to ask to be allowed; what the server names, if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// How tokens are got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A person says yes in a browser.
    #[default]
    AuthorizationCode,
    /// The client has a right of its own, and nobody is asked.
    ClientCredentials,
}

impl Grant {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl OAuth {
    pub(super) fn checked(&self) -> Result<(), DeclaredError> {
        if self.client_secret.as_ref().is_some_and(|secret| secret.secret().is_none()) {
            let name = "client_secret".to_owned();
            return Err(DeclaredError::OpenSecret { member: "oauth", name });
        }
        let needs = |member, of| Err(DeclaredError::Missing { member, of });
        match (self.grant, &self.client_id, &self.client_secret) {
            (Grant::ClientCredentials, None, _) => {
                return needs("client_id", "the grant `client_credentials`");
            }
            (Grant::ClientCredentials, _, None) => {
                return needs("client_secret", "the grant `client_credentials`");
            }
            (_, None, Some(_)) => return needs("client_id", "a `client_secret`"),
            _ => {}
        }
        match self.client_metadata_url.as_deref() {
            Some(url) if !is_document(url) => {
                Err(DeclaredError::Document { found: url.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

fn is_document(url: &str) -> bool {
    let uri = url.parse::<http::Uri>();
    uri.is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.path().len() > 1)
}
