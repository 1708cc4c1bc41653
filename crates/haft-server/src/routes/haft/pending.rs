//! What waits for someone, over all sessions that the caller may see.

mod card;

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use futures_util::stream;
use haft_core::SessionId;
use haft_core::session::Event;
use haft_runtime::Live;
use haft_store::{Page, PendingCursor, PendingFilter};
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;

use self::card::Told;
pub(super) use self::card::definition;
use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;
use crate::input::Params;
use crate::keys::Scope;

/// How many waits a page has at most.
const PAGE_MAX: u32 = 500;

/// How often a listener is told to look although nothing happened here: another node may have
/// ended a wait.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A page of what waits: calls in doubt first, then what runs out first. `next_page` is where the
/// next page begins. Rows that cannot be read say so, and `unreadable` counts them.
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Value>, Error> {
    caller.require(Scope::Read)?;
    let limit = params.limit(100, PAGE_MAX)?;
    let session = params.one::<SessionId>("session")?;
    let after = params.one::<PendingCursor>("page")?;
    params.finish()?;
    let filter = PendingFilter {
        tenant: Some(caller.tenant.clone()),
        session,
        kind: None,
        opened_by: caller.sees_only(),
        expires_after: Some(app.now()),
    };
    // One more than is shown tells whether there is another page.
    let mut rows = app.store().pending(&filter, &Page { after, limit: limit + 1 }).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|last| last.cursor().to_string());
    let told = Told::of(&app, &rows).await?;
    let mut data = Vec::with_capacity(rows.len());
    for row in &rows {
        data.push(told.shown(&app, row).await?);
    }
    let unreadable = data.iter().filter(|row| card::is_unreadable(row)).count();
    Ok(Json(json!({
        "data": data, "has_more": has_more, "next_page": next, "unreadable": unreadable,
    })))
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
