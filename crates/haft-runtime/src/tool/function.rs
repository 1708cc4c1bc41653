//! A tool from a definition and a function: for definitions that exist only at run time.

use std::fmt;
use std::future::Future;

use haft_core::session::Returned;
use haft_core::tool::Definition;

use super::{Tool, ToolArguments, ToolContext, ToolError, ToolFuture};

/// A definition, from wherever it came, with a function that runs its calls.
pub struct FunctionTool<F> {
    definition: Definition,
    function: F,
}

impl<F, R> FunctionTool<F>
where
    F: Fn(ToolArguments, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Returned, ToolError>> + Send + 'static,
{
    /// Joins a definition and a function.
    pub fn new(definition: Definition, function: F) -> Self {
        Self { definition, function }
    }
}

impl<F> fmt::Debug for FunctionTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl<F, R> Tool for FunctionTool<F>
where
    F: Fn(ToolArguments, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Returned, ToolError>> + Send + 'static,
{
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin((self.function)(arguments, context))
    }
}
