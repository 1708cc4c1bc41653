//! What a tool's code is given beside its arguments.

use std::sync::Arc;

use haft_core::{Actor, ArtifactRef, CallId, SessionId, Timestamp};
use haft_store::Store;
use serde_json::Value;

use super::error::ToolError;
use super::services::Services;
use crate::artifacts::Artifacts;
use crate::attempt_timer::{AttemptTimer, ClockPause};
use crate::cancellation::CancellationToken;
use crate::clock::Clock;
use crate::fresh::fresh_bits;
use crate::live::{Live, LiveStream};
use crate::performer::Entry;
use crate::registry::Registry;
use crate::toolbox::{Policies, Redactor, Sealer};

/// A call's surroundings: which call it is, on whose behalf it runs, how to notice that it should
/// stop, how to say how far it is, and what the application hands to its tools.
///
/// Cheap to clone. None of it is in the schema that the model sees, and nothing that a model sends
/// can change it.
#[derive(Debug, Clone)]
pub struct ToolContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    run: Run,
    surroundings: Arc<Surroundings>,
    /// Masks the secrets of the node and of the call.
    redactor: Redactor,
}

/// One attempt at a call.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) scope: Scope,
    pub(crate) stop: CancellationToken,
    pub(crate) timer: AttemptTimer,
    /// Whether the tool's code has been entered.
    pub(crate) entry: Entry,
}

impl Run {
    /// An attempt that nobody outside can stop.
    pub(crate) fn unstoppable(scope: Scope) -> Self {
        let (stop, timer) = (CancellationToken::new(), AttemptTimer::default());
        Self { scope, stop, timer, entry: Entry::default() }
    }
}

/// Which call it is.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) session: SessionId,
    pub(crate) turn: u32,
    pub(crate) call: CallId,
    pub(crate) attempt: u32,
    pub(crate) actor: Actor,
}

/// What is the same for every call of a process.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) services: Services,
    pub(crate) artifacts: Artifacts,
    /// Masks secrets that the runtime knows.
    pub(crate) redactor: Redactor,
    pub(crate) live: LiveStream,
    pub(crate) sealer: Sealer,
    pub(crate) registry: Registry,
    pub(crate) policies: Policies,
    pub(crate) clock: Clock,
}

#[haft_macros::boxed]
impl ToolContext {
    pub(crate) fn new(run: Run, surroundings: Arc<Surroundings>, redactor: Redactor) -> Self {
        Self(Arc::new(Inner { run, surroundings, redactor }))
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    pub(crate) fn timer(&self) -> &AttemptTimer {
        &self.0.run.timer
    }

    /// Notes that the tool's code is about to be entered; fails if it must not be any more.
    pub(crate) fn enter(&self) -> Result<(), ToolError> {
        self.require_going()?;
        if self.0.run.entry.enter() { Ok(()) } else { Err(ToolError::cancelled()) }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.0.run.scope
    }

    pub(super) fn surroundings(&self) -> &Surroundings {
        &self.0.surroundings
    }

    /// Makes the surroundings of a call that no session knows: for tools that are called by hand.
    /// Nothing is kept, and nobody hears of progress.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness for ids.
    pub fn detached(services: Services) -> Result<Self, ToolError> {
        let artifacts = Artifacts::new(None, Clock::System);
        let (redactor, live) = (Redactor::default(), LiveStream::new());
        let sealer = Sealer::new(None, None, Clock::System);
        Self::apart(Arc::new(Surroundings {
            services,
            artifacts,
            redactor,
            live,
            sealer,
            registry: Registry::new(),
            policies: Policies::default(),
            clock: Clock::System,
        }))
    }

    /// As [`ToolContext::detached`], in a node's surroundings.
    pub(crate) fn apart(surroundings: Arc<Surroundings>) -> Result<Self, ToolError> {
        let fresh = || {
            let bits = fresh_bits(Clock::System.now());
            bits.map_err(|error| ToolError::internal(error.to_string()))
        };
        let (session, call) = (SessionId::from_bits(fresh()?), CallId::from_bits(fresh()?));
        let scope = Scope { session, turn: 1, call, attempt: 1, actor: Actor::system() };
        let redactor = surroundings.redactor.clone();
        Ok(Self::new(Run::unstoppable(scope), surroundings, redactor))
    }

    /// Returns the session.
    pub fn session(&self) -> SessionId {
        self.scope().session
    }

    /// Returns the number of the turn.
    pub fn turn(&self) -> u32 {
        self.scope().turn
    }

    /// Returns the call.
    pub fn call(&self) -> CallId {
        self.scope().call
    }

    /// Returns which attempt of the call this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.scope().attempt
    }

    /// Returns on whose behalf the call runs: whoever approved it, else whoever owns the session.
    pub fn actor(&self) -> &Actor {
        &self.scope().actor
    }

    /// Returns the key under which whoever is called can recognise this call: the same for every
    /// attempt, on every node, and never used for another call.
    pub fn idempotency_key(&self) -> String {
        self.scope().call.to_string()
    }

    /// Returns the handle that tells when the call should stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.0.run.stop
    }

    /// Fails if the call should stop: ask before doing anything that cannot be taken back.
    ///
    /// # Errors
    ///
    /// [`ToolError::cancelled`], to be returned as it is if something may have been done already;
    /// with [`ToolError::without_effect`] if nothing has.
    pub fn require_going(&self) -> Result<(), ToolError> {
        if self.stop().is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }

    /// Stops the clock of this attempt until what is returned is dropped: the time that a person
    /// takes to answer does not count against the tool's `exec_timeout`.
    pub fn pause_clock(&self) -> ClockPause {
        self.0.run.timer.pause()
    }

    /// Tells whoever listens how far the call is. Nothing is recorded.
    pub fn progress(&self, mut progress: Value) {
        self.redactor().value(&mut progress);
        let (session, call) = (self.scope().session, self.scope().call);
        self.surroundings().live.send(Live::Progress { session, call, progress });
    }

    /// Masks the secrets in a text that a tool keeps itself.
    pub fn masked(&self, text: &str) -> String {
        self.redactor().text(text).into_owned()
    }

    /// Returns what the application hands to its tools.
    pub fn services(&self) -> &Services {
        &self.surroundings().services
    }

    /// Returns a service by its type.
    ///
    /// # Errors
    ///
    /// When the application gave none.
    pub fn service<T: Send + Sync + 'static>(&self) -> Result<&T, ToolError> {
        self.services().get().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::internal(format!("no service of type `{name}` was given to the runtime"))
        })
    }

    /// Returns the time, by the node's clock.
    pub fn now(&self) -> Timestamp {
        self.surroundings().clock.now()
    }

    /// Returns every tool that the node knows.
    pub fn tools(&self) -> &Registry {
        &self.surroundings().registry
    }

    /// Returns the store, for what a tool keeps of its own; a call made by hand has none.
    pub fn store(&self) -> Option<&Store> {
        self.surroundings().artifacts.store().ok()
    }

    /// Returns whether this call takes another one back, so that a tool that is only an undo can
    /// refuse to be anything else.
    ///
    /// # Errors
    ///
    /// When the store cannot tell.
    pub async fn takes_back(&self, undone: CallId) -> Result<bool, ToolError> {
        let Some(store) = self.store() else { return Ok(false) };
        let (session, call) = (self.session(), self.call());
        Ok(crate::haft::takes_back(store, session, call, undone).await?)
    }

    /// Encrypts what the tool keeps about its session, so that a copy of the store does not tell it.
    ///
    /// # Errors
    ///
    /// When the operator gave no sealing key.
    pub fn seal(&self, note: &[u8]) -> Result<Vec<u8>, ToolError> {
        let sealed = self.surroundings().sealer.seal_note(self.scope().session, note);
        sealed.map_err(|error| ToolError::internal(error.to_string()))
    }

    /// Decrypts what a call of the same session sealed.
    ///
    /// # Errors
    ///
    /// When there is no sealing key, or it is another.
    pub fn unseal(&self, sealed: &[u8]) -> Result<Vec<u8>, ToolError> {
        let note = self.surroundings().sealer.open_note(self.scope().session, sealed);
        note.map_err(|error| ToolError::internal(error.to_string()))
    }

    /// Keeps an output outside the log and returns what to put into the result instead.
    ///
    /// # Errors
    ///
    /// When the store cannot keep it.
    pub async fn keep(
        &self,
        title: &str,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactRef, ToolError> {
        let bytes = self.redactor().bytes(bytes);
        let kept =
            self.surroundings().artifacts.keep(self.scope().session, title, media_type, bytes);
        kept.await.map_err(|error| ToolError::upstream(error.to_string()))
    }
}
