//! What a tool's author writes: the trait, and what its code is given.

mod context;
mod error;
mod function;
mod inside;
mod priced;
mod returned;
mod services;
mod written;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use haft_core::session::{Config, Preview, Returned, Verification};
use haft_core::tool::Definition;
use haft_core::{ContentBlock, ToolName};
use serde_json::{Map, Value};

pub use context::ToolContext;
pub(crate) use context::{Run, Scope, Surroundings};
pub use error::ToolError;
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
    pub use schemars;
    pub use serde;
    pub use serde_json;
}

/// The arguments of a call: an object that fits the tool's schema.
pub type ToolArguments = Map<String, Value>;

/// What a tool's code gives, once it is done.
pub type ToolFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a sub-agent is to do, and how its session wishes to behave.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegated {
    /// How the session wishes to behave.
    pub config: Config,
    /// What it is to do.
    pub task: Vec<ContentBlock>,
}

/// A tool: what is declared about it, and the code that runs its calls.
///
/// Only the runtime calls these methods, and only after name, arguments, limits and permission
/// are settled. A panic, an error and a timeout all become the call's outcome; nothing that a tool
/// does can end the session. `#[haft::tool]` writes an implementation from a function.
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

    /// Returns the tool and the arguments that a call of this one is only another way to write.
    /// It is then checked, permitted, recorded and run as that call, so that no second name leads
    /// around a permission.
    fn stands_for(&self, arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
        let _ = arguments;
        None
    }

    /// Returns what a sub-agent is to do in the place of this code, for a tool that gives its
    /// calls to one. Its session can do nothing that the caller's cannot, and its last word is
    /// the result of the call. Asked when the call would run, after any approval.
    fn delegates(&self, arguments: &ToolArguments) -> Option<Delegated> {
        let _ = arguments;
        None
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

    /// Finds out whether an interrupted call took effect. Only asked of tools that declare
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

    fn stands_for(&self, arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
        T::stands_for(self, arguments)
    }

    fn delegates(&self, arguments: &ToolArguments) -> Option<Delegated> {
        T::delegates(self, arguments)
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
