//! Tools for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_core::session::Returned;
use haft_core::tool::{Definition, Gate, Mutates, Schema};
use haft_core::{CallResult, Failure, Outcome, Output};
use haft_runtime::testing::{QueuedModel, TestNode};
use haft_runtime::{
    Answer, FunctionTool, Haft, HaftBuilder, Response, Tool, ToolArguments, ToolContext, ToolError,
};
use serde_json::{Value, json};

/// How often a tool's code was entered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    pub(crate) fn happen(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A definition that reads, unless it is changed to do something else.
pub(crate) fn definition(name: &str, change: impl FnOnce(&mut Definition)) -> Definition {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let schema = Schema::from_value(&schema).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "A tool of a test.", schema);
    definition.facets.mutates = Some(Mutates::None);
    change(&mut definition);
    definition
}

pub(crate) fn schema(value: &Value) -> Schema {
    Schema::from_value(value).unwrap()
}

pub(crate) fn asks(definition: &mut Definition) {
    definition.gate = Gate::Ask;
    definition.facets.mutates = Some(Mutates::Irreversible);
}

pub(crate) fn ok(value: Value) -> Result<Returned, ToolError> {
    Ok(Returned::from(CallResult::Ok(Output::of_value(value))))
}

/// A tool that counts its effects and gives back its arguments.
pub(crate) fn echo(
    effects: &Effects,
    name: &str,
    change: impl FnOnce(&mut Definition),
) -> Arc<dyn Tool> {
    let effects = effects.clone();
    function(name, change, move |arguments, _| {
        effects.happen();
        ok(Value::Object(arguments))
    })
}

/// A tool from a function that does not wait for anything.
pub(crate) fn function(
    name: &str,
    change: impl FnOnce(&mut Definition),
    run: impl Fn(ToolArguments, ToolContext) -> Result<Returned, ToolError> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let run = Arc::new(run);
    waiting(name, change, move |arguments, context| {
        let run = Arc::clone(&run);
        async move { run(arguments, context) }
    })
}

/// A tool from a function that waits.
pub(crate) fn waiting<R>(
    name: &str,
    change: impl FnOnce(&mut Definition),
    run: impl Fn(ToolArguments, ToolContext) -> R + Send + Sync + 'static,
) -> Arc<dyn Tool>
where
    R: Future<Output = Result<Returned, ToolError>> + Send + 'static,
{
    Arc::new(FunctionTool::new(definition(name, change), run))
}

pub(crate) fn node(builder: HaftBuilder) -> TestNode {
    TestNode::start(builder)
}

pub(crate) fn builder() -> HaftBuilder {
    Haft::builder()
}

pub(crate) fn yes() -> Response {
    Response::Approve { arguments: None, note: None, grant: None }
}

pub(crate) fn no(note: &str) -> Response {
    Response::Deny { note: Some(note.to_owned()) }
}

#[track_caller]
pub(crate) fn done(answer: Answer) -> Outcome {
    match answer {
        Answer::Done(outcome) => *outcome,
        other => panic!("expected an outcome, found {other:?}"),
    }
}

#[track_caller]
pub(crate) fn value(answer: Answer) -> Value {
    match done(answer).result {
        CallResult::Ok(output) => output.value.unwrap(),
        CallResult::Err(failure) => panic!("expected a value, found {failure:?}"),
    }
}

#[track_caller]
pub(crate) fn failure(answer: Answer) -> Failure {
    match done(answer).result {
        CallResult::Ok(output) => panic!("expected a failure, found {output:?}"),
        CallResult::Err(failure) => failure,
    }
}

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

/// Waits for something that happens.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F) -> T {
    let began = std::time::Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it did not happen");
}

pub(crate) fn script() -> QueuedModel {
    QueuedModel::new()
}
