//! API keys, for the admins of a tenant: those of their own tenant and no other.

use axum::extract::State;
use axum::{Extension, Json};
use haft_core::{Actor, ActorId, ActorKind, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::{NewKey, Scope};
use crate::once::ShownOnce;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub(super) struct Wanted {
    /// Who holds it; what they open is theirs.
    actor: String,
    scopes: Vec<Scope>,
    /// From when on it opens nothing, such as `2026-12-31T00:00:00Z`; without it, the key lasts
    /// until it is revoked.
    expires_at: Option<String>,
}

/// Makes a key, which is shown this once.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(wanted): Body<Wanted>,
) -> Result<(Extension<ShownOnce>, Json<Value>), Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    ShownOnce::require_first("key")?;
    if wanted.scopes.is_empty() {
        let message = "scopes: expected one or more of `admin`, `approve`, `read`, `write`";
        return Err(Error::invalid(message));
    }
    let id = ActorId::new(&wanted.actor);
    let id = id.map_err(|error| Error::invalid(format!("actor: {error}")))?;
    let actor = Actor { kind: ActorKind::User, id };
    let (expires_at, now) = (wanted.expires_at.as_deref(), app.now());
    let expires_at = expires_at.map(|text| expiry(text, now)).transpose()?;
    let new = NewKey { tenant: caller.tenant, actor, scopes: wanted.scopes, expires_at };
    let made = app.keys().create(new, now).await;
    Ok((ShownOnce::answer(), Json(json!({ "key": made?.reveal() }))))
}

fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Error> {
    let at = Timestamp::parse_rfc3339(text);
    let at = at.map_err(|error| Error::invalid(format!("expires_at: {error}")))?;
    match at > now {
        true => Ok(at),
        false => Err(Error::invalid(format!("expires_at: {at} is over"))),
    }
}

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let listed = app.keys().list(Some(&caller.tenant)).await?;
    Ok(Json(json!({ "data": listed })))
}

/// Revokes a key: the next request that shows it is refused, and its open streams end, on
/// whatever node.
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path(key): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let revoked = app.keys().revoke(Some(&caller.tenant), &key, &caller.actor, app.now()).await;
    Ok(Json(json!(revoked?.ok_or_else(|| Error::not_found("key", &key))?)))
}
