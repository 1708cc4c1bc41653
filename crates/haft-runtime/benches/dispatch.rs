//! What a call through the whole lifecycle costs in one process, without a store, beside a floor
//! in the same run: the same schema crate's check, serde, and an asynchronous call.

#![expect(clippy::print_stdout, reason = "the ratios are what a reader wants")]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::session::{Config, Returned};
use haft_core::tool::{Definition, Mutates, Schema};
use haft_core::{Actor, CallResult, Outcome, Output};
use haft_runtime::{Direct, FunctionTool, Haft, ToolArguments, ToolContext, ToolError, ToolFuture};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ARGUMENTS: &str = r#"{"a":2,"b":3}"#;
const ROUNDS: usize = 100;
const CALLS: u32 = 1_000;

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    name: &'a str,
    content: String,
}

type Adder = Arc<dyn Fn(Value) -> ToolFuture<'static, Result<Value, ToolError>> + Send + Sync>;

struct Floor(HashMap<String, (jsonschema::Validator, Adder)>);

impl Floor {
    fn new(n_tools: usize) -> Self {
        let tools = (0..n_tools).map(|n| {
            let validator =
                jsonschema::validator_for(&schema()).unwrap_or_else(|error| panic!("{error}"));
            let adder: Adder = Arc::new(|arguments| {
                Box::pin(async move {
                    let add: Add = serde_json::from_value(arguments)?;
                    Ok(json!(add.a + add.b))
                })
            });
            (name(n), (validator, adder))
        });
        Self(tools.collect())
    }

    async fn call(&self, name: &str) -> String {
        let (validator, adder) = &self.0[name];
        let arguments: Value = serde_json::from_str(ARGUMENTS).unwrap_or_default();
        assert!(validator.is_valid(&arguments));
        let sum = adder(arguments).await.unwrap_or_default();
        let message = Message { role: "tool", tool_call_id: "c1", name, content: sum.to_string() };
        serde_json::to_string(&message).unwrap_or_default()
    }
}

fn schema() -> Value {
    let integer = json!({"type": "integer"});
    json!({
        "type": "object",
        "properties": {"a": integer, "b": integer},
        "required": ["a", "b"],
        "additionalProperties": false,
    })
}

fn name(n: usize) -> String {
    format!("add_x{n}")
}

fn direct(n_tools: usize) -> Direct {
    let mut builder = Haft::builder();
    let schema = Schema::from_value(&schema()).unwrap_or_else(|error| panic!("{error}"));
    for n in 0..n_tools {
        let name = name(n).parse().unwrap_or_else(|error| panic!("{error}"));
        let mut definition = Definition::new(name, "Adds two integers.", schema.clone());
        definition.facets.mutates = Some(Mutates::None);
        let add = |arguments: ToolArguments, _: ToolContext| async move {
            let add: Add = serde_json::from_value(Value::Object(arguments))?;
            let sum = Output::of_value(json!(add.a + add.b));
            Ok::<_, ToolError>(Returned::from(CallResult::Ok(sum)))
        };
        builder = builder.tool(FunctionTool::new(definition, add));
    }
    let config = Config::default();
    builder.direct(config, Actor::system()).unwrap_or_else(|error| panic!("{error}"))
}

/// What the model reads, as the floor writes it.
fn message(outcome: &Outcome) -> String {
    let content = match &outcome.result {
        CallResult::Ok(output) => output.value.as_ref().map(ToString::to_string),
        CallResult::Err(failure) => Some(failure.message.clone()),
    };
    let (id, content) = (outcome.call.to_string(), content.unwrap_or_default());
    let name = outcome.tool.as_str();
    let message = Message { role: "tool", tool_call_id: &id, name, content };
    serde_json::to_string(&message).unwrap_or_default()
}

/// One short round, per call.
async fn round<F: Future>(call: impl Fn() -> F) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(call().await);
    }
    start.elapsed() / CALLS
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        println!("{:>8}  {:>10}  {:>10}  {:>6}", "tools", "floor", "haft", "ratio");
        for n_tools in [10, 100, 1_000, 10_000] {
            let (floor, direct) = (Floor::new(n_tools), direct(n_tools));
            let tool = name(n_tools / 2);
            let (mut least_floor, mut least_ours) = (Duration::MAX, Duration::MAX);
            // Turn by turn, and the quickest of each: what the machine's noise leaves alone.
            for _ in 0..ROUNDS {
                least_floor = least_floor.min(round(|| floor.call(&tool)).await);
                let ours = round(|| async {
                    let outcome = direct.call(&tool, ARGUMENTS).await;
                    message(&outcome.unwrap_or_else(|error| panic!("{error}")))
                });
                least_ours = least_ours.min(ours.await);
            }
            let (floor, ours) = (least_floor, least_ours);
            let ratio = ours.as_secs_f64() / floor.as_secs_f64();
            println!("{n_tools:>8}  {floor:>10.2?}  {ours:>10.2?}  {ratio:>5.2}x");
        }
    });
}
