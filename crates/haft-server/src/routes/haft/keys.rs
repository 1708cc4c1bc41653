//! API keys, for the admins of a tenant: those of their own tenant and no other.

use axum::extract::State;
use axum::{Extension, Json};
use haft_core::{Actor, ActorId, ActorKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::once::ShownOnce;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Key")]
pub(super) struct Wanted {
    /// Who holds it; what they open is theirs.
    actor: String,
    scopes: Vec<Scope>,
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
    let made = app.keys().create(caller.tenant, actor, wanted.scopes, app.now()).await;
    Ok((ShownOnce::answer(), Json(json!({ "key": made?.reveal() }))))
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

/// Revokes a key: the next request that shows it is refused, on whatever node.
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
