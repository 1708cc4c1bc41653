//! Who decides what a session does next: a model, behind whatever API.

use std::sync::Arc;

use haft_core::session::{Event, Open, ProviderResult};
use haft_core::{ContentBlock, ErrorClass, Failure, ProviderCallId, SessionId};
use haft_store::Store;
use tokio_util::sync::CancellationToken;

use crate::registry::Advertised;
use crate::tool::ToolFuture;

/// A model that can be asked for the next step of a session.
pub trait Model: Send + Sync + 'static {
    /// Asks for the answer to a turn. A failure is recorded as it is; the model is never asked
    /// again behind the session's back.
    fn answer(&self, request: ModelRequest) -> ToolFuture<'_, Result<ModelAnswer, Failure>>;
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
    /// Cancelled when nobody wants the answer any more.
    pub stop: CancellationToken,
}

/// How many entries of a log are read at once.
const PAGE: u32 = 512;

/// The log of a session, to be read.
#[derive(Debug, Clone)]
pub struct SessionLog {
    store: Option<Store>,
    session: SessionId,
}

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
        let unread = |why: String| {
            let message = "the session's log cannot be read, so the model was not asked";
            Failure { debug: Some(why), ..Failure::new(ErrorClass::Upstream, message) }
        };
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let page = store.entries(self.session, after, PAGE).await;
            let page = page.map_err(|error| unread(error.to_string()))?;
            let Some(last) = page.last() else { return Ok(events) };
            after = last.seq;
            for entry in &page {
                events.push(entry.event().map_err(|error| unread(error.to_string()))?);
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
