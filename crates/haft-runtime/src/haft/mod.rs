//! The front door: tools, store and driver put together, and the verbs that people use.

mod builder;
mod calling;
mod direct;
mod erasing;
mod error;
mod grants;
mod idempotent;
mod looping;
mod reporting;
mod resolving;
mod rules;
mod settling;
mod undoing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{CallCancelled, Config, Ended, Input, Interrupted, MessageArrived, Reply};
use haft_core::{Actor, CallId, ContentBlock, Digest, MessageId, SessionId, Timestamp};
use haft_store::{Store, Tenant};

use crate::artifacts::Artifacts;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::error::InputError;
use crate::live::LiveStream;
use crate::registry::Registry;
use crate::request::{Begun, RequestError, RequestKey, Requests};
use crate::toolbox::{SealError, Toolbox};

pub use builder::{BuildError, HaftBuilder};
pub use calling::{Answer, Waiting};
pub use direct::Direct;
pub use erasing::ErasureProgress;
pub use error::{CallError, ResolveError, UndoError};
pub use grants::{GivenGrant, GrantError, Grants};
pub use idempotent::Idempotent;
pub use resolving::{GrantTerms, Response, Said, Verdict};
pub use rules::Ruled;
pub(crate) use undoing::takes_back;

/// How long a node that goes away waits for its last answers to be kept.
const ANSWERS_KEPT_WITHIN: Duration = Duration::from_secs(2);

/// A running node: registered tools over a store.
///
/// Cheap to clone. Sessions survive it: whatever was open when the process died goes on in the
/// next one that opens the same store. When the last clone is dropped, the node ends: what runs is
/// stopped and left to the next node, as [`Haft::shutdown`] does without patience, and the store is
/// let go of as soon as that is done.
#[derive(Clone)]
pub struct Haft {
    driver: Driver<Toolbox>,
    toolbox: Arc<Toolbox>,
    requests: Requests,
}

#[haft_macros::boxed]
impl Haft {
    /// Starts to put a node together.
    pub fn builder() -> HaftBuilder {
        HaftBuilder::default()
    }

    /// Opens a session.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn open(
        &self,
        tenant: Tenant,
        config: Config,
        by: Actor,
    ) -> Result<SessionId, InputError> {
        self.driver.open(tenant, config, by).await
    }

    /// Opens a session under an id that follows from what it is for, so that whoever opens it
    /// again finds that it is there.
    ///
    /// # Errors
    ///
    /// As [`Haft::open`], and [`haft_core::session::Refusal::AlreadyOpen`].
    pub async fn open_as(
        &self,
        session: SessionId,
        tenant: Tenant,
        config: Config,
        by: Actor,
    ) -> Result<SessionId, InputError> {
        self.driver.open_as(session, tenant, config, by).await
    }

    /// Says something to a session that a model drives.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn say(
        &self,
        session: SessionId,
        from: Actor,
        content: Vec<ContentBlock>,
    ) -> Result<MessageId, InputError> {
        let message = MessageId::from_bits(self.driver.fresh()?);
        self.say_as(session, message, from, content).await
    }

    /// Says something under an id of the speaker's, so that it is taken up once however often it
    /// is sent.
    ///
    /// # Errors
    ///
    /// As [`Haft::say`].
    pub async fn say_as(
        &self,
        session: SessionId,
        message: MessageId,
        from: Actor,
        content: Vec<ContentBlock>,
    ) -> Result<MessageId, InputError> {
        let arrived = MessageArrived { message, from, content };
        self.driver.input(session, Input::MessageArrived(arrived)).await?;
        Ok(message)
    }

    /// Stops what a session is doing. Every open call gets its outcome.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn interrupt(
        &self,
        session: SessionId,
        by: Actor,
        note: Option<String>,
    ) -> Result<Reply, InputError> {
        let input = Input::Interrupted(Interrupted { by, note });
        self.driver.input(session, input).await
    }

    /// Stops one call.
    ///
    /// # Errors
    ///
    /// When it cannot be stopped, or is over.
    pub async fn cancel(
        &self,
        session: SessionId,
        call: CallId,
        by: Actor,
        note: Option<String>,
    ) -> Result<Reply, InputError> {
        let input = Input::CallCancelled(CallCancelled { call, by, note });
        self.driver.input(session, input).await
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// When the session does not take it.
    pub async fn end(
        &self,
        session: SessionId,
        by: Actor,
        note: Option<String>,
    ) -> Result<Reply, InputError> {
        self.driver.input(session, Input::Ended(Ended { by, note })).await
    }

    /// Returns the registered tools.
    pub fn registry(&self) -> &Registry {
        self.toolbox.registry()
    }

    /// Returns the outputs that are kept outside the log.
    pub fn artifacts(&self) -> &Artifacts {
        self.toolbox.artifacts()
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        self.driver.store()
    }

    /// Encrypts a secret that is kept under a name, with the key that secret arguments are kept
    /// under.
    ///
    /// # Errors
    ///
    /// When the node has no key.
    pub fn seal_secret(&self, name: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        self.toolbox.sealer().seal_secret(name, secret)
    }

    /// Decrypts what was sealed under this name.
    ///
    /// # Errors
    ///
    /// When it was sealed under another name or another key.
    pub fn open_secret(&self, name: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        self.toolbox.sealer().open_secret(name, sealed)
    }

    /// Returns what the application hands to its tools, by its type.
    pub fn service<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.toolbox.services().get()
    }

    /// Returns the live events from here on.
    pub fn live(&self) -> &LiveStream {
        self.driver.live()
    }

    /// Returns the node's time.
    pub fn now(&self) -> Timestamp {
        self.toolbox.now()
    }

    /// Returns the node's clock.
    pub fn clock(&self) -> Clock {
        self.toolbox.clock()
    }

    /// Returns the driver, for inputs that have no verb of their own.
    pub fn driver(&self) -> &Driver<Toolbox> {
        &self.driver
    }

    /// Returns a handle for the node's own tasks, which does not keep the node alive.
    fn without_hold(&self) -> Self {
        Self {
            driver: self.driver.without_hold(),
            toolbox: Arc::clone(&self.toolbox),
            requests: self.requests.clone(),
        }
    }

    pub(crate) fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Begins a request that may be sent again, for whoever answers requests: what is done within
    /// the scope of the request that is returned is done once, however often it is sent. `digest` is
    /// the hash of what was sent.
    ///
    /// # Errors
    ///
    /// When the key was used for another request, or the first one is still being worked on.
    pub async fn begin_request(
        &self,
        tenant: &Tenant,
        caller: &Actor,
        key: &RequestKey,
        digest: Digest,
    ) -> Result<Begun, RequestError> {
        self.requests.begin((tenant, caller), key, digest).await
    }

    /// Takes no more inputs, waits for what runs, and lets the sessions go.
    pub async fn shutdown(&self, patience: Duration) {
        self.driver.shutdown(patience).await;
        self.requests.kept(ANSWERS_KEPT_WITHIN).await;
    }
}

impl fmt::Debug for Haft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Haft").field("toolbox", &self.toolbox).finish_non_exhaustive()
    }
}
