//! Running a call that may run, from its arguments to what the model reads.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use haft_core::session::{
    AttemptReport, Awaits, Call, Config, Delegation, EffectUnknown, Preview, Returned, Verification,
};
use haft_core::tool::{Hook, Injected, InjectedKind};
use haft_core::{Actor, CallResult, Digest, ErrorClass, Failure, MessageId, SessionId};
use serde_json::{Map, Value, json};

use super::intake::Origin;
use super::middleware::{Invocation, Next};
use super::policy::Wish;
use super::{Redactor, Toolbox, references};
use crate::fresh::fresh_bits;
use crate::live::Step;
use crate::registry::Registered;
use crate::tool::{
    Delegated, Role, Run, Scope, Tool, ToolArguments, ToolContext, ToolError, Until,
    leaves_effect_open,
};

/// A call with everything that its code needs.
pub(super) struct Prepared {
    pub(super) registered: Arc<Registered>,
    pub(super) code: Arc<dyn Tool>,
    pub(super) arguments: ToolArguments,
    pub(super) context: ToolContext,
}

/// Whose call it is.
#[derive(Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) opened_by: &'a Actor,
    pub(super) config: &'a Config,
}

impl Toolbox {
    /// Runs a call. Whatever happens is its outcome.
    pub(super) async fn execute(
        &self,
        run: &Run,
        whose: Whose<'_>,
        call: &Call,
        fingerprint: Option<Digest>,
    ) -> AttemptReport {
        let prepared = match self.prepare(run, call).await {
            Ok(prepared) => prepared,
            Err(error) => return AttemptReport::Returned(self.clean(error.into_returned())),
        };
        let (session, spec) = (run.scope.session, prepared.registered.spec());
        let store = self.store.as_ref();
        let Whose { opened_by, config } = whose;
        let arguments = &call.arguments;
        let wish = Wish { session, opened_by, spec, arguments, config, store };
        if let Some(failure) = self.no_longer_met(wish).await {
            return AttemptReport::Returned(Returned::from(CallResult::Err(failure)));
        }
        if let Some(shown) = fingerprint {
            let preview = self.shown(&prepared).await;
            if preview.fingerprint != shown || preview.trouble.is_some() {
                return AttemptReport::WorldMoved { preview };
            }
        }
        match prepared.code.delegates(&prepared.arguments, &prepared.context) {
            Ok(None) => {}
            Ok(Some(given)) => return self.delegation(given, whose.config),
            Err(error) => return AttemptReport::Returned(self.clean(error.into_returned())),
        }
        self.run(prepared).await.into()
    }

    /// What must hold before a call runs must hold when it runs: it may have waited since it was
    /// asked about.
    async fn no_longer_met(&self, wish: Wish<'_>) -> Option<Failure> {
        let why = self.policies.unmet(wish).await?;
        Some(Failure::new(ErrorClass::Gate, self.surroundings.redactor.text(&why)))
    }

    /// Gives a call's work to a child that does not exist yet.
    fn delegation(&self, given: Delegated, own: &Config) -> AttemptReport {
        let now = self.clock.now();
        let (Ok(child), Ok(message)) = (fresh_bits(now), fresh_bits(now)) else {
            let error = ToolError::internal("the system gives no randomness for ids");
            return AttemptReport::Returned(error.into_returned());
        };
        let (child, message) = (SessionId::from_bits(child), MessageId::from_bits(message));
        let Delegated { role, task, goal, until } = given;
        let config = match wished(role, own) {
            Ok(config) => config,
            Err(error) => return AttemptReport::Returned(self.clean(error.into_returned())),
        };
        let awaits = match until {
            Until::Word => Awaits::Word,
            Until::Opening(told) => Awaits::Opening { output: told(child) },
        };
        let delegation = Delegation { child, message, config, task, goal, awaits };
        AttemptReport::Delegated(Box::new(delegation))
    }

    /// Runs a call that is ready, down to what the model reads.
    pub(super) async fn run(&self, prepared: Prepared) -> RunResult {
        let span = span(&prepared);
        let mut work = pin!(self.enter(prepared));
        // Not `instrument`: that would move the work, which is large.
        let ran = poll_fn(|context| {
            let _entered = span.enter();
            work.as_mut().poll(context)
        });
        let ran = ran.await;
        if let CallResult::Err(failure) = &ran.returned.result {
            span.record("error.type", failure.class.code());
        }
        ran
    }

    async fn enter(&self, prepared: Prepared) -> RunResult {
        match self.is_bare() {
            true => self.enter_bare(prepared).await,
            false => Box::pin(self.enter_guarded(prepared)).await,
        }
    }

    /// Whether nothing stands around the calls, so that nobody needs to see their arguments.
    fn is_bare(&self) -> bool {
        self.middleware.is_empty() && self.verifiers.is_empty()
    }

    /// Runs the tool's code with nothing around it.
    async fn enter_bare(&self, prepared: Prepared) -> RunResult {
        let Prepared { registered, code, arguments, context } = prepared;
        let (session, call) = (context.session(), context.call());
        self.live.step(session, call, Step::Before);
        self.live.step(session, call, Step::Executing);
        let entered = match context.enter() {
            Ok(()) => code.call(arguments, context.clone()).await,
            Err(error) => Err(error.without_effect()),
        };
        self.live.step(session, call, Step::After);
        let RunResult { returned, effect } = RunResult::of(entered);
        let origin = Origin { registered: &registered, context: &context, arguments: None };
        RunResult { returned: self.take_in(origin, returned).await, effect }
    }

    /// Runs the tool's code with all that the application puts around it.
    async fn enter_guarded(&self, prepared: Prepared) -> RunResult {
        let Prepared { registered, code, arguments, context } = &prepared;
        let (session, call) = (context.session(), context.call());
        let invocation = Invocation { spec: registered.spec(), arguments, context };
        self.live.step(session, call, Step::Before);
        let entered = match self.before(invocation).await {
            Ok(()) => {
                self.live.step(session, call, Step::Executing);
                let next = Next::new(&self.middleware, &**code);
                next.run(arguments.clone(), context.clone()).await
            }
            Err(error) => {
                let returned = self.take_in(prepared.origin(), error.into_returned()).await;
                return RunResult { returned, effect: Effect::Told };
            }
        };
        self.live.step(session, call, Step::After);
        let RunResult { mut returned, effect } = RunResult::of(entered);
        for hook in self.middleware.iter().rev() {
            returned = hook.after(invocation, returned).await;
        }
        RunResult { returned: self.take_in(prepared.origin(), returned).await, effect }
    }

    async fn before(&self, invocation: Invocation<'_>) -> Result<(), ToolError> {
        for hook in &self.middleware {
            hook.before(invocation).await?;
        }
        invocation.context.enter()
    }

    /// Finds out what a call would do.
    pub(super) async fn preview(&self, run: &Run, call: &Call) -> Preview {
        match self.prepare(run, call).await {
            Ok(prepared) => self.shown(&prepared).await,
            Err(error) => {
                let redactor = &self.surroundings.redactor;
                self.take_in_preview(run.scope.session, redactor, trouble(&error)).await
            }
        }
    }

    async fn shown(&self, prepared: &Prepared) -> Preview {
        let Prepared { code, arguments, context, .. } = prepared;
        let shown = code.preview(arguments.clone(), context.clone()).await;
        let preview = shown.unwrap_or_else(|error| trouble(&error));
        self.take_in_preview(context.session(), context.redactor(), preview).await
    }

    /// Finds out what a call would do that nobody has asked for yet. Nothing is recorded.
    pub(crate) async fn foresee(
        &self,
        scope: Scope,
        registered: Arc<Registered>,
        arguments: Map<String, Value>,
    ) -> Result<Preview, ToolError> {
        if !registered.spec().hooks.contains(&Hook::Preview) {
            let message = format!("`{}` cannot say beforehand what it does", registered.name());
            return Err(ToolError::invalid(message));
        }
        let patience = Duration::from_millis(registered.spec().exec_timeout.0);
        let run = Run::unstoppable(scope);
        let prepared = self.assemble(&run, registered, arguments).await?;
        let shown = tokio::time::timeout(patience, self.shown(&prepared)).await;
        shown.map_err(|_| ToolError::upstream("the preview took too long"))
    }

    /// Finds out what became of an attempt.
    pub(super) async fn verify(&self, run: &Run, call: &Call) -> Verification {
        let Ok(prepared) = self.prepare(run, call).await else { return Verification::Unknown };
        let Prepared { code, arguments, context, .. } = &prepared;
        let verdict = code.verify(arguments.clone(), context.clone()).await;
        self.take_in_verdict(prepared.origin(), verdict).await
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
        let redaction = &registered.spec().redaction;
        let opened = self.sealer.open(run.scope.session, &call.arguments, redaction).await;
        let opened = opened.map_err(|error| ToolError::internal(error.to_string()))?;
        self.assemble(run, registered, opened).await
    }

    /// Adds to a tool and its arguments what the runtime has for them.
    async fn assemble(
        &self,
        run: &Run,
        registered: Arc<Registered>,
        opened: Map<String, Value>,
    ) -> Result<Prepared, ToolError> {
        let code = registered.code().cloned().ok_or_else(|| {
            let name = registered.name();
            ToolError::internal(format!("`{name}` has no code on this side to run"))
        })?;
        let redaction = &registered.spec().redaction;
        let artifacts = &self.surroundings.artifacts;
        let resolved = references::resolve(artifacts, run.scope.session, opened).await;
        let arguments = resolved.map_err(|error| ToolError::invalid(error.to_string()))?;
        let redactor = self.surroundings.redactor.with_call(&arguments, redaction);
        let checked = registered.input().check_object(arguments, &[]);
        let mut arguments = checked
            .map_err(|misfit| ToolError::invalid(misfit.without_secrets(redaction).to_string()))?;
        inject(&mut arguments, &registered.spec().injected, &run.scope);
        let context = self.context(run.clone(), redactor);
        Ok(Prepared { registered, code, arguments, context })
    }

    pub(super) fn context(&self, run: Run, redactor: Redactor) -> ToolContext {
        ToolContext::new(run, Arc::clone(&self.surroundings), redactor)
    }

    pub(crate) fn clean(&self, mut returned: Returned) -> Returned {
        self.surroundings.redactor.returned(&mut returned);
        returned
    }
}

/// What came of entering a tool's code.
pub(super) struct RunResult {
    pub(super) returned: Returned,
    pub(super) effect: Effect,
}

/// Whether it is known what a call did that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is as the failure says.
    Told,
    /// It may have taken effect all the same.
    Unknown {
        /// Whether the code may still be at it, somewhere else.
        may_still_run: bool,
    },
}

impl RunResult {
    fn of(entered: Result<Returned, ToolError>) -> Self {
        let (is_unknown, may_still_run) = match &entered {
            Ok(Returned { result: CallResult::Ok(_), .. }) => (false, false),
            Ok(Returned { result: CallResult::Err(failure), .. }) => {
                (leaves_effect_open(failure.class), false)
            }
            Err(error) => (error.is_effect_unknown(), error.may_still_run()),
        };
        let effect = if is_unknown { Effect::Unknown { may_still_run } } else { Effect::Told };
        Self { returned: entered.unwrap_or_else(ToolError::into_returned), effect }
    }
}

impl From<RunResult> for AttemptReport {
    fn from(ran: RunResult) -> Self {
        match (ran.returned.result, ran.effect) {
            (CallResult::Err(failure), Effect::Unknown { may_still_run }) => {
                Self::EffectUnknown(EffectUnknown { failure, may_still_run })
            }
            (result, _) => Self::Returned(Returned { result, ..ran.returned }),
        }
    }
}

impl Prepared {
    fn origin(&self) -> Origin<'_> {
        let Self { registered, arguments, context, .. } = self;
        Origin { registered, context, arguments: Some(arguments) }
    }
}

/// How a sub-agent wishes to behave that works as someone for a session that is set up so.
fn wished(role: Role, own: &Config) -> Result<Config, ToolError> {
    let listed = || {
        let names: Vec<&str> = own.roster.iter().map(|colleague| &*colleague.name).collect();
        names.join("`, `")
    };
    match role {
        Role::Same if own.roster.is_empty() => Ok(own.clone()),
        Role::Other(config) => Ok(*config),
        Role::Same => Err(ToolError::invalid(format!(
            "this session gives work to its roster only; name one of `{}`",
            listed()
        ))),
        Role::Colleague(named) => match own.colleague(&named) {
            Some(colleague) => Ok(colleague.config.clone()),
            None if own.roster.is_empty() => Err(ToolError::invalid(
                "this session has no roster; name nobody, and this agent does it in another session",
            )),
            None => {
                let named: String = named.chars().take(80).collect();
                Err(ToolError::invalid(format!(
                    "expected an agent of the roster, one of `{}`, found {named:?}",
                    listed()
                )))
            }
        },
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
