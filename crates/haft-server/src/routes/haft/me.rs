//! Who calls, and how a browser that `haft serve` sent here gets its key.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::{Error, Kind};
use crate::input::{Body, Params};

pub(super) async fn me(caller: Caller, params: Params) -> Result<Json<Value>, Error> {
    params.finish()?;
    Ok(Json(json!({
        "actor": caller.actor, "tenant": caller.tenant.as_str(), "scopes": caller.scopes(),
        "version": env!("CARGO_PKG_VERSION"),
    })))
}

/// The largest body that is read of someone whom nobody knows yet.
pub(super) const LOGIN_BYTES_MAX: usize = 4 << 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    token: String,
}

/// Gives the key for the token in the address that `haft serve` printed; once.
pub(super) async fn login(
    State(app): State<App>,
    params: Params,
    Body(login): Body<Login>,
) -> Result<Json<Value>, Error> {
    params.finish()?;
    let refused = || Error::new(Kind::Authentication, "this token is not good, or was used before");
    let key = app.invitation().take(&login.token).ok_or_else(refused)?;
    Ok(Json(json!({ "key": key })))
}
