//! What a tool's author writes: the trait, and what its code is given.

mod context;
mod error;
mod function;
mod inside;
mod priced;
mod returned;
mod services;
mod written;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use haft_core::session::{Config, Goal, Preview, Returned, Verification};
use haft_core::tool::Definition;
use haft_core::{ContentBlock, Output, SessionId, ToolName};
use haft_store::Tenant;
use serde_json::{Map, Value};

pub use context::ToolContext;
pub(crate) use context::{Run, Scope, Surroundings};
pub use error::ToolError;
pub(crate) use error::leaves_effect_open;
pub use function::FunctionTool;
pub use inside::Weighed;
pub use services::{Need, Services};

/// What the code that `#[tool]` writes is made of. No part of the promised surface.
#[doc(hidden)]
pub mod __private {
    pub use super::priced::{CostPart, cost, counted};
    pub use super::returned::{
        Describing, Failing, OutputOf, Printing, Returning, Structured, Succeeding, Telling,
    };
    pub use super::written::{WrittenTool, blocking, definition, pointer, read, route, tool_name};
    pub use super::{Need, Tool, ToolArguments, ToolContext, ToolError};
    pub use haft_core::tool::{
        Category, Concurrency, Consequence, FsAccess, Gate, Idempotency, Injected, InjectedKind,
        InterruptBehavior, Mutates, NotFor, ProcessUse, Reach, Retry, Routing, Scope, Spend,
        Streaming, Undo, UndoSource, Version,
    };
    pub use haft_core::{ErrorClass, Millis};
    pub use haft_macros::vanish;
    pub use schemars;
    pub use serde;
    pub use serde_json;
}

/// The arguments of a call: an object that fits the tool's schema.
pub type ToolArguments = Map<String, Value>;

/// What a tool's code gives, once it is done.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a sub-agent is to do, and as whom.
#[derive(Debug)]
pub struct Delegated {
    /// As whom it works.
    pub role: Role,
    /// What it is to do.
    pub task: Vec<ContentBlock>,
    /// By what it is told whether that is done.
    pub goal: Option<Goal>,
    /// How long the call waits.
    pub until: Until,
}

impl Delegated {
    /// Work for another agent, whose session wishes to behave so and whose last word is the
    /// result.
    pub fn to(config: Config, task: Vec<ContentBlock>) -> Self {
        let role = Role::Other(Box::new(config));
        Self { role, task, goal: None, until: Until::Word }
    }
}

/// As whom a sub-agent works.
#[derive(Debug)]
pub enum Role {
    /// As the agent whose call it is, in another session like that one. Refused where the
    /// session has a roster.
    Same,
    /// As an agent of the session's roster, by its name or id.
    Colleague(String),
    /// As another, whose session wishes to behave so.
    Other(Box<Config>),
}

/// How long a call waits whose work is given away.
pub enum Until {
    /// Until the sub-agent has come to rest: its last word is the result.
    Word,
    /// Until its session is open, of which this is told. It works on its own from there.
    Opening(Box<dyn FnOnce(SessionId) -> Output + Send>),
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word => "Word",
            Self::Opening(_) => "Opening",
        })
    }
}

/// A tool: what is declared about it, and the code that runs its calls.
///
/// Only the runtime calls these methods, and only after name, arguments, limits and permission
/// are settled. An error becomes the call's outcome; after a panic or a timeout the call is in doubt
/// if its tool may change something. Nothing that a tool does can end the session. `#[haft::tool]` writes an implementation from a function.
pub trait Tool: Send + Sync + 'static {
    /// Returns what is declared about the tool. Read once, when it is registered.
    fn definition(&self) -> Definition;

    /// Returns the services that the code takes from its context, so that a missing one is found
    /// when the tool is registered and not when it is called.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Runs one call.
    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>>;

    /// Returns whose tool it is; no other tenant is shown it. Everybody's, if it says nothing.
    fn tenant(&self) -> Option<&Tenant> {
        None
    }

    /// Returns the tool and the arguments that a call of this one is only another way to write.
    /// It is then checked, permitted, recorded and run as that call, so that no second name leads
    /// around a permission.
    fn stands_for(&self, arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
        let _ = arguments;
        None
    }

    /// Returns what a sub-agent is to do in the place of this code, for a tool that gives its
    /// calls to one. Its session can do nothing that the caller's cannot. Asked when the call
    /// would run, after any approval.
    ///
    /// # Errors
    ///
    /// When the arguments describe no work; the call then comes to that.
    fn delegates(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<Option<Delegated>, ToolError> {
        let _ = (arguments, context);
        Ok(None)
    }

    /// Finds out what a call would do, for whoever is asked to approve it. Only asked of tools
    /// that declare [`haft_core::tool::Hook::Preview`].
    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        drop((arguments, context));
        Box::pin(async { Err(ToolError::internal("this tool has no preview")) })
    }

    /// Finds out whether a call took effect whose process died, or which ran out of time, was told
    /// to stop or could not tell itself. Only asked of tools that declare
    /// [`haft_core::tool::Hook::Verify`].
    fn verify(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Verification> {
        drop((arguments, context));
        Box::pin(async { Verification::Unknown })
    }
}

impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn definition(&self) -> Definition {
        T::definition(self)
    }

    fn needs(&self) -> Vec<Need> {
        T::needs(self)
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        T::call(self, arguments, context)
    }

    fn tenant(&self) -> Option<&Tenant> {
        T::tenant(self)
    }

    fn stands_for(&self, arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
        T::stands_for(self, arguments)
    }

    fn delegates(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<Option<Delegated>, ToolError> {
        T::delegates(self, arguments, context)
    }

    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        T::preview(self, arguments, context)
    }

    fn verify(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Verification> {
        T::verify(self, arguments, context)
    }
}
