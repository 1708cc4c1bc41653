//! Who decides what a session does next: a model, behind whatever API.

use std::sync::Arc;

use haft_core::session::{Open, ProviderResult};
use haft_core::{ContentBlock, Failure, ProviderCallId, SessionId};
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
    /// The session; what was said and done so far is in its log.
    pub session: SessionId,
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
