//! Small words for the fixture's tools.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use haft_core::session::Returned;
use haft_core::tool::{Definition, Facets, InterruptBehavior, Mutates, Schema};
use haft_core::{CallResult, Millis, Output, ToolName};
use haft_mcp::{Question, Questions};
use haft_runtime::{FunctionTool, Tool, ToolArguments, ToolContext, ToolError};
use serde_json::{Value, json};

/// A tool that changes nothing, so that nobody has to be asked and a crash repeats it.
pub(crate) fn tool<F, R>(name: &str, description: &str, schema: Value, run: F) -> Arc<dyn Tool>
where
    F: Fn(ToolArguments, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Returned, ToolError>> + Send + 'static,
{
    Arc::new(FunctionTool::new(definition(name, description, &schema), run))
}

/// A tool without arguments.
pub(crate) fn plain<F, R>(name: &str, description: &str, run: F) -> Arc<dyn Tool>
where
    F: Fn(ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Returned, ToolError>> + Send + 'static,
{
    let schema = json!({"type": "object", "properties": {}});
    tool(name, description, schema, move |_, context| run(context))
}

fn definition(name: &str, description: &str, schema: &Value) -> Definition {
    let name = ToolName::new(name).unwrap_or_else(|error| panic!("{error}"));
    let schema = Schema::from_value(schema).unwrap_or_else(|error| panic!("{error}"));
    let mut definition = Definition::new(name, description, schema);
    let reach = Some([].into());
    definition.facets = Facets { mutates: Some(Mutates::None), reach, ..Facets::default() };
    definition.interrupt = InterruptBehavior::Cancel;
    // Some of them wait for people.
    definition.exec_timeout = Millis::from_secs(3600);
    definition
}

pub(crate) fn text(text: impl Into<String>) -> Returned {
    CallResult::Ok(Output::of_text(text)).into()
}

/// Content of MCP's own kinds, after a text if there is one.
pub(crate) fn blocks(first: Option<&str>, blocks: Value) -> Returned {
    let mut returned = Returned::from(CallResult::Ok(match first {
        Some(first) => Output::of_text(first),
        None => Output::default(),
    }));
    returned.extra.insert("content".into(), blocks);
    returned
}

pub(crate) fn form(message: &str, properties: Value) -> Question {
    let required: Vec<&String> =
        properties.as_object().into_iter().flatten().map(|p| p.0).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Question::form(message, &schema)
}

pub(crate) async fn ask(
    context: &ToolContext,
    key: &str,
    question: Question,
) -> Result<Value, ToolError> {
    context.service::<Questions>()?.ask(context, key, question).await
}

pub(crate) async fn ask_all<const N: usize>(
    context: &ToolContext,
    questions: [(&str, Question); N],
) -> Result<BTreeMap<String, Value>, ToolError> {
    let questions = questions.into_iter().map(|(key, question)| (key.to_owned(), question));
    context.service::<Questions>()?.ask_all(context, questions.collect()).await
}

/// A field of what a person filled in.
pub(crate) fn filled_in<'a>(answer: &'a Value, field: &str) -> &'a str {
    answer["content"][field].as_str().unwrap_or("(none)")
}
