//! A call in this process alone: the same checks and the same way, and no record.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use haft_core::permission::{Derivation, Question};
use haft_core::session::{Config, PolicyFacts, Returned};
use haft_core::{Arguments, CallResult, ErrorClass, Failure};
use serde_json::Map;

use super::admission::{Given, admitted_with};
use super::execution::{Effect, Prepared, RunResult, inject};
use super::policy::Wish;
use super::{Toolbox, references};
use crate::live::Step;
use crate::registry::{Admitted, Refusal, Registered};
use crate::tool::{Run, ToolArguments, ToolError};
use crate::unwinding::{Panicked, catching};

/// A tool that was found, and arguments that fit it.
pub(crate) struct Found {
    pub(crate) registered: Arc<Registered>,
    /// The generation of the registry that it was found in.
    pub(crate) generation: u64,
    pub(crate) arguments: ToolArguments,
    /// Whether some of them are only pointed at.
    refers: bool,
}

impl Toolbox {
    /// Finds a tool and checks what it is given.
    pub(crate) fn admit_directly(
        &self,
        run: &Run,
        config: &Config,
        name: &str,
        given: Given<'_>,
    ) -> Result<Found, Refusal> {
        let (found, generation) = self.registry.get_of_generation(name);
        let Some(registered) = found else {
            return Err(self.registry.advertise(&config.exposure).unknown(name));
        };
        self.live.step(run.scope.session, run.scope.call, Step::NameKnown);
        let Admitted { arguments, references, .. } = admitted_with(&registered, given)?;
        self.live.step(run.scope.session, run.scope.call, Step::ArgumentsFit);
        Ok(Found { registered, generation, arguments, refers: !references.is_empty() })
    }

    /// Returns whether outside sources of permission may say different things about different
    /// calls of a tool.
    pub(crate) fn weighs_each_call(&self, registered: &Registered) -> bool {
        !self.policies.is_empty() || !registered.spec().preconditions.is_empty()
    }

    /// Hears every source of permission.
    pub(crate) async fn permission(
        &self,
        run: &Run,
        config: &Config,
        registered: &Registered,
        arguments: &ToolArguments,
    ) -> (Derivation, Option<String>) {
        let spec = registered.spec();
        let weighed = self.weighs_each_call(registered);
        let arguments = match weighed {
            true => Arguments::plain(spec.redaction.record_view(arguments)),
            false => Arguments::plain(Map::new()),
        };
        let PolicyFacts { reports, unmet_precondition } = match weighed {
            true => {
                let (session, opened_by) = (run.scope.session, &run.scope.actor);
                let store = self.store.as_ref();
                let arguments = &arguments;
                let wish = Wish { session, opened_by, spec, arguments, config, store };
                self.policy_facts(wish).await
            }
            false => PolicyFacts {
                reports: self.policies.floor(spec, config).into_iter().collect(),
                unmet_precondition: None,
            },
        };
        let question = Question {
            contract: spec.contract(),
            arguments: &arguments,
            level: config.level,
            profile: config.profile,
            exposure: &config.exposure,
            reports: &reports,
            grants: &[],
            now: self.now(),
        };
        (question.derive(), unmet_precondition)
    }

    /// Runs a permitted call within its time, whatever its code does.
    pub(crate) async fn run_directly(&self, run: Run, found: Found) -> Returned {
        let limit = found.registered.spec().exec_timeout;
        let only_reads = found.registered.spec().contract().only_reads();
        let ended = |ran: RunResult| told(ran, only_reads);
        let unknown = |class, message: &str| {
            let returned = Returned::from(CallResult::Err(Failure::new(class, message)));
            told(
                RunResult { returned, effect: Effect::Unknown { may_still_run: false } },
                only_reads,
            )
        };
        let prepared = match self.prepare_directly(run, found).await {
            Ok(prepared) => prepared,
            Err(error) => return self.clean(error.into_returned()),
        };
        let context = prepared.context.clone();
        let mut work = pin!(self.run(prepared));
        let mut caught = pin!(catching(work.as_mut()));
        let panicked = |_: Panicked| unknown(ErrorClass::Internal, "the tool panicked");
        // Most tools are done before they ever wait: those need no timer.
        if let Poll::Ready(ran) = poll_fn(|cx| Poll::Ready(caught.as_mut().poll(cx))).await {
            return ran.map_or_else(panicked, ended);
        }
        let timer = context.timer().clone();
        tokio::select! {
            ran = caught => ran.map_or_else(panicked, ended),
            () = timer.elapsed(limit.into()) => {
                context.stop().cancel();
                unknown(ErrorClass::Timeout, "its time was up, and it was stopped")
            }
        }
    }

    async fn prepare_directly(&self, run: Run, found: Found) -> Result<Prepared, ToolError> {
        let Found { registered, mut arguments, refers, .. } = found;
        let code = registered.code().cloned().ok_or_else(|| {
            ToolError::internal(format!("`{}` has no code on this side to run", registered.name()))
        })?;
        let spec = registered.spec();
        if refers {
            let artifacts = &self.surroundings.artifacts;
            let resolved = references::resolve(artifacts, run.scope.session, arguments);
            arguments =
                Box::pin(resolved).await.map_err(|error| ToolError::invalid(error.to_string()))?;
            let checked = registered.input().check_object(arguments, &[]);
            arguments = checked.map_err(|misfit| {
                ToolError::invalid(misfit.without_secrets(&spec.redaction).to_string())
            })?;
        }
        let redactor = self.surroundings.redactor.with_call(&arguments, &spec.redaction);
        inject(&mut arguments, &spec.injected, &run.scope);
        let context = self.context(run, redactor);
        Ok(Prepared { registered, code, arguments, context })
    }
}

/// Nobody can settle a call that is not recorded: so the caller is told what is not known.
fn told(ran: RunResult, only_reads: bool) -> Returned {
    let RunResult { returned, effect } = ran;
    let result = match returned.result {
        CallResult::Err(failure) if matches!(effect, Effect::Unknown { .. }) && !only_reads => {
            let Failure { message, debug, partial, .. } = failure;
            CallResult::Err(Failure { debug, partial, ..Failure::effect_unknown(&message) })
        }
        result => result,
    };
    Returned { result, ..returned }
}
