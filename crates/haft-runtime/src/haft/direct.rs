//! Calls without a store, for scripts, tests and whoever keeps records elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use haft_core::permission::Verdict;
use haft_core::session::{Config, RejectReason, Rejection};
use haft_core::tool::Executor;
use haft_core::{Actor, CallId, Outcome, Provenance, SessionId};
use serde_json::{Map, Value};

use super::error::CallError;
use crate::registry::{Advertised, Refusal};
use crate::tool::{Run, Scope};
use crate::toolbox::{Found, Given, Toolbox};

/// Registered tools without a store: a call is checked, permitted and run as in a session, its
/// outcome is returned, and nothing is recorded. What would have to wait for someone is refused,
/// for there is nothing that could keep it.
pub struct Direct {
    toolbox: Toolbox,
    config: Config,
    actor: Actor,
    session: SessionId,
    n_calls: AtomicU64,
    /// What was decided about tools of which every call is decided alike, for one generation of
    /// the registry.
    decided: RwLock<(u64, HashMap<u64, Verdict>)>,
}

#[haft_macros::boxed]
impl Direct {
    pub(super) fn new(toolbox: Toolbox, config: Config, actor: Actor, session: SessionId) -> Self {
        let (n_calls, decided) = (AtomicU64::default(), RwLock::default());
        Self { toolbox, config, actor, session, n_calls, decided }
    }

    /// Makes a call with the arguments that a model wrote, and returns how it ended.
    ///
    /// # Errors
    ///
    /// [`CallError::Rejected`] when nothing ran.
    pub async fn call(&self, tool: &str, arguments: &str) -> Result<Outcome, CallError> {
        self.made(self.run(self.actor.clone()), tool, Given::Text(arguments)).await
    }

    /// Makes a call on behalf of an actor with arguments that a program made, and returns how it
    /// ended.
    ///
    /// # Errors
    ///
    /// As [`Direct::call`].
    pub async fn call_as(
        &self,
        actor: Actor,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, CallError> {
        self.made(self.run(actor), tool, Given::Object(arguments)).await
    }

    /// Returns the tools that can be called.
    pub fn advertised(&self) -> Advertised {
        self.toolbox.registry().advertise(&self.config.exposure)
    }

    async fn made(&self, run: Run, tool: &str, given: Given<'_>) -> Result<Outcome, CallError> {
        let admitted = self.toolbox.admit_directly(&run, &self.config, tool, given);
        let found = admitted.map_err(refused)?;
        let registered = &found.registered;
        let contract = registered.spec().contract();
        let counts = self.config.limits.bounds_spending() && contract.may_spend();
        if contract.executor != Executor::Server || counts {
            return Err(CallError::NeedsStore { tool: registered.name().clone() });
        }
        match self.verdict(&run, &found).await? {
            Verdict::Allow => {}
            Verdict::Ask => {
                return Err(CallError::NeedsStore { tool: registered.name().clone() });
            }
            Verdict::Deny => {
                let message = format!("not permitted to use `{}` here", registered.name());
                return Err(rejected(RejectReason::Denied, message, None));
            }
        }
        let (call, tool, started_at) =
            (run.scope.call, registered.name().clone(), self.toolbox.now());
        let provenance = Provenance::of(registered.spec().contract());
        let returned = self.toolbox.run_directly(run, found).await;
        Ok(Outcome {
            call,
            tool,
            attempt: 1,
            started_at,
            finished_at: self.toolbox.now(),
            result: returned.result,
            directives: returned.directives,
            provenance,
            provider_meta: None,
            extra: returned.extra,
        })
    }

    /// Returns the toolbox, for what is registered.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }

    /// Nothing outlives this process, so a number is enough to tell its calls apart.
    fn run(&self, actor: Actor) -> Run {
        let number = self.n_calls.fetch_add(1, Ordering::Relaxed);
        let call = CallId::from_bits(self.session.bits() ^ u128::from(number));
        let scope = Scope { session: self.session, turn: 1, call, attempt: 1, actor };
        Run::unstoppable(scope)
    }

    async fn verdict(&self, run: &Run, found: &Found) -> Result<Verdict, CallError> {
        let Found { registered, generation, arguments, .. } = found;
        let (each, ordinal) = (self.toolbox.weighs_each_call(registered), registered.ordinal());
        if !each {
            let decided = self.decided.read().unwrap_or_else(PoisonError::into_inner);
            if decided.0 == *generation
                && let Some(verdict) = decided.1.get(&ordinal)
            {
                return Ok(*verdict);
            }
        }
        // Rarely: what is remembered needs none of it.
        let permission = self.toolbox.permission(run, &self.config, registered, arguments);
        let (derivation, unmet) = Box::pin(permission).await;
        if let Some(message) = unmet {
            return Err(rejected(RejectReason::Precondition, message, None));
        }
        if !each {
            let mut decided = self.decided.write().unwrap_or_else(PoisonError::into_inner);
            if decided.0 != *generation {
                *decided = (*generation, HashMap::new());
            }
            decided.1.insert(ordinal, derivation.decision);
        }
        Ok(derivation.decision)
    }
}

fn refused(refusal: Refusal) -> CallError {
    let message = refusal.to_string();
    match refusal {
        Refusal::UnknownTool { .. } => rejected(RejectReason::UnknownTool, message, None),
        Refusal::Malformed { raw, .. } => rejected(RejectReason::Malformed, message, Some(raw)),
        Refusal::Invalid(_) => rejected(RejectReason::InvalidArguments, message, None),
    }
}

fn rejected(reason: RejectReason, message: String, raw_arguments: Option<String>) -> CallError {
    CallError::Rejected(Rejection { reason, message, raw_arguments })
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("toolbox", &self.toolbox).finish_non_exhaustive()
    }
}
