//! Running a call that may run, from its arguments to what the model reads.

use std::sync::Arc;

use haft_core::session::{AttemptReport, Call, Preview, Returned, Verification};
use haft_core::tool::{Injected, InjectedKind};
use haft_core::{Actor, CallResult, ContentBlock, Digest, ErrorClass, Failure, Output, SessionId};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::middleware::{Invocation, Judgement, Next};
use super::{Redactor, Toolbox, bounds, references};
use crate::live::Step;
use crate::registry::Registered;
use crate::schema::Misfit;
use crate::tool::{Scope, Tool, ToolArguments, ToolContext, ToolError};

/// One attempt at a call.
pub(super) struct Run {
    pub(super) session: SessionId,
    pub(super) opened_by: Actor,
    pub(super) turn: u32,
    pub(super) attempt: u32,
    pub(super) stop: CancellationToken,
}

/// A call with everything that its code needs.
struct Prepared {
    registered: Arc<Registered>,
    code: Arc<dyn Tool>,
    arguments: ToolArguments,
    context: ToolContext,
    /// Masks the call's own secrets.
    redactor: Redactor,
}

impl Toolbox {
    /// Runs a call. Whatever happens is its outcome.
    pub(super) async fn execute(
        &self,
        run: &Run,
        call: &Call,
        fingerprint: Option<Digest>,
    ) -> AttemptReport {
        let tool = &call.contract.tool;
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = %format_args!("execute_tool {tool}"),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = %tool,
            gen_ai.tool.call.id = %call.id,
            gen_ai.conversation.id = %run.session,
            haft.attempt = run.attempt,
            error.r#type = tracing::field::Empty,
        );
        let report = self.attempt(run, call, fingerprint).instrument(span.clone()).await;
        if let AttemptReport::Returned(Returned { result: CallResult::Err(failure), .. }) = &report
        {
            span.record("error.type", failure.class.code());
        }
        report
    }

    async fn attempt(&self, run: &Run, call: &Call, fingerprint: Option<Digest>) -> AttemptReport {
        let prepared = match self.prepare(run, call).await {
            Ok(prepared) => prepared,
            Err(error) => return AttemptReport::Returned(self.clean(error.into_returned())),
        };
        if let Some(shown) = fingerprint {
            let preview = prepared.preview(&self.surroundings.redactor).await;
            if preview.fingerprint != shown || preview.trouble.is_some() {
                return AttemptReport::WorldMoved { preview };
            }
        }
        let max = prepared.registered.spec().max_result_bytes;
        let mut returned = self.run(run, call, &prepared).await;
        self.live.step(run.session, call.id, Step::Message);
        prepared.redactor.returned(&mut returned);
        let returned = self.clean(returned);
        self.live.step(run.session, call.id, Step::Artifacts);
        let artifacts = &self.surroundings.artifacts;
        AttemptReport::Returned(bounds::bounded(returned, max, run.session, artifacts).await)
    }

    /// From the hooks before a call to those after it.
    async fn run(&self, run: &Run, call: &Call, prepared: &Prepared) -> Returned {
        let Prepared { registered, code, arguments, context, .. } = prepared;
        let spec = registered.spec();
        let invocation = Invocation { spec, arguments, context };
        self.live.step(run.session, call.id, Step::Before);
        for hook in &self.middleware {
            if let Err(error) = hook.before(invocation).await {
                return error.into_returned();
            }
        }
        self.live.step(run.session, call.id, Step::Executing);
        let entered = match context.require_going() {
            Ok(()) => {
                let next = Next::new(&self.middleware, &**code);
                next.run(arguments.clone(), context.clone()).await
            }
            Err(error) => Err(error),
        };
        self.live.step(run.session, call.id, Step::After);
        let mut returned = entered.unwrap_or_else(ToolError::into_returned);
        for hook in self.middleware.iter().rev() {
            returned = hook.after(invocation, returned).await;
        }
        match returned.result {
            CallResult::Ok(output) => {
                let result = self.judged(registered, invocation, output).await;
                Returned { result, ..returned }
            }
            CallResult::Err(_) => returned,
        }
    }

    /// What does not fit its schema, or a verifier will not pass, is kept from the model: it is
    /// told what happened instead, for the call did run.
    async fn judged(
        &self,
        registered: &Registered,
        invocation: Invocation<'_>,
        mut output: Output,
    ) -> CallResult {
        if let Err(misfit) = fits(registered, &output) {
            let message = format!("the tool ran, but its result is not what it declares: {misfit}");
            let partial = output.value;
            return CallResult::Err(Failure {
                partial,
                ..Failure::new(ErrorClass::ToolError, message)
            });
        }
        for verifier in &self.verifiers {
            let blocked = match verifier.judge(invocation, &output).await {
                Ok(Judgement::Pass) => continue,
                Ok(Judgement::Warn(text)) => {
                    output.content.push(ContentBlock::Text { text: format!("Warning: {text}") });
                    continue;
                }
                Ok(Judgement::Block(why)) => {
                    format!("the tool ran, but its result is withheld: {why}")
                }
                Err(error) => {
                    format!("the tool ran, but its result could not be verified: {error}")
                }
            };
            return CallResult::Err(Failure::new(ErrorClass::Policy, blocked));
        }
        CallResult::Ok(output)
    }

    /// Finds out what a call would do.
    pub(super) async fn preview(&self, run: &Run, call: &Call) -> Preview {
        match self.prepare(run, call).await {
            Ok(prepared) => prepared.preview(&self.surroundings.redactor).await,
            Err(error) => trouble(&error),
        }
    }

    /// Finds out what became of an attempt.
    pub(super) async fn verify(&self, run: &Run, call: &Call) -> Verification {
        let Ok(prepared) = self.prepare(run, call).await else { return Verification::Unknown };
        let Prepared { code, arguments, context, redactor, registered } = prepared;
        match code.verify(arguments, context).await {
            Verification::Applied(mut output) => {
                redactor.output(&mut output);
                self.surroundings.redactor.output(&mut output);
                let returned = Returned::from(CallResult::Ok(output));
                let max = registered.spec().max_result_bytes;
                let artifacts = &self.surroundings.artifacts;
                let returned = bounds::bounded(returned, max, run.session, artifacts).await;
                match returned.result {
                    CallResult::Ok(output) => Verification::Applied(output),
                    CallResult::Err(_) => Verification::Unknown,
                }
            }
            verdict => verdict,
        }
    }

    /// Brings together what a call needs; fails where something is not as it was permitted.
    async fn prepare(&self, run: &Run, call: &Call) -> Result<Prepared, ToolError> {
        let name = &call.contract.tool;
        let registered = self.registry.get(name.as_str()).ok_or_else(|| {
            let message = format!("`{name}` is not registered here any more");
            ToolError::from_failure(Failure::new(ErrorClass::UnknownTool, message))
        })?;
        if registered.spec().contract().digest != call.contract.digest {
            let message = format!("`{name}` is not the tool that was permitted: it has changed");
            return Err(ToolError::from_failure(Failure::new(ErrorClass::Gate, message)));
        }
        let code = registered.code().cloned().ok_or_else(|| {
            ToolError::internal(format!("`{name}` has no code on this side to run"))
        })?;
        let redaction = &registered.spec().redaction;
        let opened = self.sealer.open(run.session, &call.arguments, redaction).await;
        let opened = opened.map_err(|error| ToolError::internal(error.to_string()))?;
        let redactor = Redactor::of_call(&opened, redaction);
        let artifacts = &self.surroundings.artifacts;
        let resolved = references::resolve(artifacts, run.session, opened).await;
        let arguments = resolved.map_err(|error| ToolError::invalid(error.to_string()))?;
        let checked = registered.input().check_object(arguments, &[]);
        let mut arguments = checked.map_err(|misfit| ToolError::invalid(misfit.to_string()))?;
        inject(&mut arguments, &registered.spec().injected, run, call);
        let context = self.context(run, call);
        Ok(Prepared { registered, code, arguments, context, redactor })
    }

    fn context(&self, run: &Run, call: &Call) -> ToolContext {
        let actor = call.approved_by().unwrap_or(&run.opened_by).clone();
        let Run { session, turn, attempt, .. } = *run;
        let scope = Scope { session, turn, call: call.id, attempt, actor };
        ToolContext::new(scope, Arc::clone(&self.surroundings), run.stop.clone())
    }

    fn clean(&self, mut returned: Returned) -> Returned {
        self.surroundings.redactor.returned(&mut returned);
        returned
    }
}

impl Prepared {
    async fn preview(&self, known: &Redactor) -> Preview {
        let shown = self.code.preview(self.arguments.clone(), self.context.clone()).await;
        let mut preview = shown.unwrap_or_else(|error| trouble(&error));
        for redactor in [&self.redactor, known] {
            let texts = preview.targets.iter_mut().chain(&mut preview.diff);
            texts.chain(&mut preview.trouble).for_each(|text| {
                *text = redactor.text(text).into_owned();
            });
        }
        preview
    }
}

fn fits(registered: &Registered, output: &Output) -> Result<(), Misfit> {
    match registered.output() {
        Some(schema) => schema.check(output.value.as_ref().unwrap_or(&Value::Null)),
        None => Ok(()),
    }
}

fn trouble(error: &ToolError) -> Preview {
    let trouble = Some(error.to_string());
    Preview { fingerprint: Digest::ZERO, targets: Vec::new(), diff: None, trouble }
}

/// Supplies the declared arguments that are values; handles are taken from the context. Whatever
/// a model sent in their place was taken out when the call was proposed.
fn inject(arguments: &mut ToolArguments, injected: &[Injected], run: &Run, call: &Call) {
    for Injected { name, kind } in injected {
        let value = match kind {
            InjectedKind::ThreadId => json!(run.session),
            InjectedKind::RunId => json!(format!("{}/{}", run.session, run.turn)),
            InjectedKind::RunContext => json!({
                "session": run.session,
                "turn": run.turn,
                "call": call.id,
                "attempt": run.attempt,
                "actor": call.approved_by().unwrap_or(&run.opened_by),
            }),
            InjectedKind::State
            | InjectedKind::Store
            | InjectedKind::Events
            | InjectedKind::Stream
            | InjectedKind::Cancellation
            | InjectedKind::Secret => Value::Null,
        };
        if !value.is_null() {
            arguments.insert(name.clone(), value);
        }
    }
}
