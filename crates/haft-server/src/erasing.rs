//! Deleting sessions: each is ended and erased with all that belong to it, its directories too.
//!
//! That one is to be erased is kept in the store first. So whatever keeps it from being done at
//! once (a call that takes its time to stop, a restart) only delays it: every node finishes what
//! is wanted, and clears its own directories of what any node has erased.

use std::io;
use std::path::Path;
use std::time::Duration;

use haft_core::{Actor, Millis, SessionId, Timestamp};
use haft_runtime::{ErasureProgress, Live};
use haft_store::{
    ErasureRequest, ListedSession, Page, SessionFilter, SessionStatus, Tenant, Which,
};
use tokio::time::Instant;

use crate::app::App;
use crate::error::Error;
use crate::objects::Sort;

/// How long a deletion waits for its session to end before it goes on by itself.
const ENDING_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long whoever follows a session is given to read its last events.
const FOLLOWERS_GRACE: Duration = Duration::from_millis(250);

/// How often what is left over, and what other nodes have erased, is looked for.
const ROUND_EVERY: Duration = Duration::from_secs(10);

/// How much is done in one round.
const BATCH: u32 = 100;

/// The directories of the data directory in which each session has one of its own.
const DIRECTORIES: [&str; 3] = ["workspaces", "uploads", "skills"];

/// What became of a deletion by the time it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionState {
    Erased,
    /// Something in it is still being stopped; it is erased right after.
    Stopping,
}

/// Deletes a session with all that belong to it.
pub(crate) async fn delete(
    app: &App,
    tenant: &Tenant,
    session: SessionId,
    by: &Actor,
) -> Result<DeletionState, Error> {
    let at = app.now();
    let wanted = ErasureRequest { session, tenant: tenant.clone(), by: by.clone(), at };
    let requests = app.haft().request_erasure(wanted).await?;
    let mut has_just_ended = false;
    for request in &requests {
        has_just_ended |= end(app, request.session).await?;
        forget_object(app, request).await?;
    }
    if has_just_ended {
        tokio::time::sleep(FOLLOWERS_GRACE).await;
    }
    let deadline = Instant::now() + ENDING_MAX;
    for request in &requests {
        while finish(app, request).await? == DeletionState::Stopping {
            if Instant::now() >= deadline {
                return Ok(DeletionState::Stopping);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(DeletionState::Erased)
}

/// Ends a session; returns whether it was open. One that is somebody else's to end is tried again
/// later.
async fn end(app: &App, session: SessionId) -> Result<bool, Error> {
    use haft_runtime::InputError::{OwnedElsewhere, Refused, UnknownSession};
    match app.haft().end(session, Actor::system(), Some("deleted".to_owned())).await {
        Ok(_) => Ok(true),
        Err(Refused(_) | UnknownSession | OwnedElsewhere { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes away what a client put beside the session, which is how others see that it is deleted.
async fn forget_object(app: &App, request: &ErasureRequest) -> Result<(), Error> {
    let id = request.session.to_string();
    let seen = app.objects().find(&request.tenant, Sort::Session, &id, Which::Latest).await?;
    let Some(seen) = seen else { return Ok(()) };
    let place = Sort::Session.place(&request.tenant, &id)?;
    app.objects().delete(place, &seen, &request.by, request.at).await?;
    app.store().touch(request.session);
    Ok(())
}

async fn finish(app: &App, request: &ErasureRequest) -> Result<DeletionState, Error> {
    match app.haft().finish_erasure(request).await? {
        ErasureProgress::Stopping => Ok(DeletionState::Stopping),
        ErasureProgress::Done(_) | ErasureProgress::Unknown => {
            forget_object(app, request).await?;
            forget_here(app, request.session);
            Ok(DeletionState::Erased)
        }
    }
}

/// Forgets what this node has of a session beside the store.
fn forget_here(app: &App, session: SessionId) {
    app.feeds().forget(session);
    app.haft().live().send(Live::Erased { session });
    app.store().touch(session);
    let Some(data) = app.data() else { return };
    for directory in DIRECTORIES {
        let path = data.join(directory).join(session.to_string());
        if let Err(error) = remove(&path) {
            tracing::error!(%session, %error, path = %path.display(), "a directory of an erased session was not removed");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Finishes deletions, clears up behind other nodes, and deletes what is older than `retain`.
pub(crate) async fn run(app: App, retain: Option<Millis>) {
    let mut cleared = 0;
    let pause = retain.map_or(ROUND_EVERY, |Millis(ms)| {
        Duration::from_millis(ms / 10).clamp(Duration::from_millis(200), ROUND_EVERY)
    });
    loop {
        if let Err(error) = round(&app, retain, &mut cleared).await {
            tracing::warn!(%error, "sessions that are to be erased wait for the next round");
        }
        tokio::select! {
            () = app.shutdown().cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn round(app: &App, retain: Option<Millis>, cleared: &mut u64) -> Result<(), Error> {
    for request in app.store().erasure_requests(BATCH).await? {
        // One that cannot be erased must not keep the others.
        if let Err(error) = finish(app, &request).await {
            let session = request.session;
            tracing::warn!(%session, %error, "a session is not erased yet; the next round tries again");
        }
    }
    if let Some(Millis(retain)) = retain {
        let retain = i64::try_from(retain).unwrap_or(i64::MAX);
        let before = Timestamp::from_ms(app.now().ms().saturating_sub(retain));
        expire(app, before).await?;
    }
    loop {
        let page = Page { after: Some(*cleared), limit: BATCH };
        let erased = app.store().erasures(&page).await?;
        for one in &erased {
            forget_here(app, one.session);
            *cleared = one.number;
        }
        if erased.len() < BATCH as usize {
            return Ok(());
        }
    }
}

/// Deletes sessions that have been at rest since before a moment, a batch at a time.
async fn expire(app: &App, before: Timestamp) -> Result<(), Error> {
    let mut page = Page::first(BATCH);
    loop {
        let listed = app.store().at_rest_since(before, &page).await?;
        for one in &listed {
            if app.shutdown().is_cancelled() {
                return Ok(());
            }
            if let Err(error) = expire_one(app, one, before).await {
                let session = one.session;
                tracing::warn!(%session, %error, "an old session is not deleted yet; the next round tries again");
            }
        }
        match listed.last() {
            Some(last) if listed.len() == BATCH as usize => {
                page = Page::after(last.session, BATCH);
            }
            _ => return Ok(()),
        }
    }
}

/// Deletes a session unless something that belongs to it was at work since.
async fn expire_one(app: &App, one: &ListedSession, before: Timestamp) -> Result<(), Error> {
    if rests_below(app, one.session, before).await? {
        delete(app, &one.tenant, one.session, &Actor::system()).await?;
    }
    Ok(())
}

/// Returns whether everything that belongs to a session has been at rest as long as itself.
async fn rests_below(app: &App, session: SessionId, before: Timestamp) -> Result<bool, Error> {
    for below in app.haft().belonging(session).await? {
        let after = below.bits().checked_add(1).map(SessionId::from_bits);
        let rows =
            app.store().sessions(&SessionFilter::default(), &Page { after, limit: 1 }).await?;
        let row = rows.into_iter().find(|row| row.session == below);
        if row.is_some_and(|row| !rests(&row, before)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn rests(row: &ListedSession, before: Timestamp) -> bool {
    row.status != SessionStatus::Working && row.n_waiting == 0 && row.updated_at < before
}
