//! Who is told of what happens in a tenant's sessions, and what became of each telling.

use axum::extract::State;
use axum::{Extension, Json};
use haft_store::{NoticeKind, Page, StoredDelivery, Webhook};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::{Body, Params, Path};
use crate::keys::Scope;
use crate::once::ShownOnce;
use crate::webhooks::{Remedy, Secret, message_id, require_reachable};

/// How many webhooks a tenant can have.
const WEBHOOKS_MAX: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Webhook")]
pub(super) struct Wanted {
    url: String,
    events: Vec<String>,
}

/// Takes a receiver in; its secret is shown this once.
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    params: Params,
    Body(wanted): Body<Wanted>,
) -> Result<(Extension<ShownOnce>, Json<Value>), Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    ShownOnce::require_first("webhook")?;
    require_reachable("url", &wanted.url, app.webhooks().reach, Remedy::Flag)?;
    let kinds = kinds(&wanted.events)?;
    if app.store().webhooks(&caller.tenant).await?.len() >= WEBHOOKS_MAX {
        let message = format!("there are {WEBHOOKS_MAX} webhooks already; delete one first");
        return Err(Error::invalid(message));
    }
    let id = app.fresh_id("whk")?;
    let secret = Secret::fresh().map_err(Error::internal)?;
    let sealed = app.haft().seal_secret(&id, secret.bytes()).map_err(Error::internal)?;
    let webhook = Webhook {
        id,
        tenant: caller.tenant,
        url: wanted.url,
        kinds,
        sealed,
        by: caller.actor,
        at: app.now(),
    };
    app.store().add_webhook(&webhook).await?;
    let mut shown = shown(&webhook);
    shown["secret"] = json!(secret.reveal());
    Ok((ShownOnce::answer(), Json(shown)))
}

fn kinds(words: &[String]) -> Result<Vec<NoticeKind>, Error> {
    let known = || NoticeKind::ALL.map(NoticeKind::as_str).join("`, `");
    if words.is_empty() {
        return Err(Error::invalid(format!("`events`: expected at least one of `{}`", known())));
    }
    let read = |word: &String| {
        let unknown = || format!("`events`: expected one of `{}`, found `{word}`", known());
        NoticeKind::parse(word).ok_or_else(|| Error::invalid(unknown()))
    };
    let mut kinds = words.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    kinds.sort_unstable();
    kinds.dedup();
    Ok(kinds)
}

fn shown(webhook: &Webhook) -> Value {
    let events: Vec<_> = webhook.kinds.iter().map(|kind| kind.as_str()).collect();
    json!({
        "type": "webhook", "id": webhook.id, "url": webhook.url, "events": events,
        "created_at": webhook.at.to_string(), "created_by": webhook.by,
    })
}

/// The tenant's webhooks, the newest first, without their secrets.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    let webhooks = app.store().webhooks(&caller.tenant).await?;
    Ok(Json(json!({ "data": webhooks.iter().map(shown).collect::<Vec<_>>() })))
}

/// Takes a receiver out, with what was still to be told.
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    params.finish()?;
    match app.store().remove_webhook(&caller.tenant, &id).await? {
        true => Ok(Json(json!({ "type": "webhook_deleted", "id": id }))),
        false => Err(Error::not_found("webhook", &id)),
    }
}

/// What became of each telling, the newest first.
pub(super) async fn deliveries(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Admin)?;
    let limit = params.limit(100, 1000)?;
    let after = params.one::<u64>("page")?;
    params.finish()?;
    let mine = app.store().webhooks(&caller.tenant).await?;
    if !mine.iter().any(|webhook| webhook.id == id) {
        return Err(Error::not_found("webhook", &id));
    }
    let found = app.store().deliveries(&caller.tenant, &id, &Page { after, limit }).await?;
    let next = (found.len() == limit as usize).then(|| found.last().map(|last| last.cursor));
    let next = next.flatten().map(|cursor| cursor.to_string());
    let data: Vec<_> = found.iter().map(delivery).collect();
    Ok(Json(json!({ "data": data, "next_page": next })))
}

fn delivery(delivery: &StoredDelivery) -> Value {
    let StoredDelivery { session, seq, kind, state, attempts, status, error, .. } = delivery;
    json!({
        "type": "webhook_delivery",
        "id": message_id(*session, *seq),
        "event": kind.as_str(),
        "session_id": session,
        "created_at": delivery.at.to_string(),
        "state": state.as_str(),
        "attempts": attempts,
        "last_attempt_at": delivery.attempted_at.map(|at| at.to_string()),
        "next_attempt_at": delivery.due_at.map(|at| at.to_string()),
        "last_status": status,
        "last_error": error,
    })
}
