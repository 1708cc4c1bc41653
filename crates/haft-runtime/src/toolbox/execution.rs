//! Running a call that may run, from its arguments to what the model reads.

use std::sync::Arc;

use haft_core::session::{AttemptReport, Call, Delegation, Preview, Returned, Verification};
use haft_core::tool::{Injected, InjectedKind};
use haft_core::{
    CallResult, ContentBlock, Digest, ErrorClass, Failure, MessageId, Output, SessionId,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::middleware::{Invocation, Judgement, Next};
use super::{Redactor, Toolbox, bounds, references};
use crate::fresh::fresh_bits;
use crate::live::Step;
use crate::registry::Registered;
use crate::tool::{Delegated, Scope, Tool, ToolArguments, ToolContext, ToolError};

/// One attempt at a call.
pub(crate) struct Run {
    pub(crate) scope: Scope,
    pub(crate) stop: CancellationToken,
}

/// A call with everything that its code needs.
pub(super) struct Prepared {
    pub(super) registered: Arc<Registered>,
    pub(super) code: Arc<dyn Tool>,
    pub(super) arguments: ToolArguments,
    pub(super) context: ToolContext,
    /// Masks the call's own secrets.
    pub(super) redactor: Redactor,
}

impl Toolbox {
    /// Runs a call. Whatever happens is its outcome.
    pub(super) async fn execute(
        &self,
        run: &Run,
        call: &Call,
        fingerprint: Option<Digest>,
    ) -> AttemptReport {
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
        if let Some(given) = prepared.code.delegates(&prepared.arguments) {
            return self.delegation(given);
        }
        AttemptReport::Returned(self.run(prepared).await)
    }

    /// Gives a call's work to a child that does not exist yet.
    fn delegation(&self, given: Delegated) -> AttemptReport {
        let now = self.clock.now();
        let (Ok(child), Ok(message)) = (fresh_bits(now), fresh_bits(now)) else {
            let error = ToolError::internal("the system gives no randomness for ids");
            return AttemptReport::Returned(error.into_returned());
        };
        let Delegated { config, task } = given;
        AttemptReport::Delegated(Box::new(Delegation {
            child: SessionId::from_bits(child),
            message: MessageId::from_bits(message),
            config,
            task,
        }))
    }

    /// Runs a call that is ready, down to what the model reads.
    pub(super) async fn run(&self, prepared: Prepared) -> Returned {
        let span = span(&prepared);
        let returned = self.run_within(prepared).instrument(span.clone()).await;
        if let CallResult::Err(failure) = &returned.result {
            span.record("error.type", failure.class.code());
        }
        returned
    }

    async fn run_within(&self, prepared: Prepared) -> Returned {
        let (registered, redactor) = (Arc::clone(&prepared.registered), prepared.redactor.clone());
        let (session, call) = (prepared.context.session(), prepared.context.call());
        let mut returned = match self.is_bare() {
            true => self.enter(&registered, prepared).await,
            false => self.enter_guarded(&registered, prepared).await,
        };
        self.live.step(session, call, Step::Message);
        self.mask(&redactor, &mut returned);
        self.live.step(session, call, Step::Artifacts);
        let (max, artifacts) = (registered.spec().max_result_bytes, &self.surroundings.artifacts);
        bounds::bounded(returned, max, session, artifacts).await
    }

    /// Whether nothing stands around the calls, so that nobody needs to see their arguments.
    fn is_bare(&self) -> bool {
        self.middleware.is_empty() && self.verifiers.is_empty()
    }

    /// Runs the tool's code with nothing around it.
    async fn enter(&self, registered: &Registered, prepared: Prepared) -> Returned {
        let Prepared { code, arguments, context, redactor, .. } = prepared;
        let (session, call) = (context.session(), context.call());
        self.live.step(session, call, Step::Before);
        self.live.step(session, call, Step::Executing);
        let entered = match context.require_going() {
            Ok(()) => code.call(arguments, context).await,
            Err(error) => Err(error),
        };
        self.live.step(session, call, Step::After);
        let mut returned = entered.unwrap_or_else(ToolError::into_returned);
        self.mask(&redactor, &mut returned);
        match returned.result {
            CallResult::Ok(output) => {
                Returned { result: conforming(registered, output), ..returned }
            }
            CallResult::Err(_) => returned,
        }
    }

    /// Runs the tool's code with all that the application puts around it.
    async fn enter_guarded(&self, registered: &Registered, prepared: Prepared) -> Returned {
        let Prepared { code, arguments, context, .. } = &prepared;
        let (session, call) = (context.session(), context.call());
        let invocation = Invocation { spec: registered.spec(), arguments, context };
        self.live.step(session, call, Step::Before);
        for hook in &self.middleware {
            if let Err(error) = hook.before(invocation).await {
                return error.into_returned();
            }
        }
        self.live.step(session, call, Step::Executing);
        let entered = match context.require_going() {
            Ok(()) => {
                let next = Next::new(&self.middleware, &**code);
                next.run(arguments.clone(), context.clone()).await
            }
            Err(error) => Err(error),
        };
        self.live.step(session, call, Step::After);
        let mut returned = entered.unwrap_or_else(ToolError::into_returned);
        for hook in self.middleware.iter().rev() {
            returned = hook.after(invocation, returned).await;
        }
        self.mask(&prepared.redactor, &mut returned);
        match returned.result {
            CallResult::Ok(output) => {
                let result = match conforming(registered, output) {
                    CallResult::Ok(output) => self.judged(invocation, output).await,
                    misfit @ CallResult::Err(_) => misfit,
                };
                Returned { result, ..returned }
            }
            CallResult::Err(_) => returned,
        }
    }

    /// What a verifier will not pass is kept from the model: it is told what happened instead,
    /// for the call did run.
    async fn judged(&self, invocation: Invocation<'_>, mut output: Output) -> CallResult {
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
            Err(error) => trouble(&ToolError::new(
                self.surroundings.redactor.text(&error.to_string()).into_owned(),
            )),
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
                let returned = bounds::bounded(returned, max, run.scope.session, artifacts).await;
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
        let opened = self.sealer.open(run.scope.session, &call.arguments, redaction).await;
        let opened = opened.map_err(|error| ToolError::internal(error.to_string()))?;
        let artifacts = &self.surroundings.artifacts;
        let resolved = references::resolve(artifacts, run.scope.session, opened).await;
        let arguments = resolved.map_err(|error| ToolError::invalid(error.to_string()))?;
        let redactor = Redactor::of_call(&arguments, redaction);
        let checked = registered.input().check_object(arguments, &[]);
        let mut arguments = checked
            .map_err(|misfit| ToolError::invalid(misfit.without_secrets(redaction).to_string()))?;
        inject(&mut arguments, &registered.spec().injected, &run.scope);
        let context = self.context(run).with_redactor(redactor.clone());
        Ok(Prepared { registered, code, arguments, context, redactor })
    }

    pub(super) fn context(&self, run: &Run) -> ToolContext {
        ToolContext::new(run.scope.clone(), Arc::clone(&self.surroundings), run.stop.clone())
    }

    /// Masks before anything is quoted or cut: half a secret is not recognised any more.
    fn mask(&self, redactor: &Redactor, returned: &mut Returned) {
        redactor.returned(returned);
        self.surroundings.redactor.returned(returned);
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

fn span(prepared: &Prepared) -> tracing::Span {
    let (tool, context) = (prepared.registered.name(), &prepared.context);
    tracing::info_span!(
        "execute_tool",
        otel.name = %format_args!("execute_tool {tool}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = %tool,
        gen_ai.tool.call.id = %context.call(),
        gen_ai.conversation.id = %context.session(),
        haft.attempt = context.attempt(),
        error.r#type = tracing::field::Empty,
    )
}

fn trouble(error: &ToolError) -> Preview {
    let trouble = Some(error.to_string());
    Preview { fingerprint: Digest::ZERO, targets: Vec::new(), diff: None, trouble }
}

/// Supplies the declared arguments that are values; handles are taken from the context. Whatever
/// a model sent in their place was taken out when the call was proposed.
pub(super) fn inject(arguments: &mut ToolArguments, injected: &[Injected], scope: &Scope) {
    let Scope { session, turn, call, attempt, actor } = scope;
    for Injected { name, kind } in injected {
        let value = match kind {
            InjectedKind::ThreadId => json!(session),
            InjectedKind::RunId => json!(format!("{session}/{turn}")),
            InjectedKind::RunContext => json!({
                "session": session,
                "turn": turn,
                "call": call,
                "attempt": attempt,
                "actor": actor,
            }),
            InjectedKind::State
            | InjectedKind::Store
            | InjectedKind::Events
            | InjectedKind::Stream
            | InjectedKind::Cancellation
            | InjectedKind::Secret => continue,
        };
        arguments.insert(name.clone(), value);
    }
}
