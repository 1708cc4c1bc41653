//! What a call gave, taken in: the one way from whoever ran it to the log and the model.
//!
//! A tool's code, a verify hook, a client, a person and a provider are all outside. What they say
//! is masked first, for half a secret is not recognised any more; then held against what the tool
//! declares and judged by the verifiers; then cut to size, with the whole kept as an artifact.

use haft_core::session::{Preview, ProviderResult, Returned, Verification};
use haft_core::{Arguments, CallResult, ContentBlock, ErrorClass, Failure, Output, SessionId};
use serde_json::Value;

use super::execution::Run;
use super::middleware::{Invocation, Judgement};
use super::{Redactor, Toolbox, bounds};
use crate::live::Step;
use crate::registry::Registered;
use crate::unwinding::catching;

/// Whose result it is.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) registered: &'a Registered,
    /// Masks the secrets of the node and of the call.
    pub(super) redactor: &'a Redactor,
    pub(super) run: &'a Run,
    /// What the verifiers are shown; `None` when there are none.
    pub(super) invocation: Option<Invocation<'a>>,
}

impl Toolbox {
    /// Takes in what a call gave.
    pub(super) async fn take_in(&self, origin: Origin<'_>, mut returned: Returned) -> Returned {
        let Origin { registered, redactor, run, invocation } = origin;
        let (session, call) = (run.scope.session, run.scope.call);
        self.live.step(session, call, Step::Message);
        redactor.returned(&mut returned);
        let result = match returned.result {
            CallResult::Ok(output) => match (conforming(registered, output), invocation) {
                (CallResult::Ok(output), Some(invocation)) => {
                    self.judged(invocation, redactor, output).await
                }
                (result, _) => result,
            },
            failed @ CallResult::Err(_) => failed,
        };
        self.live.step(session, call, Step::Artifacts);
        let (max, artifacts) = (registered.spec().max_result_bytes, &self.surroundings.artifacts);
        bounds::bounded(Returned { result, ..returned }, max, session, artifacts).await
    }

    /// What a verifier will not pass is kept from the model: it is told what happened instead,
    /// for the call did run.
    async fn judged(
        &self,
        invocation: Invocation<'_>,
        redactor: &Redactor,
        mut output: Output,
    ) -> CallResult {
        for verifier in &self.verifiers {
            let judgement = catching(async { verifier.judge(invocation, &output).await }).await;
            let blocked = match judgement {
                Ok(Ok(Judgement::Pass)) => continue,
                Ok(Ok(Judgement::Warn(text))) => {
                    let text = format!("Warning: {}", redactor.text(&text));
                    output.content.push(ContentBlock::Text { text });
                    continue;
                }
                Ok(Ok(Judgement::Block(why))) => {
                    format!("the tool ran, but its result is withheld: {why}")
                }
                Ok(Err(error)) => {
                    format!("the tool ran, but its result could not be verified: {error}")
                }
                Err(_) => {
                    "the tool ran, but its result could not be verified: a verifier panicked".into()
                }
            };
            return CallResult::Err(Failure::new(ErrorClass::Policy, redactor.text(&blocked)));
        }
        CallResult::Ok(output)
    }

    /// Takes in what someone outside this process gave for a call.
    pub(crate) async fn take_in_from_outside(
        &self,
        run: &Run,
        registered: &Registered,
        arguments: &Arguments,
        returned: Returned,
    ) -> Returned {
        let redaction = &registered.spec().redaction;
        let opened = match self.sealer.open(run.scope.session, arguments, redaction).await {
            Ok(opened) => opened,
            Err(error) => {
                let message = format!(
                    "the tool ran, but its result is withheld: without the call's secrets \
                     nobody can tell whether it repeats them: {error}"
                );
                return Returned::from(CallResult::Err(Failure::new(
                    ErrorClass::Internal,
                    message,
                )));
            }
        };
        let redactor = self.surroundings.redactor.with_call(&opened, redaction);
        let context = self.context(run).with_redactor(redactor.clone());
        let invocation =
            Invocation { spec: registered.spec(), arguments: &opened, context: &context };
        let invocation = (!self.verifiers.is_empty()).then_some(invocation);
        self.take_in(Origin { registered, redactor: &redactor, run, invocation }, returned).await
    }

    /// Takes in what a verify hook found.
    pub(super) async fn take_in_verdict(
        &self,
        origin: Origin<'_>,
        verdict: Verification,
    ) -> Verification {
        let result = match verdict {
            Verification::Applied(output) => CallResult::Ok(output),
            Verification::Withheld(failure) => CallResult::Err(failure),
            verdict @ (Verification::Absent | Verification::Unknown) => return verdict,
        };
        match self.take_in(origin, Returned::from(result)).await.result {
            CallResult::Ok(output) => Verification::Applied(output),
            CallResult::Err(failure) => Verification::Withheld(failure),
        }
    }

    /// Takes in a result of the provider's. One that no call waits for says nothing.
    pub(super) async fn take_in_from_provider(
        &self,
        of: Option<(&Run, &Registered, &Arguments)>,
        given: ProviderResult,
    ) -> ProviderResult {
        let ProviderResult { provider_id, result, meta } = given;
        let Some((run, registered, arguments)) = of else {
            let failure = Failure::new(ErrorClass::Upstream, "no call waits for this result");
            return ProviderResult { provider_id, result: CallResult::Err(failure), meta: None };
        };
        let returned = Returned::from(result);
        let returned = self.take_in_from_outside(run, registered, arguments, returned).await;
        let meta = meta.map(|mut meta| {
            self.surroundings.redactor.value(&mut meta);
            bounds::meta(meta)
        });
        ProviderResult { provider_id, result: returned.result, meta }
    }

    /// Takes in what a call would do.
    pub(super) async fn take_in_preview(
        &self,
        session: SessionId,
        redactor: &Redactor,
        mut preview: Preview,
    ) -> Preview {
        redactor.preview(&mut preview);
        bounds::preview(preview, session, &self.surroundings.artifacts).await
    }
}

/// What is not as the tool declares is kept from the model.
fn conforming(registered: &Registered, output: Output) -> CallResult {
    let Some(schema) = registered.output() else { return CallResult::Ok(output) };
    match schema.check(output.value.as_ref().unwrap_or(&Value::Null)) {
        Ok(()) => CallResult::Ok(output),
        Err(misfit) => {
            let message = format!("the tool ran, but its result is not what it declares: {misfit}");
            let failure = Failure::new(ErrorClass::ToolError, message);
            CallResult::Err(Failure { partial: output.value, ..failure })
        }
    }
}
