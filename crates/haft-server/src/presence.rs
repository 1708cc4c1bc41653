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

use haft_core::session::{ClientGone, Input};
use haft_core::{Millis, SessionId};
use haft_runtime::{Clock, InputError, Outage, supervise};
use haft_store::{Abandoned, Attendance, ClientNote, NodeId, Page, Store};

use crate::app::App;
use crate::error::Error;

/// How often it is looked for calls that no client is there for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many such calls are read at a time.
const PAGE: u32 = 256;

/// Who is there, on this node.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    store: Store,
    node: NodeId,
    clock: Clock,
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
    pub(crate) fn new(store: Store, node: NodeId, clock: Clock) -> Self {
        Self { store, node, clock, here: Arc::default(), telling: Arc::default() }
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
        let told = self.store.note_clients(&self.node, notes, self.clock.moment()).await;
        if told.is_err() {
            self.lock().untold.extend(untold);
        }
        Ok(told?)
    }

    /// Returns whether a client for a tool of a session is connected to this node.
    fn is_here(&self, session: SessionId, tool: &str) -> bool {
        self.lock().clients.contains_key(&(session, tool.to_owned()))
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

/// Ends the calls whose client has been away for too long. The store says which those are, so that a
/// look costs what there is to end and not what waits. One that cannot be ended is tried again at
/// the next look, and keeps none of the others from being ended.
async fn look(app: &App, grace: Millis) -> Result<(), Error> {
    let presence = app.presence();
    presence.tell().await?;
    let (now, mut page) = (presence.clock.moment(), Page::first(PAGE));
    loop {
        let abandoned = app.store().abandoned(grace, now, &page).await?;
        let Some(last) = abandoned.last() else { return Ok(()) };
        page = Page::after(last.cursor(), PAGE);
        for wait in &abandoned {
            // The store may not have heard of one who came this moment.
            if !presence.is_here(wait.session, &wait.tool) {
                end(app, wait).await;
            }
        }
    }
}

async fn end(app: &App, wait: &Abandoned) {
    let Abandoned { session, call, round, .. } = *wait;
    let gone = Input::ClientGone(ClientGone { call, round });
    match app.haft().driver().input(session, gone).await {
        Ok(_) => {}
        // Whoever was faster has ended the wait, which is as good.
        Err(error @ InputError::Refused(_)) => {
            tracing::debug!(%session, %call, %error, "a call without a client was not ended");
        }
        Err(error) => {
            tracing::warn!(%session, %call, %error, "a call without a client cannot be ended yet");
        }
    }
}
