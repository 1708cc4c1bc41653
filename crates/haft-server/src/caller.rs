//! Who calls: read from the request's key, before anything else of it is looked at.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use haft_core::Actor;
use haft_store::Tenant;

use crate::app::App;
use crate::error::{Error, Kind};
use crate::key_holds::KeyHold;
use crate::keys::{Holder, Known, Scope};

/// Whoever calls, by their key.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    pub(crate) tenant: Tenant,
    scopes: Vec<Scope>,
    hold: Arc<KeyHold>,
}

impl Caller {
    /// The name of the key that was shown, which opens nothing.
    pub(crate) fn key(&self) -> &str {
        self.hold.key()
    }

    /// The caller's hold of their key, for what goes on after the handler has answered.
    pub(crate) fn hold(&self) -> &Arc<KeyHold> {
        &self.hold
    }

    fn holds(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|held| *held == scope || *held == Scope::Admin)
    }

    /// Whether the caller may look at what someone opened: their own, and all of their tenant's
    /// for those who administer it or approve in it.
    pub(crate) fn may_see(&self, owner: &Actor) -> bool {
        *owner == self.actor || self.holds(Scope::Approve)
    }

    /// Returns whose sessions a list shows the caller when it does not show all of the tenant's:
    /// what [`Self::may_see`] says of each, for a query to ask of all.
    pub(crate) fn sees_only(&self) -> Option<Actor> {
        (!self.holds(Scope::Approve)).then(|| self.actor.clone())
    }

    /// Whether the caller may change what someone opened.
    pub(crate) fn may_change(&self, owner: &Actor) -> bool {
        *owner == self.actor || self.holds(Scope::Admin)
    }

    /// Returns whose things a list shows the caller when it does not show all of the tenant's:
    /// what [`Self::may_change`] says of each.
    pub(crate) fn owns_only(&self) -> Option<&Actor> {
        (!self.holds(Scope::Admin)).then_some(&self.actor)
    }

    /// Returns how far the key reaches.
    pub(crate) fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Refuses a caller whose key does not reach so far.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.holds(scope) {
            return Ok(());
        }
        let message = format!("this key may not do this: it lacks the scope `{scope:?}`");
        Err(Error::new(Kind::Permission, message.to_lowercase()))
    }
}

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let refused = |message: &str| Error::new(Kind::Authentication, message);
        let key = key(&parts.headers)
            .ok_or_else(|| refused("no API key; send one as `x-api-key` or as a bearer token"))?;
        let Holder { actor, tenant, scopes, hold } = match app.keys().known(key, app.now()).await? {
            Known::Holder(holder) => *holder,
            Known::Expired(at) => {
                return Err(refused(&format!(
                    "this API key expired at {at}; ask an admin for another one"
                )));
            }
            Known::Revoked(at) => {
                return Err(refused(&format!("this API key was revoked at {at}")));
            }
            Known::Unknown => return Err(refused("this API key opens nothing here")),
        };
        Ok(Self { actor, tenant, scopes, hold: Arc::new(hold) })
    }
}

/// Returns whether a request shows a key, good or not.
pub(crate) fn shows_key(headers: &HeaderMap) -> bool {
    key(headers).is_some()
}

fn key(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get("x-api-key").and_then(|value| value.to_str().ok());
    given.or_else(|| headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer "))
}
