//! What waits for someone, over all sessions that the caller may see.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures_util::stream;
use haft_core::permission::Derivation;
use haft_core::session::{Event, Open, Phase, Preview};
use haft_core::tool::{Definition, Schema};
use haft_core::{CallId, SessionId, Timestamp};
use haft_runtime::Live;
use haft_store::{Page, Pending, PendingFilter};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::found::{Look, from_the_end};
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::Params;
use crate::keys::Scope;

/// How many waits are listed at most.
const LISTED_MAX: u32 = 500;

/// How often a listener is told to look although nothing happened here: another node may have
/// ended a wait.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, LISTED_MAX)?;
    let session = params.one::<SessionId>("session")?;
    params.finish()?;
    let tenant = Some(caller.tenant.clone());
    let filter = PendingFilter { tenant, session, kind: None };
    let rows = app.store().pending(&filter, &Page::first(limit)).await?;
    let now = app.now();
    let mut waits: BTreeMap<SessionId, Vec<Pending>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.expires_at > now) {
        waits.entry(row.session).or_default().push(row);
    }
    let mut shown = Vec::new();
    for (session, rows) in waits {
        shown.extend(of_session(&app, &caller, session, &rows).await?);
    }
    shown.sort_by_key(|(expires_at, _)| *expires_at);
    let data: Vec<Value> = shown.into_iter().map(|(_, wait)| wait).collect();
    Ok(Json(json!({ "data": data })))
}

/// What is told of a call in its session's log, beside what the state keeps.
#[derive(Default)]
struct Told {
    derivation: Option<Derivation>,
    preview: Option<Preview>,
    changes: Option<String>,
}

async fn of_session(
    app: &App,
    caller: &Caller,
    session: SessionId,
    rows: &[Pending],
) -> Result<Vec<(Timestamp, Value)>, Error> {
    let Some(loaded) = app.store().load(session).await? else { return Ok(Vec::new()) };
    let open = loaded.state.as_open().filter(|open| caller.may_see(&open.opened_by));
    let Some(open) = open else { return Ok(Vec::new()) };
    let told = told(app, session, loaded.head.seq, rows).await?;
    let shown = rows.iter().filter_map(|row| {
        let wait = shown(app, open, row, told.get(&row.call)?)?;
        Some((row.expires_at, wait))
    });
    Ok(shown.collect())
}

async fn told(
    app: &App,
    session: SessionId,
    head: u64,
    rows: &[Pending],
) -> Result<BTreeMap<CallId, Told>, Error> {
    let mut told: BTreeMap<CallId, Told> =
        rows.iter().map(|row| (row.call, Told::default())).collect();
    let mut n_left = told.len();
    from_the_end(app, session, head, |event| {
        let known = event.call().and_then(|call| told.get_mut(&call));
        match (event, known) {
            (Event::CallSuspended { preview, .. }, Some(told)) => {
                told.preview = told.preview.take().or(preview);
            }
            (Event::CallRedefined { changes, .. }, Some(told)) => {
                told.changes = told.changes.take().or(Some(changes));
            }
            (Event::CallProposed { derivation, .. }, Some(told)) => {
                told.derivation = Some(derivation);
                n_left -= 1;
            }
            _ => {}
        }
        if n_left == 0 { Look::Enough } else { Look::Further }
    })
    .await?;
    Ok(told)
}

fn shown(app: &App, open: &Open, row: &Pending, told: &Told) -> Option<Value> {
    let call = open.call(row.call)?;
    let Phase::Waiting(suspension) = &call.phase else { return None };
    let definition = definition(app, open, call.contract.tool.as_str());
    let definition = definition.as_ref();
    let schema = |schema: &Schema| schema.value().clone();
    Some(json!({
        "session": row.session, "call": row.call, "round": suspension.round,
        "kind": suspension.kind, "reason": suspension.reason,
        "tool": open.config.toolset.called(call.contract.tool.as_str()),
        "title": definition.and_then(|definition| definition.display.label.clone()),
        "detail": definition.and_then(|definition| definition.display.detail.clone()),
        "consequence": definition.and_then(|definition| definition.consequence),
        "executor": call.contract.executor, "mode": call.contract.mode,
        "mutates": call.contract.mutates, "reach": call.contract.reach,
        "reversal": call.contract.reversal,
        "arguments": call.arguments.record(),
        "input_schema": definition.map(|definition| schema(&definition.input_schema)),
        "answer_schema": definition.and_then(|definition| definition.output_schema.as_ref().map(schema)),
        "preview": told.preview, "derivation": told.derivation, "changes": told.changes,
        "barred": call.barred, "in_doubt_because": call.in_doubt_because,
        "may_grant": !call.contract.gate.always_asks(),
        "approvals": { "needed": call.contract.gate.n_approvals(), "given": suspension.endorsed },
        "expires_at": suspension.expires_at, "since": row.since,
        "agent": open.config.agent.as_ref().map(|agent| &agent.id),
    }))
}

/// A tool as a session knows it: its own, else the node's.
pub(super) fn definition(app: &App, open: &Open, name: &str) -> Option<Definition> {
    let own = open.config.toolset.own(name).cloned();
    own.or_else(|| Some(Definition::clone(app.haft().registry().get(name)?.spec())))
}

/// Says whenever something began or stopped to wait. What waits is read from the list.
pub(super) async fn watch(
    State(app): State<App>,
    caller: Caller,
    params: Params,
) -> Result<impl IntoResponse, Error> {
    caller.require(Scope::Read)?;
    params.finish()?;
    let live = app.haft().live().subscribe_without_steps();
    let shutdown = app.shutdown().clone();
    let frames = stream::unfold((live, shutdown), |(mut live, shutdown)| async move {
        let moved = async {
            loop {
                match live.recv().await {
                    Ok(Live::Appended { events, .. }) if events.iter().any(moves_a_wait) => return,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => None,
            () = moved => Some(()),
            () = tokio::time::sleep(LOOK_EVERY) => Some(()),
        }?;
        let frame = Frame::default().event("changed").data("{}");
        Some((Ok::<_, Infallible>(frame), (live, shutdown)))
    });
    Ok(Sse::new(frames).keep_alive(KeepAlive::default()))
}

fn moves_a_wait(event: &Event) -> bool {
    matches!(
        event,
        Event::CallSuspended { .. }
            | Event::CallEndorsed { .. }
            | Event::CallResolved { .. }
            | Event::CallFinished { .. }
    )
}
