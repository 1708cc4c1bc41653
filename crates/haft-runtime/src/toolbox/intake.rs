//! What a call gave, taken in: the one way from whoever ran it to the log and the model.
//!
//! A tool's code, a verify hook, a client, a person and a provider are all outside. What they say
//! is masked first, for half a secret is not recognised any more; then held against what the tool
//! declares and judged by the verifiers; then cut to size, with the whole kept as an artifact.

use haft_core::json::{self, DEPTH_MAX};
use haft_core::session::{Preview, ProviderResult, Returned, Verification};
use haft_core::{Arguments, CallResult, ContentBlock, ErrorClass, Failure, Output, SessionId};
use serde_json::Value;

use super::middleware::{Invocation, Judgement};
use super::{Redactor, Toolbox, bounds};
use crate::live::Step;
use crate::registry::Registered;
use crate::tool::{Run, ToolArguments, ToolContext};
use crate::unwinding::catching;

/// Whose result it is.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) registered: &'a Registered,
    pub(super) context: &'a ToolContext,
    /// The arguments that ran; `None` when there is no verifier to show them to.
    pub(super) arguments: Option<&'a ToolArguments>,
}

impl Toolbox {
    /// Takes in what a call gave.
    pub(super) async fn take_in(&self, origin: Origin<'_>, mut returned: Returned) -> Returned {
        let Origin { registered, context, arguments } = origin;
        let redactor = context.redactor();
        let (session, call) = (context.session(), context.call());
        self.live.step(session, call, Step::Message);
        flatten(&mut returned);
        redactor.returned(&mut returned);
        hold_against(registered, &mut returned.result);
        if let (CallResult::Ok(output), Some(arguments)) = (&mut returned.result, arguments) {
            let invocation = Invocation { spec: registered.spec(), arguments, context };
            let withheld = Box::pin(self.judged(invocation, redactor, output)).await;
            if let Some(failure) = withheld {
                returned.result = CallResult::Err(failure);
            }
        }
        self.live.step(session, call, Step::Artifacts);
        let max = registered.spec().max_result_bytes;
        if bounds::is_within(&returned, max) {
            return returned;
        }
        let artifacts = &self.surroundings.artifacts;
        Box::pin(bounds::bounded(returned, max, session, artifacts)).await
    }

    /// What a verifier will not pass is kept from the model: it is told what happened instead,
    /// for the call did run.
    async fn judged(
        &self,
        invocation: Invocation<'_>,
        redactor: &Redactor,
        output: &mut Output,
    ) -> Option<Failure> {
        for verifier in &self.verifiers {
            let judgement = catching(async { verifier.judge(invocation, output).await }).await;
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
            return Some(Failure::new(ErrorClass::Policy, redactor.text(&blocked)));
        }
        None
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
        let context = self.context(run.clone(), redactor);
        let origin = Origin { registered, context: &context, arguments: Some(&opened) };
        self.take_in(origin, returned).await
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

/// What is nested without end cannot be read back from the log, nor gone through without end: it
/// is taken apart before anything else looks at it.
fn flatten(returned: &mut Returned) {
    let value = match &mut returned.result {
        CallResult::Ok(output) => &mut output.value,
        CallResult::Err(failure) => &mut failure.partial,
    };
    if let Some(deep) = value.take_if(|value| is_too_deep(value)) {
        take_apart(deep);
        let message = format!(
            "the tool ran, but its result is nested deeper than {DEPTH_MAX} levels and was not kept"
        );
        returned.result = CallResult::Err(Failure::new(ErrorClass::ToolError, message));
    }
    if returned.extra.values().any(is_too_deep) {
        take_apart(Value::Object(std::mem::take(&mut returned.extra)));
    }
}

fn is_too_deep(value: &Value) -> bool {
    // Most results are flat, and need no counting.
    (value.is_array() || value.is_object()) && json::is_deeper_than(value, DEPTH_MAX)
}

/// Drops a value level by level: left to itself it would go down by recursion.
fn take_apart(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// What is not as the tool declares is kept from the model.
fn hold_against(registered: &Registered, result: &mut CallResult) {
    let (CallResult::Ok(output), Some(schema)) = (&mut *result, registered.output()) else {
        return;
    };
    if let Err(misfit) = schema.check(output.value.as_ref().unwrap_or(&Value::Null)) {
        let message = format!("the tool ran, but its result is not what it declares: {misfit}");
        let failure = Failure::new(ErrorClass::ToolError, message);
        *result = CallResult::Err(Failure { partial: output.value.take(), ..failure });
    }
}
