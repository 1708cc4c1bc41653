//! A call in this process alone: the same checks and the same way, and no record.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use haft_core::permission::{Derivation, Question};
use haft_core::session::{Config, PolicyFacts, Returned};
use haft_core::{Arguments, CallResult, ErrorClass, Failure};
use serde_json::Map;

use super::admission::{Given, admitted};
use super::execution::{Prepared, Run, inject};
use super::policy::Wish;
use super::{Toolbox, references};
use crate::live::Step;
use crate::registry::{Refusal, Registered};
use crate::tool::{ToolArguments, ToolError};
use crate::unwinding::catching;

impl Toolbox {
    /// Finds a tool and checks what it is given.
    pub(crate) fn admit_directly(
        &self,
        run: &Run,
        config: &Config,
        name: &str,
        given: Given<'_>,
    ) -> Result<(Arc<Registered>, ToolArguments), Refusal> {
        let Some(registered) = self.registry.get(name) else {
            return Err(self.registry.advertise(&config.exposure).unknown(name));
        };
        self.live.step(run.scope.session, run.scope.call, Step::NameKnown);
        let arguments = admitted(&registered, given)?;
        self.live.step(run.scope.session, run.scope.call, Step::ArgumentsFit);
        Ok((registered, arguments))
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
                self.policy_facts(Wish { session, opened_by, spec, arguments, store }).await
            }
            false => PolicyFacts::default(),
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
    pub(crate) async fn run_directly(
        &self,
        run: &Run,
        registered: Arc<Registered>,
        arguments: ToolArguments,
    ) -> Returned {
        let limit = registered.spec().exec_timeout;
        let prepared = match self.prepare_directly(run, registered, arguments).await {
            Ok(prepared) => prepared,
            Err(error) => return self.clean(error.into_returned()),
        };
        let work = catching(self.run(run, prepared));
        let mut caught = pin!(async {
            work.await.unwrap_or_else(|_| failed(ErrorClass::Internal, "the tool panicked"))
        });
        // Most tools are done before they ever wait: those need no timer.
        if let Poll::Ready(returned) = poll_fn(|cx| Poll::Ready(caught.as_mut().poll(cx))).await {
            return returned;
        }
        match tokio::time::timeout(limit.into(), caught).await {
            Ok(returned) => returned,
            Err(_) => {
                run.stop.cancel();
                failed(ErrorClass::Timeout, "it ran out of time and was stopped")
            }
        }
    }

    async fn prepare_directly(
        &self,
        run: &Run,
        registered: Arc<Registered>,
        arguments: ToolArguments,
    ) -> Result<Prepared, ToolError> {
        let code = registered.code().cloned().ok_or_else(|| {
            ToolError::internal(format!("`{}` has no code on this side to run", registered.name()))
        })?;
        let spec = registered.spec();
        let artifacts = &self.surroundings.artifacts;
        let resolved = references::resolve(artifacts, run.scope.session, arguments).await;
        let mut arguments = resolved.map_err(|error| ToolError::invalid(error.to_string()))?;
        let redactor = self.surroundings.redactor.with_call(&arguments, &spec.redaction);
        inject(&mut arguments, &spec.injected, &run.scope);
        let context = self.context(run).with_redactor(redactor);
        Ok(Prepared { registered, code, arguments, context })
    }
}

fn failed(class: ErrorClass, message: &str) -> Returned {
    Returned::from(CallResult::Err(Failure::new(class, message)))
}
