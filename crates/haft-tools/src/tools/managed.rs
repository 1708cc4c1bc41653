//! A definition of the catalogue joined to its code.

use haft_core::ToolName;
use haft_core::session::{Preview, Returned};
use haft_core::tool::Definition;
use haft_runtime::{Delegated, Need, Tool, ToolArguments, ToolContext, ToolError, ToolFuture};
use serde_json::Value;

use crate::catalogue;
use crate::hands::Hands;

type Code<T> = fn(ToolArguments, ToolContext) -> ToolFuture<'static, Result<T, ToolError>>;
type Gives = fn(&ToolArguments, &ToolContext) -> Result<Delegated, ToolError>;
type Meant = fn(&ToolArguments) -> Option<(ToolName, ToolArguments)>;

/// A tool of the catalogue.
pub(crate) struct Managed {
    definition: Definition,
    run: Code<Returned>,
    preview: Option<Code<Preview>>,
    meant: Meant,
    gives: Option<Gives>,
    sessions: Sessions,
}

/// Which session a call may name by `sessionId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sessions {
    Any,
    Own,
}

impl Managed {
    pub(crate) fn new(name: &str, run: Code<Returned>) -> Self {
        let definition = catalogue::definition(name);
        let meant: Meant = |_| None;
        Self { definition, run, preview: None, meant, gives: None, sessions: Sessions::Any }
    }

    /// A tool whose calls another session works on.
    pub(crate) fn given_away(name: &str, gives: Gives) -> Self {
        let here: Code<Returned> = |_, _| {
            let message = "this needs a session that can open another one";
            Box::pin(async move { Err(ToolError::internal(message)) })
        };
        Self { gives: Some(gives), ..Self::new(name, here) }
    }

    pub(crate) fn previewed(self, preview: Code<Preview>) -> Self {
        Self { preview: Some(preview), ..self }
    }

    /// Refuses calls that name another session than their own.
    pub(crate) fn of_own_session(self) -> Self {
        Self { sessions: Sessions::Own, ..self }
    }

    pub(crate) fn standing_for(self, meant: Meant) -> Self {
        Self { meant, ..self }
    }
}

impl Tool for Managed {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn needs(&self) -> Vec<Need> {
        vec![Need::of::<Hands>()]
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        let named = arguments.get("sessionId").and_then(Value::as_str);
        let own = context.session().to_string();
        if self.sessions == Sessions::Own && named.is_some_and(|named| named != own) {
            let message = format!("`sessionId` must be this session's own, {own}, or left out");
            return Box::pin(async { Err(ToolError::invalid(message)) });
        }
        match context.require_going() {
            Ok(()) => (self.run)(arguments, context),
            Err(stopped) => Box::pin(async { Err(stopped) }),
        }
    }

    fn stands_for(&self, arguments: &ToolArguments) -> Option<(ToolName, ToolArguments)> {
        (self.meant)(arguments)
    }

    fn delegates(
        &self,
        arguments: &ToolArguments,
        context: &ToolContext,
    ) -> Result<Option<Delegated>, ToolError> {
        self.gives.map(|gives| gives(arguments, context)).transpose()
    }

    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        match self.preview {
            Some(preview) => preview(arguments, context),
            None => Box::pin(async { Err(ToolError::internal("this tool has no preview")) }),
        }
    }
}
