//! Finding what a path names, for whoever may see it.

use haft_core::journal::Entry;
use haft_core::session::{Event, Open};
use haft_core::{Actor, CallId, SessionId};
use haft_store::{ListedSession, Loaded, Page, SessionFilter};

use crate::app::App;
use crate::caller::Caller;
use crate::error::Error;

/// How many entries of a log are read at once.
const PAGE: u64 = 256;

/// A session that the caller may see: also those in which calls are taken back or tried.
pub(crate) struct Found {
    pub(crate) id: SessionId,
    pub(crate) loaded: Loaded,
}

impl Found {
    pub(crate) async fn session(app: &App, caller: &Caller, id: &str) -> Result<Self, Error> {
        let missing = || Error::not_found("session", id);
        let session: SessionId = id.parse().map_err(|_| missing())?;
        Self::seen(app, caller, session).await?.ok_or_else(missing)
    }

    /// Finds a session unless it is somebody else's.
    pub(super) async fn seen(
        app: &App,
        caller: &Caller,
        session: SessionId,
    ) -> Result<Option<Self>, Error> {
        let Some(loaded) = app.store().load(session).await? else { return Ok(None) };
        let is_theirs = loaded.tenant == caller.tenant
            && owner(app, session, &loaded).await?.is_some_and(|owner| caller.may_see(&owner));
        Ok(is_theirs.then_some(Self { id: session, loaded }))
    }

    /// Returns who opened the session.
    pub(super) async fn owner(&self, app: &App) -> Result<Actor, Error> {
        let owner = owner(app, self.id, &self.loaded).await?;
        owner.ok_or_else(|| Error::not_found("session", &self.id.to_string()))
    }

    /// Reads the id of a call; whether the session has such a call shows later.
    pub(super) fn call(id: &str) -> Result<CallId, Error> {
        id.parse().map_err(|_| Error::not_found("call", id))
    }

    pub(super) fn open(&self) -> Option<&Open> {
        self.loaded.state.as_open()
    }
}

/// Finds a session that the caller may see by its row and its first entry alone: what came after
/// may be broken, and is what is looked for.
pub(super) async fn listed(app: &App, caller: &Caller, id: &str) -> Result<SessionId, Error> {
    let missing = || Error::not_found("session", id);
    let session: SessionId = id.parse().map_err(|_| missing())?;
    let is_theirs = row(app, caller, session).await?.is_some()
        && opener(app, session).await?.is_some_and(|owner| caller.may_see(&owner));
    if is_theirs { Ok(session) } else { Err(missing()) }
}

/// Returns a session of the caller's tenant as a list has it.
pub(crate) async fn row(
    app: &App,
    caller: &Caller,
    session: SessionId,
) -> Result<Option<ListedSession>, Error> {
    let filter = SessionFilter { tenant: Some(caller.tenant.clone()), ..SessionFilter::default() };
    let just_before = session.bits().checked_add(1).map(SessionId::from_bits);
    let page = Page { after: just_before, limit: 1 };
    let rows = app.store().sessions(&filter, &page).await?;
    Ok(rows.into_iter().find(|row| row.session == session))
}

/// Returns who opened a session.
async fn owner(app: &App, session: SessionId, loaded: &Loaded) -> Result<Option<Actor>, Error> {
    match loaded.state.as_open() {
        Some(open) => Ok(Some(open.opened_by.clone())),
        None => opener(app, session).await,
    }
}

/// Reads who opened a session from its log.
async fn opener(app: &App, session: SessionId) -> Result<Option<Actor>, Error> {
    let first = app.store().entries(session, 0, 1).await?;
    Ok(match first.first().map(Entry::event).transpose()? {
        Some(Event::SessionOpened { by, .. }) => Some(by),
        _ => None,
    })
}

/// Shows a log from its end to `look`, event by event, until that has seen enough.
pub(super) async fn from_the_end(
    app: &App,
    session: SessionId,
    head: u64,
    mut look: impl FnMut(Event) -> Look,
) -> Result<(), Error> {
    let mut end = head;
    while end > 0 {
        let after = end.saturating_sub(PAGE);
        let limit = u32::try_from(end - after).unwrap_or(u32::MAX);
        let page = app.store().entries(session, after, limit).await?;
        for entry in page.iter().rev() {
            if look(entry.event()?) == Look::Enough {
                return Ok(());
            }
        }
        end = after;
    }
    Ok(())
}

/// Whether more of a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Enough,
    Further,
}
