//! The hands of a node: the registered tools and all that stands around their calls.
//!
//! A [`Toolbox`] is the [`Performer`] of a real node. It checks what is proposed before the
//! session machine decides about it, and does what was decided: asks the model, shows what a call
//! would do, runs it, finds out what became of it. The order of a call's way is document 003's:
//! name, arguments, limits, permission, suspension, started, before, execute, after, message,
//! artifacts, one end. Limits, permission and suspension are the machine's, between `admission`
//! and `execution` here.

mod admission;
mod bounds;
mod direct;
mod drift;
mod execution;
mod intake;
mod middleware;
mod own_tools;
mod policy;
#[cfg(feature = "policy-file")]
mod policy_file;
mod redaction;
mod references;
mod sealing;

use std::fmt;
use std::sync::Arc;

use haft_core::permission::Floor;
use haft_core::session::{AttemptEnded, Call, Input, Open, Previewed, ToolChange, Verified};
use haft_core::tool::{
    Classification, Executor, FsAccess, Mutates, ProcessUse, Recovery, Redaction, ToolSpec,
};
use haft_core::{Arguments, SessionId, Timestamp};
use haft_store::Store;

use crate::artifacts::Artifacts;
use crate::clock::Clock;
use crate::live::{LiveStream, Tap};
use crate::model::{Adviser, Model};
use crate::performer::{Job, Performer, Task};
use crate::registry::{Registry, Selector};
use crate::tool::{Run, Scope, Services, Surroundings, ToolArguments, ToolContext, ToolError};

pub(crate) use admission::{Asked, Asker, Given};
pub(crate) use direct::Found;
use execution::Whose;
pub use middleware::{Invocation, Judgement, Middleware, Next, Verifier};
use own_tools::OwnTools;
pub(crate) use own_tools::heard;
pub(crate) use policy::Policies;
pub use policy::{Opinion, Policy, Wish};
#[cfg(feature = "policy-file")]
pub use policy_file::{PolicyFile, PolicyFileError};
pub use redaction::Redactor;
pub(crate) use sealing::Sealer;
pub use sealing::{SealError, SealingKey};

/// Everything that a toolbox is made of.
pub(crate) struct Parts {
    pub(crate) registry: Registry,
    pub(crate) store: Option<Store>,
    pub(crate) clock: Clock,
    pub(crate) live: LiveStream,
    pub(crate) services: Services,
    pub(crate) secrets: Vec<String>,
    pub(crate) sealing_key: Option<SealingKey>,
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
    pub(crate) verifiers: Vec<Arc<dyn Verifier>>,
    pub(crate) policies: Vec<Arc<dyn Policy>>,
    pub(crate) floor: Floor,
    pub(crate) selectors: Vec<Arc<dyn Selector>>,
    pub(crate) advisers: Vec<Arc<dyn Adviser>>,
    pub(crate) model: Option<Arc<dyn Model>>,
    pub(crate) taps: Vec<Tap>,
}

/// The registered tools of a node, with what stands around their calls.
pub struct Toolbox {
    registry: Registry,
    own_tools: OwnTools,
    surroundings: Arc<Surroundings>,
    sealer: Sealer,
    clock: Clock,
    live: LiveStream,
    store: Option<Store>,
    middleware: Vec<Arc<dyn Middleware>>,
    verifiers: Vec<Arc<dyn Verifier>>,
    policies: Policies,
    selectors: Vec<Arc<dyn Selector>>,
    advisers: Vec<Arc<dyn Adviser>>,
    model: Option<Arc<dyn Model>>,
    /// Whoever hears what happens on the node.
    _taps: Vec<Tap>,
}

impl Toolbox {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { registry, store, clock, live, services, secrets, sealing_key, .. } = parts;
        let artifacts = Artifacts::new(store.clone(), clock.clone());
        let redactor = Redactor::new(&secrets);
        let sealer = Sealer::new(store.clone(), sealing_key, clock.clone());
        let policies = Policies::new(parts.policies, parts.floor);
        let surroundings = Surroundings {
            registry: registry.clone(),
            policies: policies.clone(),
            clock: clock.clone(),
            services,
            artifacts,
            redactor,
            live: live.clone(),
            sealer: sealer.clone(),
        };
        Self {
            registry,
            own_tools: OwnTools::default(),
            surroundings: Arc::new(surroundings),
            sealer,
            clock,
            live,
            store,
            middleware: parts.middleware,
            verifiers: parts.verifiers,
            policies,
            selectors: parts.selectors,
            advisers: parts.advisers,
            model: parts.model,
            _taps: parts.taps,
        }
    }

    /// Returns what the application hands to its tools.
    pub(crate) fn services(&self) -> &Services {
        &self.surroundings.services
    }

    /// Returns the registered tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the outputs that are kept outside the log.
    pub fn artifacts(&self) -> &Artifacts {
        &self.surroundings.artifacts
    }

    /// Returns the surroundings of a call that no session knows.
    pub(crate) fn context_apart(&self) -> Result<ToolContext, ToolError> {
        ToolContext::apart(Arc::clone(&self.surroundings))
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock.clone()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns what seals secrets.
    pub(crate) fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Takes arguments into the form that is recorded.
    pub(crate) async fn sealed(
        &self,
        session: SessionId,
        arguments: ToolArguments,
        redaction: &Redaction,
    ) -> Result<Arguments, SealError> {
        self.sealer.seal(session, arguments, redaction).await
    }

    /// Returns the arguments that run.
    pub(crate) async fn opened(
        &self,
        session: SessionId,
        arguments: &Arguments,
        redaction: &Redaction,
    ) -> Result<ToolArguments, SealError> {
        self.sealer.open(session, arguments, redaction).await
    }
}

impl Performer for Toolbox {
    fn tool_change(&self, open: &Open, call: &Call) -> Option<ToolChange> {
        self.change(open, call)
    }

    fn leaves_no_trace(&self, open: &Open, call: &Call) -> bool {
        self.tool(&open.config.toolset, call.contract.tool.as_str())
            .is_some_and(|registered| leaves_no_trace(registered.spec()))
    }

    async fn perform(&self, job: Job) -> Input {
        let Job { session, opened_by, config, turn, task, stop, timer, entry } = job;
        let run = |call: &Call, attempt| {
            let actor = call.approved_by().unwrap_or(&opened_by).clone();
            let scope = Scope { session, turn, call: call.id, attempt, actor };
            Run { scope, stop: stop.clone(), timer: timer.clone(), entry: entry.clone() }
        };
        // Running a call is what happens most; what the others need is not carried along.
        match task {
            Task::AskModel { turn, attempt, open } => {
                Box::pin(self.ask_model(session, turn, attempt, open.into(), stop)).await
            }
            Task::Preview { call } => {
                let preview = Box::pin(self.preview(&run(&call, 0), &call)).await;
                Input::Previewed(Previewed { call: call.id, preview })
            }
            Task::Execute { call, attempt, fingerprint } => {
                entry.stay_outside();
                let run = run(&call, attempt);
                let whose = Whose { opened_by: &opened_by, config: &config };
                let report = self.execute(&run, whose, &call, fingerprint).await;
                Input::AttemptEnded(AttemptEnded { call: call.id, attempt, report })
            }
            Task::Verify { call, attempt } => {
                let verdict = Box::pin(self.verify(&run(&call, attempt), &call)).await;
                Input::Verified(Verified { call: call.id, attempt, verdict })
            }
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox").field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// Only what is declared counts.
fn leaves_no_trace(tool: &ToolSpec) -> bool {
    let (contract, facets) = (tool.contract(), tool.facets());
    matches!(facets.classification, Classification::Declared)
        && contract.executor == Executor::Server
        && contract.recovery == Recovery::Rerun
        && facets.mutates == Mutates::None
        && facets.reach.is_empty()
        && facets.fs == FsAccess::None
        && facets.process == ProcessUse::None
        && tool.facets.effects.is_empty()
}
