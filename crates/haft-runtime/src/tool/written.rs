//! The tool that `#[tool]` makes of a function.

use std::fmt;

use haft_core::session::{Preview, Returned, Verification};
use haft_core::tool::{Definition, Hook, NotFor, Routing, Schema};
use haft_core::{JsonPointer, ToolName};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::{Need, Tool, ToolArguments, ToolContext, ToolError, ToolFuture};

/// A tool in the form in which `#[tool]` writes it: what is declared, and a closure for each thing
/// that its code can do.
pub struct WrittenTool {
    definition: Definition,
    needs: Vec<Need>,
    run: Code<Returned>,
    preview: Option<Code<Preview>>,
    verify: Option<Code<Verification>>,
}

type Code<T> = Box<
    dyn Fn(ToolArguments, ToolContext) -> ToolFuture<'static, Result<T, ToolError>> + Send + Sync,
>;

impl WrittenTool {
    /// Joins what is declared and the code.
    pub fn new<F>(definition: Definition, needs: Vec<Need>, run: F) -> Self
    where
        F: Fn(ToolArguments, ToolContext) -> ToolFuture<'static, Result<Returned, ToolError>>
            + Send
            + Sync
            + 'static,
    {
        Self { definition, needs, run: Box::new(run), preview: None, verify: None }
    }

    /// Adds the code that shows what a call would do.
    #[must_use]
    pub fn with_preview<F>(mut self, preview: F) -> Self
    where
        F: Fn(ToolArguments, ToolContext) -> ToolFuture<'static, Result<Preview, ToolError>>
            + Send
            + Sync
            + 'static,
    {
        self.definition.hooks.insert(Hook::Preview);
        self.preview = Some(Box::new(preview));
        self
    }

    /// Adds the code that finds out whether an interrupted call took effect.
    #[must_use]
    pub fn with_verify<F>(mut self, verify: F) -> Self
    where
        F: Fn(ToolArguments, ToolContext) -> ToolFuture<'static, Result<Verification, ToolError>>
            + Send
            + Sync
            + 'static,
    {
        self.definition.hooks.insert(Hook::Verify);
        self.verify = Some(Box::new(verify));
        self
    }
}

impl fmt::Debug for WrittenTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

impl Tool for WrittenTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    fn needs(&self) -> Vec<Need> {
        self.needs.clone()
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        (self.run)(arguments, context)
    }

    fn preview(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        match &self.preview {
            Some(preview) => preview(arguments, context),
            None => Box::pin(async { Err(ToolError::internal("this tool has no preview")) }),
        }
    }

    fn verify(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Verification> {
        let Some(verify) = &self.verify else {
            return Box::pin(async { Verification::Unknown });
        };
        let verdict = verify(arguments, context);
        Box::pin(async { verdict.await.unwrap_or(Verification::Unknown) })
    }
}

/// Starts the definition of a tool whose arguments are the fields of `A`.
///
/// # Panics
///
/// When what the macro wrote is refused: its own checks rule that out, but for a schema that is
/// nested too deep.
pub fn definition<A: JsonSchema>(name: &str, description: &str) -> Definition {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    Definition::new(tool_name(name), description, schema_of::<A>(name, settings))
}

pub(super) fn schema_of_output<T: JsonSchema>(tool: &str) -> Schema {
    schema_of::<T>(tool, SchemaSettings::draft2020_12().for_serialize())
}

/// Describes a type in one piece: models read a definition where it is used, and not by reference.
fn schema_of<T: JsonSchema>(tool: &str, mut settings: SchemaSettings) -> Schema {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type, which says nothing to a model.
    schema.remove("title");
    declared(tool, "schema", Schema::from_value(schema.as_value()))
}

/// Takes a name that `#[tool]` has checked.
///
/// # Panics
///
/// When what the macro wrote is refused: its own checks rule that out, but for a schema that is
/// nested too deep.
pub fn tool_name(name: &str) -> ToolName {
    declared(name, "name", ToolName::new(name))
}

/// Takes a pointer that `#[tool]` has checked.
///
/// # Panics
///
/// When what the macro wrote is refused: its own checks rule that out, but for a schema that is
/// nested too deep.
pub fn pointer(text: &str) -> JsonPointer {
    declared(text, "pointer", JsonPointer::new(text))
}

/// Takes what a tool's source declares.
///
/// # Panics
///
/// When it makes no sense for a reason that shows only now, such as a type nested so deep that its
/// schema is refused. That is a mistake in the program, found when the tool is made.
#[track_caller]
pub(super) fn declared<T, E: fmt::Display>(tool: &str, what: &str, found: Result<T, E>) -> T {
    match found {
        Ok(value) => value,
        Err(error) => panic!("the {what} of the tool `{tool}` cannot be used: {error}"),
    }
}

/// Declares when the tool is the right one, and lets the model read it after what the tool does.
pub fn route(definition: &mut Definition, routing: Routing) {
    let text = &mut definition.description;
    text.push_str(&format!("\n\nUse when {}", sentence(&routing.use_when)));
    for NotFor { case, instead } in &routing.not_for {
        text.push_str(&format!("\nNot for {case}: use {instead} instead."));
    }
    if let Some(source) = &routing.source {
        text.push_str(&format!("\nSource: {}", sentence(source)));
    }
    definition.routing = Some(routing);
}

fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Reads the arguments of a call, without what the runtime supplies: whatever came under such a
/// name did not come from the runtime.
///
/// # Errors
///
/// When they do not fit; the error names the place.
pub fn read<A: DeserializeOwned>(
    mut arguments: ToolArguments,
    injected: &[&str],
) -> Result<A, ToolError> {
    for name in injected {
        arguments.remove(*name);
    }
    let arguments = Value::Object(arguments);
    A::deserialize(&arguments).map_err(|error| misfit::<A>(&arguments, error))
}

/// Finds the place of a misfit by reading again: calls that fit need not keep track of it.
fn misfit<A: DeserializeOwned>(arguments: &Value, error: serde_json::Error) -> ToolError {
    let Err(found) = serde_path_to_error::deserialize::<_, A>(arguments) else {
        return ToolError::from(error);
    };
    let mut place = String::new();
    for segment in found.path() {
        match segment {
            Segment::Seq { index } => place.push_str(&format!("/{index}")),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                place.push_str(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
            }
            Segment::Unknown => place.push_str("/?"),
        }
    }
    let error = found.into_inner();
    if place.is_empty() {
        return ToolError::invalid(format!("the arguments do not fit: {error}"));
    }
    ToolError::invalid(format!("the argument at `{place}` does not fit: {error}"))
}

/// Runs code that waits without giving way, on a thread where that hurts nobody.
///
/// # Errors
///
/// Those of the code; a panic goes on here.
pub async fn blocking<F>(code: F) -> Result<Returned, ToolError>
where
    F: FnOnce() -> Result<Returned, ToolError> + Send + 'static,
{
    match tokio::task::spawn_blocking(code).await {
        Ok(returned) => returned,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ToolError::cancelled()),
    }
}
