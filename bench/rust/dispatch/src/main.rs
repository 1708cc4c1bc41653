//! What one tool call costs in one process with other Rust libraries: arguments read, an
//! asynchronous function called, a result made.
//!
//! usage: bench-dispatch rig|rmcp TOOLS
//!
//! Prints one JSON object: microseconds for each call, the best of several rounds.

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rig_core::tool::{DynamicTool, ToolExecutionError, ToolOutput};
use rmcp::handler::server::router::tool::{ToolRoute, ToolRouter};
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolRequestParams, CallToolResponse, NumberOrString, Tool};
use rmcp::service::RequestContext;
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

type Failure = Box<dyn Error>;

const ARGUMENTS: &str = r#"{"a":2,"b":3}"#;
const ROUNDS: u32 = 100;
const CALLS: u32 = 1_000;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
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

async fn best<T, F: Future<Output = Result<T, Failure>>>(
    call: impl Fn() -> F,
) -> Result<Duration, Failure> {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..CALLS {
            black_box(call().await?);
        }
        least = least.min(began.elapsed() / CALLS);
    }
    Ok(least)
}

/// rig has tools that are made at run time; which of them a name means is left to its caller.
async fn rig(tools: usize, target: &str) -> Result<Duration, Failure> {
    let mut known = HashMap::new();
    for number in 0..tools {
        let name = format!("add_{number}");
        let tool = DynamicTool::new(name.as_str().try_into()?, "Adds two integers.", schema(), |arguments| {
            Box::pin(async move {
                let wrong = |error: serde_json::Error| {
                    ToolExecutionError::invalid_args(error.to_string())
                };
                let Add { a, b } = serde_json::from_value(arguments).map_err(wrong)?;
                Ok(ToolOutput::json(json!(a + b)))
            })
        });
        known.insert(name, tool);
    }
    best(|| async {
        let tool = known.get(target).ok_or("no such tool")?;
        let output = tool.execute(serde_json::from_str(ARGUMENTS)?).await;
        Ok(output.map_err(|error| error.message().to_owned())?.render())
    })
    .await
}

#[derive(Clone)]
struct Router(Arc<ToolRouter<Router>>);

impl ServerHandler for Router {}

async fn add(Parameters(Add { a, b }): Parameters<Add>) -> String {
    (a + b).to_string()
}

/// rmcp's router, without a transport before it.
async fn rmcp(tools: usize, target: &str) -> Result<Duration, Failure> {
    let schema = Arc::new(schema().as_object().cloned().unwrap_or_default());
    let mut router = ToolRouter::new();
    for number in 0..tools {
        let tool = Tool::new(format!("add_{number}"), "Adds two integers.", Arc::clone(&schema));
        router.add_route(ToolRoute::new(tool, add));
    }
    let router = Router(Arc::new(router));
    // A call's context holds a peer, and only a connection has one.
    let (near, far) = tokio::io::duplex(1 << 16);
    let serving = tokio::spawn(router.clone().serve(far));
    let _client = ().serve(near).await?;
    let server = serving.await??;
    best(|| async {
        let mut request = CallToolRequestParams::new(target.to_owned());
        request.arguments = Some(serde_json::from_str(ARGUMENTS)?);
        let context = RequestContext::new(NumberOrString::Number(1), server.peer().clone());
        let response = router.0.call(ToolCallContext::new(&router, request, context)).await?;
        match response {
            CallToolResponse::Complete(result) => Ok(serde_json::to_string(&result)?),
            _ => Err("the call is not complete".into()),
        }
    })
    .await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, tools] = &arguments[..] else {
        return Err("usage: bench-dispatch rig|rmcp TOOLS".into());
    };
    let count: usize = tools.parse()?;
    let target = format!("add_{}", count / 2);
    let least = match peer.as_str() {
        "rig" => rig(count, &target).await?,
        "rmcp" => rmcp(count, &target).await?,
        other => return Err(format!("no peer is called `{other}`").into()),
    };
    let us_per_call = least.as_secs_f64() * 1e6;
    println!("{}", json!({"peer": peer, "tools": count, "us_per_call": us_per_call}));
    Ok(())
}
