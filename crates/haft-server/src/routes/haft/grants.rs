//! Standing permissions of a session: what one would have let through, given, taken back.

use std::borrow::Cow;

use axum::Json;
use axum::extract::State;
use haft_core::permission::StandingGrant;
use haft_core::session::{Event, GrantRevoked, Granted, Input, Phase};
use haft_core::{Arguments, GrantId, ToolName};
use haft_runtime::{GrantTerms, fresh_bits};
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::calls::Terms;
use super::found::{Found, Look, from_the_end};
use super::pending::definition;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path, read};
use crate::keys::Scope;
use crate::openapi::also;

/// How many recorded calls a proposed permission is tried on.
const TRIED_MAX: usize = 200;

/// The shape of a permission that someone proposes: its terms, and the tool.
pub(super) enum Proposed {}

impl JsonSchema for Proposed {
    fn schema_name() -> Cow<'static, str> {
        "Grant".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Terms::json_schema(generator);
        also(&mut schema, &[("tool", json!({ "type": "string" }))]);
        schema.insert("required".to_owned(), json!(["tool"]));
        schema
    }
}

/// Reads a permission for a tool as the session knows it by now.
fn proposed(
    app: &App,
    caller: &Caller,
    found: &Found,
    mut body: Map<String, Value>,
) -> Result<StandingGrant, Error> {
    let tool: ToolName = read(body.remove("tool").unwrap_or_default())?;
    let terms: Terms = read(Value::Object(body))?;
    let open = found.open().ok_or_else(|| Error::invalid("the session has ended"))?;
    let missing = || Error::not_found("tool", tool.as_str());
    // By the name that people see, which may be another tool's own.
    let name = open.config.toolset.meant(tool.as_str());
    let definition = definition(app, &open.config, name).ok_or_else(missing)?;
    let spec = haft_core::tool::ToolSpec::new(definition).map_err(Error::internal)?;
    let at = app.now();
    let id = GrantId::from_bits(fresh_bits(at).map_err(Error::internal)?);
    Ok(GrantTerms::from(terms).granted(id, spec.contract(), caller.actor.clone(), at))
}

/// Tries a permission on the recorded calls of its tool, the newest first. Nothing is given.
pub(super) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let grant = proposed(&app, &caller, &found, body)?;
    let now = app.now();
    let mut data = Vec::new();
    from_the_end(&app, found.id, found.loaded.head.seq, |event| {
        if let Event::CallProposed { call, contract, arguments, .. } = event
            && contract.tool == grant.tool
        {
            let waits = found.open().and_then(|open| open.call(call));
            let waits = waits.is_some_and(|call| matches!(call.phase, Phase::Waiting(_)));
            let arguments: Arguments = arguments;
            let covers = grant.covers(&contract, &arguments, now);
            data.push(json!({
                "call": call, "arguments": arguments.record(), "covered": covers.is_ok(),
                "waiting": waits, "why": covers.err().map(|mismatch| mismatch.to_string()),
            }));
        }
        if data.len() < TRIED_MAX { Look::Further } else { Look::Enough }
    })
    .await?;
    Ok(Json(json!({ "data": data })))
}

/// Gives a permission, and lets it settle what waits and what it covers.
pub(super) async fn give(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
    Body(body): Body<Map<String, Value>>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let grant = proposed(&app, &caller, &found, body)?;
    let shown = json!({ "grant": grant });
    app.haft().driver().input(found.id, Input::Granted(Granted { grant })).await?;
    Ok(Json(shown))
}

/// The permissions of a session that stand.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let grants = found.open().map(|open| open.grants()).unwrap_or_default();
    Ok(Json(json!({ "data": grants })))
}

/// Takes a permission back. What it has let run is not undone.
pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Path((session, grant)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Approve)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let id: GrantId = grant.parse().map_err(|_| Error::not_found("grant", &grant))?;
    let revoked = GrantRevoked { grant: id, by: caller.actor };
    app.haft().driver().input(found.id, Input::GrantRevoked(revoked)).await?;
    Ok(Json(json!({})))
}
