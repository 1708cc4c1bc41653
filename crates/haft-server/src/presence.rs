//! Which clients are there to run a session's calls, and what becomes of calls that none is there
//! for.
//!
//! A client is there for as long as its stream of the session lasts, on whatever node; the store
//! tells the nodes of each other's clients. A call for a client waits a short grace for one to
//! come, or to come back, and then fails in a way that the model can act upon. A custom tool of the
//! wire API is not meant: the program that made its session answers for it, whenever it likes until
//! the wait runs out.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::session::{ClientGone, Input, SuspensionKind};
use haft_core::tool::Ownership;
use haft_core::{Millis, SessionId};
use haft_runtime::{Outage, supervise};
use haft_store::{Attendance, ClientNote, Moment, NodeId, Page, Pending, PendingFilter, Store};

use crate::app::App;
use crate::error::Error;

/// How often it is looked for calls that no client is there for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many such calls are read at a time.
const PAGE: u32 = 256;

/// Who is there, on this node.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    store: Store,
    node: NodeId,
    here: Arc<Mutex<Here>>,
    /// Held while the store is told, so that it hears of changes in their order.
    telling: Arc<tokio::sync::Mutex<()>>,
}

type Role = (SessionId, String);

#[derive(Debug, Default)]
struct Here {
    /// How many clients there are, by session and tool.
    clients: HashMap<Role, usize>,
    /// Whose coming or going the store has not heard of.
    untold: HashSet<Role>,
}

/// A client that is there, until this is dropped.
#[derive(Debug)]
pub(crate) struct Present {
    presence: Presence,
    roles: Vec<Role>,
}

impl Presence {
    pub(crate) fn new(store: Store, node: NodeId) -> Self {
        Self { store, node, here: Arc::default(), telling: Arc::default() }
    }

    /// Takes a client in. Every node knows of it when this returns; if the store has trouble, soon
    /// after that is over.
    pub(crate) async fn enter(
        &self,
        session: SessionId,
        tools: impl Iterator<Item = String>,
    ) -> Present {
        let roles: Vec<Role> = tools.map(|tool| (session, tool)).collect();
        self.lock().enter(&roles);
        let present = Present { presence: self.clone(), roles };
        if let Err(error) = self.tell().await {
            tracing::warn!(%error, "the other nodes could not be told of a client");
        }
        present
    }

    /// Tells the store who came and who left since it was told last.
    async fn tell(&self) -> Result<(), Error> {
        let _order = self.telling.lock().await;
        let (untold, notes) = self.lock().take_untold();
        if notes.is_empty() {
            return Ok(());
        }
        let told = self.store.note_clients(&self.node, notes, Moment::Clock).await;
        if told.is_err() {
            self.lock().untold.extend(untold);
        }
        Ok(told?)
    }

    /// Returns whether a call that waits has waited long enough for nobody.
    async fn is_abandoned(&self, wait: &Pending, tool: &str, grace: Millis) -> Result<bool, Error> {
        if self.lock().clients.contains_key(&(wait.session, tool.to_owned())) {
            return Ok(false);
        }
        let away = self.store.client_away_for(wait.session, tool, Moment::Clock).await?;
        Ok(away.is_none_or(|away| away >= grace))
    }

    /// A panic while it is held leaves it whole.
    fn lock(&self) -> MutexGuard<'_, Here> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Here {
    fn enter(&mut self, roles: &[Role]) {
        for role in roles {
            let n_here = self.clients.entry(role.clone()).or_default();
            *n_here += 1;
            if *n_here == 1 {
                self.untold.insert(role.clone());
            }
        }
    }

    fn leave(&mut self, roles: &[Role]) {
        for role in roles {
            let Some(n_here) = self.clients.get_mut(role) else { continue };
            *n_here -= 1;
            if *n_here == 0 {
                self.clients.remove(role);
                self.untold.insert(role.clone());
            }
        }
    }

    fn take_untold(&mut self) -> (HashSet<Role>, Vec<ClientNote>) {
        let untold = std::mem::take(&mut self.untold);
        let note = |role: &Role| ClientNote {
            session: role.0,
            tool: role.1.clone(),
            attendance: match self.clients.contains_key(role) {
                true => Attendance::Here,
                false => Attendance::Gone,
            },
        };
        let notes = untold.iter().map(note).collect();
        (untold, notes)
    }
}

impl Drop for Present {
    /// The store hears of it at the next look.
    fn drop(&mut self) {
        self.presence.lock().leave(&self.roles);
    }
}

/// Looks for calls that no client is there for until the server stops, whatever panics meanwhile.
pub(crate) async fn supervised(app: App, grace: Millis) {
    let store = app.store().clone();
    supervise(store, "presence", move || watch(app.clone(), grace)).await;
}

/// Ends the waits of calls that no client is there for, until the server goes away.
async fn watch(app: App, grace: Millis) {
    // Clients of an earlier life of this server need time to come back.
    tokio::time::sleep(Duration::from_millis(grace.0)).await;
    let mut outage = Outage::of("calls without a client cannot be looked for");
    loop {
        match look(&app, grace).await {
            Ok(()) => outage.over(),
            Err(error) => outage.failed(&error),
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
    app.presence().tell().await?;
    let (now, mut page) = (app.now(), Page::first(PAGE));
    loop {
        let waits = app.store().pending(&filter, &page).await?;
        for wait in waits.iter().filter(|wait| wait.since + grace <= now) {
            end_if_abandoned(app, wait, grace).await?;
        }
        match waits.last() {
            Some(last) if waits.len() == PAGE as usize => page = Page::after(last.cursor(), PAGE),
            _ => return Ok(()),
        }
    }
}

async fn end_if_abandoned(app: &App, wait: &Pending, grace: Millis) -> Result<(), Error> {
    let Some(loaded) = app.store().load(wait.session).await? else { return Ok(()) };
    let Some(open) = loaded.state.as_open() else { return Ok(()) };
    let Some(call) = open.call(wait.call) else { return Ok(()) };
    let called = open.config.toolset.called(call.contract.tool.as_str());
    let is_a_programs = call.contract.ownership == Ownership::Custom;
    if is_a_programs || !app.presence().is_abandoned(wait, called, grace).await? {
        return Ok(());
    }
    let gone = ClientGone { call: wait.call, round: wait.round };
    // Whoever was faster has ended the wait, which is as good.
    if let Err(error) = app.haft().driver().input(wait.session, Input::ClientGone(gone)).await {
        tracing::debug!(%error, "a call without a client was not ended");
    }
    Ok(())
}
