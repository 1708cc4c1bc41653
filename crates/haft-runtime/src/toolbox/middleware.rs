//! What an application puts around every call: hooks before and after, wrappers, verifiers.

use std::fmt;
use std::sync::Arc;

use haft_core::Output;
use haft_core::session::Returned;
use haft_core::tool::ToolSpec;

use crate::tool::{Tool, ToolArguments, ToolContext, ToolError, ToolFuture};

/// A call that is about to run or has run.
#[derive(Clone, Copy)]
pub struct Invocation<'a> {
    /// The tool, with all that is declared about it.
    pub spec: &'a ToolSpec,
    /// The arguments that run.
    pub arguments: &'a ToolArguments,
    /// The call's surroundings.
    pub context: &'a ToolContext,
}

/// The arguments are those that run, secrets and all: they are not for logs.
impl fmt::Debug for Invocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("tool", &self.spec.name)
            .field("call", &self.context.call())
            .finish_non_exhaustive()
    }
}

/// Something that stands around every call that runs. Every method has a default that does
/// nothing.
///
/// Middleware sees a call only once it is permitted, and cannot permit one: it may refuse, change
/// what a tool returns, or do something beside it.
pub trait Middleware: Send + Sync + 'static {
    /// Looks at a call before it runs; an error is its outcome, and the tool is not entered.
    fn before<'a>(&'a self, call: Invocation<'a>) -> ToolFuture<'a, Result<(), ToolError>> {
        let _ = call;
        Box::pin(async { Ok(()) })
    }

    /// Runs a call, by calling `next`, or does not.
    fn wrap<'a>(
        &'a self,
        arguments: ToolArguments,
        context: ToolContext,
        next: Next<'a>,
    ) -> ToolFuture<'a, Result<Returned, ToolError>> {
        next.run(arguments, context)
    }

    /// Looks at what a call returned, and may change it.
    fn after<'a>(&'a self, call: Invocation<'a>, returned: Returned) -> ToolFuture<'a, Returned> {
        let _ = call;
        Box::pin(async { returned })
    }
}

/// The rest of a chain of middleware, down to the tool.
#[expect(missing_debug_implementations, reason = "nothing of it can be shown")]
pub struct Next<'a> {
    chain: &'a [Arc<dyn Middleware>],
    code: &'a dyn Tool,
}

impl<'a> Next<'a> {
    pub(super) fn new(chain: &'a [Arc<dyn Middleware>], code: &'a dyn Tool) -> Self {
        Self { chain, code }
    }

    /// Goes on with the call.
    pub fn run(
        self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'a, Result<Returned, ToolError>> {
        match self.chain.split_first() {
            Some((outer, chain)) => outer.wrap(arguments, context, Next { chain, code: self.code }),
            None => self.code.call(arguments, context),
        }
    }
}

/// Judges what a call returned before the model reads it.
pub trait Verifier: Send + Sync + 'static {
    /// Judges a result. An error, like a panic, keeps the result back: what cannot be judged is
    /// not passed on.
    fn judge<'a>(
        &'a self,
        call: Invocation<'a>,
        output: &'a Output,
    ) -> ToolFuture<'a, Result<Judgement, ToolError>>;
}

/// What a verifier says about a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is fine.
    Pass,
    /// The model reads it with a warning.
    Warn(String),
    /// The model does not read it, but this.
    Block(String),
}
