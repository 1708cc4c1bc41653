//! Which clients are there to run a session's calls, and what becomes of calls that none is there
//! for.
//!
//! A client is there for as long as its stream of the session lasts. A call for a client waits a
//! short grace for one to come, or to come back, and then fails in a way that the model can act
//! upon. A custom tool of the wire API is not meant: the program that made its session answers
//! for it, whenever it likes until the wait runs out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft_core::session::{ClientGone, Input, SuspensionKind};
use haft_core::tool::Ownership;
use haft_core::{Millis, SessionId, Timestamp};
use haft_runtime::Clock;
use haft_store::{Page, Pending, PendingFilter};

use crate::app::App;
use crate::error::Error;

/// How often it is looked for calls that no client is there for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many such calls are dealt with at a time.
const CALLS_MAX: u32 = 256;

/// Who is there, by session and tool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<Mutex<HashMap<(SessionId, String), Seen>>>);

#[derive(Debug, Default)]
struct Seen {
    n_here: usize,
    /// When the last one left.
    left_at: Option<Timestamp>,
}

/// A client that is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    presence: Presence,
    session: SessionId,
    tools: Vec<String>,
}

impl Presence {
    pub(crate) fn enter<'a>(
        &self,
        session: SessionId,
        tools: impl Iterator<Item = &'a str>,
    ) -> Present {
        let tools: Vec<String> = tools.map(str::to_owned).collect();
        self.each(session, &tools, |seen| seen.n_here += 1);
        Present { presence: self.clone(), session, tools }
    }

    fn each(&self, session: SessionId, tools: &[String], mut change: impl FnMut(&mut Seen)) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            change(seen.entry((session, tool.clone())).or_default());
        }
    }

    /// Returns whether a call that waits since some time has waited long enough for nobody.
    fn is_abandoned(&self, wait: &Pending, tool: &str, now: Timestamp, grace: Millis) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match seen.get(&(wait.session, tool.to_owned())) {
            Some(Seen { n_here: 1.., .. }) => return false,
            Some(Seen { left_at: Some(left_at), .. }) => (*left_at).max(wait.since),
            Some(Seen { left_at: None, .. }) | None => wait.since,
        };
        since + grace <= now
    }

    /// Forgets who left longer ago than anyone is waited for.
    fn forget(&self, now: Timestamp, grace: Millis) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.n_here > 0 || seen.left_at.is_some_and(|at| at + grace > now));
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let now = Clock::System.now();
        self.presence.each(self.session, &self.tools, |seen| {
            seen.n_here = seen.n_here.saturating_sub(1);
            seen.left_at = Some(now);
        });
    }
}

/// Ends the waits of calls that no client is there for, until the server goes away.
pub(crate) async fn watch(app: App, grace: Millis) {
    // Clients of an earlier life of this server need time to come back.
    tokio::time::sleep(Duration::from_millis(grace.0)).await;
    loop {
        if let Err(error) = look(&app, grace).await {
            tracing::warn!(%error, "calls without a client could not be looked for");
        }
        tokio::select! {
            () = app.shutdown().cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

async fn look(app: &App, grace: Millis) -> Result<(), Error> {
    let kind = Some(SuspensionKind::ClientExec);
    let filter = PendingFilter { tenant: None, session: None, kind };
    let now = app.now();
    for wait in app.store().pending(&filter, &Page::first(CALLS_MAX)).await? {
        let Some(loaded) = app.store().load(wait.session).await? else { continue };
        let Some(open) = loaded.state.as_open() else { continue };
        let Some(call) = open.call(wait.call) else { continue };
        let called = open.config.toolset.called(call.contract.tool.as_str());
        let is_a_programs = call.contract.ownership == Ownership::Custom;
        if is_a_programs || !app.presence().is_abandoned(&wait, called, now, grace) {
            continue;
        }
        let gone = ClientGone { call: wait.call, round: wait.round };
        // Whoever was faster has ended the wait, which is as good.
        if let Err(error) = app.haft().driver().input(wait.session, Input::ClientGone(gone)).await {
            tracing::debug!(%error, "a call without a client was not ended");
        }
    }
    app.presence().forget(now, grace);
    Ok(())
}
