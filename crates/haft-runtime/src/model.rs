//! Who decides what a session does next: a model, behind whatever API.

use std::sync::Arc;

use haft_core::session::{
    ContextUse, Directive, Event, Learning, Next, Open, Priority, ProviderResult, Summary, Usage,
    Wake,
};
use haft_core::{
    ContentBlock, ErrorClass, Failure, Millis, ProviderCallId, SessionId, Timestamp, WakeId,
};
use haft_store::Store;
use serde_json::Value;

use crate::cancellation::CancellationToken;
use crate::live::LiveStream;
use crate::registry::Advertised;
use crate::tool::{ToolContext, ToolFuture};

/// A model that can be asked for the next step of a session.
pub trait Model: Send + Sync + 'static {
    /// Asks for the answer to a turn. A failure is recorded as it is. If it says that the answer
    /// broke off midway, the session records that and asks again, a few times.
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, ModelError>>;

    /// Returns what is to stand for the earlier turns from here on, when what would be shown is
    /// too much. It is recorded, and the model is then asked with it. A model that cannot
    /// summarise is asked as it is.
    fn summarise<'a>(&'a self, request: &'a ModelRequest) -> ToolFuture<'a, Option<Summary>> {
        let _ = request;
        Box::pin(async { None })
    }
}

/// Why a model gave no answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    /// What is recorded, and shown to people.
    pub failure: Failure,
    /// Whether its answer broke off midway, so that asking again can help.
    pub broke_off: bool,
}

impl ModelError {
    /// An answer that broke off midway.
    pub fn broken_off(failure: Failure) -> Self {
        Self { failure, broke_off: true }
    }
}

impl From<Failure> for ModelError {
    fn from(failure: Failure) -> Self {
        Self { failure, broke_off: false }
    }
}

/// Whoever has something to tell a model before it is asked.
pub trait Adviser: Send + Sync + 'static {
    /// Returns what the model is told for this turn alone. Nothing of it is recorded, so it says
    /// what follows from what is.
    fn notes<'a>(
        &'a self,
        request: &'a ModelRequest,
        context: &'a ToolContext,
    ) -> ToolFuture<'a, Vec<String>>;
}

/// What a model is asked.
#[derive(Debug)]
pub struct ModelRequest {
    /// The session.
    pub session: SessionId,
    /// What was said and done so far.
    pub log: SessionLog,
    /// The turn.
    pub turn: u32,
    /// The attempt.
    pub attempt: u32,
    /// The session as it stands.
    pub open: Arc<Open>,
    /// The tools that are offered, in a stable order.
    pub advertised: Advertised,
    /// What it is told beside what was said and done, the latest last; no part of the log.
    pub notes: Vec<String>,
    /// Cancelled when nobody wants the answer any more.
    pub stop: CancellationToken,
    /// Where what the model says is told while it says it.
    pub live: LiveStream,
}

/// How many entries of a log are read at once.
const PAGE: u32 = 512;

/// The log of a session, to be read.
#[derive(Debug, Clone)]
pub struct SessionLog {
    store: Option<Store>,
    session: SessionId,
}

#[haft_macros::boxed]
impl SessionLog {
    pub(crate) fn new(store: Option<Store>, session: SessionId) -> Self {
        Self { store, session }
    }

    /// Reads every event, oldest first.
    ///
    /// # Errors
    ///
    /// When the store cannot be read: without the log there is nothing to ask a model.
    pub async fn events(&self) -> Result<Vec<Event>, Failure> {
        Ok(self.events_after(0).await?.into_iter().map(|(_, event)| event).collect())
    }

    /// Reads the events after a place, each with its own place, oldest first.
    ///
    /// # Errors
    ///
    /// As [`SessionLog::events`].
    pub async fn events_after(&self, mut after: u64) -> Result<Vec<(u64, Event)>, Failure> {
        let unread = |why: String| {
            let message = "the session's log cannot be read, so the model was not asked";
            Failure { debug: Some(why), ..Failure::new(ErrorClass::Upstream, message) }
        };
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        loop {
            let page = store.entries(self.session, after, PAGE).await;
            let page = page.map_err(|error| unread(error.to_string()))?;
            let Some(last) = page.last() else { return Ok(events) };
            after = last.seq;
            for entry in &page {
                let event = entry.event().map_err(|error| unread(error.to_string()))?;
                events.push((entry.seq, event));
            }
        }
    }
}

/// What a model answered: exactly as it came, not yet checked.
#[derive(Debug, Clone, Default)]
pub struct ModelAnswer {
    /// What it says.
    pub content: Vec<ContentBlock>,
    /// The calls it asks for, in its order.
    pub calls: Vec<AskedCall>,
    /// Results of calls that its provider ran.
    pub provider_results: Vec<ProviderResult>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// What its provider wants to be shown again as it was, by the vendor's name.
    pub provider_meta: Option<Value>,
    /// What it says about how its work goes on.
    pub directive: Option<LoopDirective>,
    /// How much of its budget what it was shown took.
    pub context: Option<ContextUse>,
}

/// What a model says about how its work goes on (document 002): proactive work is no tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopDirective {
    /// After how long it wants to be asked again; `None` when it sleeps.
    pub follow_up: Option<Millis>,
    /// Where it stands, in its words.
    pub summary: Option<String>,
    /// When it wants to be asked again, and what for.
    pub wakes: Vec<WakeWish>,
    /// What it has learnt.
    pub learnings: Vec<Learning>,
}

/// A time at which a model wants to be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeWish {
    /// After how long.
    pub after: Millis,
    /// What for.
    pub reason: String,
    /// What else to remember by then.
    pub note: Option<String>,
    /// While a wake with the same key is queued, another is not.
    pub dedupe_key: Option<String>,
    /// How much it matters beside others.
    pub priority: Priority,
}

impl LoopDirective {
    /// Gives every wake its id and its time.
    pub(crate) fn at(
        self,
        now: Timestamp,
        mut fresh: impl FnMut() -> Option<WakeId>,
    ) -> Option<Directive> {
        let next = match self.follow_up {
            Some(after) => Next::Continue { wake: fresh()?, after },
            None => Next::Sleep,
        };
        let wakes = self.wakes.into_iter().map(|wish| {
            let WakeWish { after, reason, note, dedupe_key, priority } = wish;
            Some(Wake { id: fresh()?, due: now + after, reason, note, dedupe_key, priority })
        });
        let wakes = wakes.collect::<Option<Vec<_>>>()?;
        Some(Directive { next, summary: self.summary, wakes, learnings: self.learnings })
    }
}

/// A call as a model asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// The provider's id for it.
    pub provider_id: ProviderCallId,
    /// The name that the model used.
    pub name: String,
    /// The arguments, as the text that it wrote.
    pub arguments: String,
}
