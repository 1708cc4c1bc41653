//! The times at which sessions go on by themselves.

use axum::Json;
use axum::extract::State;
use haft_core::session::Priority;
use haft_core::{Millis, SessionId, WakeId};
use haft_runtime::WakeWish;
use haft_store::{Page, SessionFilter};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::found::Found;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;

/// What is queued, session by session; `limit` and `after` are of sessions looked at.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, 500)?;
    let after = params.one::<SessionId>("after")?;
    let session = params.text("session");
    params.finish()?;
    if let Some(session) = session {
        let found = Found::session(&app, &caller, &session).await?;
        return Ok(Json(json!({ "data": queued(&found), "next": null })));
    }
    let filter = SessionFilter {
        tenant: Some(caller.tenant.clone()),
        opened_by: caller.sees_only(),
        ..SessionFilter::default()
    };
    let listed = app.store().sessions(&filter, &Page { after, limit }).await?;
    let next = listed.last().filter(|_| listed.len() == limit as usize).map(|last| last.session);
    let mut data = Vec::new();
    for listed in &listed {
        let found = Found::seen(&app, &caller, listed.session).await?;
        data.extend(found.as_ref().map(queued).unwrap_or_default());
    }
    Ok(Json(json!({ "data": data, "next": next })))
}

fn queued(found: &Found) -> Vec<Value> {
    let Some(open) = found.open() else { return Vec::new() };
    let shown = |state: &'static str| move |wake| json!({ "session": found.id, "state": state, "wake": wake });
    let due = open.due.iter().map(shown("due"));
    due.chain(open.wakes.iter().map(shown("queued"))).collect()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wake")]
pub(super) struct Wish {
    after_ms: u64,
    reason: String,
    note: Option<String>,
    dedupe_key: Option<String>,
    #[serde(default)]
    #[schemars(with = "String")]
    priority: Priority,
}

/// Has a session go on by itself after a while.
pub(super) async fn queue(
    State(app): State<App>,
    caller: Caller,
    Path(session): Path<String>,
    params: Params,
    Body(wish): Body<Wish>,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let Wish { after_ms, reason, note, dedupe_key, priority } = wish;
    let wish = WakeWish { after: Millis(after_ms), reason, note, dedupe_key, priority };
    let (wake, _) = app.haft().queue_wake(found.id, caller.actor, wish).await?;
    Ok(Json(json!({ "wake": wake })))
}

/// Takes a wake back.
pub(super) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path((session, wake)): Path<(String, String)>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Write)?;
    params.finish()?;
    let found = Found::session(&app, &caller, &session).await?;
    let id: WakeId = wake.parse().map_err(|_| Error::not_found("wake", &wake))?;
    app.haft().cancel_wake(found.id, caller.actor, id).await?;
    Ok(Json(json!({})))
}
