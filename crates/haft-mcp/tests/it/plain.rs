//! Requests that are nothing but a call, and go past rmcp.

use std::sync::Arc;
use std::time::Instant;

use haft_core::tool::{Definition, Gate, InterruptBehavior, Schema};
use haft_mcp::{HttpDoor, McpServer, Questions, ServerSettings};
use haft_runtime::{FunctionTool, Haft, Tool, ToolArguments, ToolContext, ToolError};
use haft_store::Store;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::direct::listening;
use crate::fixture::Server;
use crate::gated::{PATIENCE, principal};
use crate::wire::{Answer, Client};

/// Leaves out what is another one for every call.
fn without_names(mut answer: Answer) -> Answer {
    let result = answer.body.get_mut("result").and_then(Value::as_object_mut);
    if let Some(result) = result {
        result
            .retain(|name, _| !name.ends_with("At") && name != "taskId" && name != "requestState");
    }
    answer
}

// Issue 8: the shorter way is no other way.
#[test]
fn a_request_that_says_nothing_else_is_answered_like_one_that_says_more() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let calls = [
        ("test_simple_text", json!({})),
        ("test_image_content", json!({})),
        ("test_multiple_content_types", json!({})),
        ("test_error_handling", json!({})),
        ("test_tool_with_logging", json!({})),
        ("test_tool_with_progress", json!({})),
        ("test_missing_capability", json!({})),
        ("test_custom_header", json!({})),
        ("greet", json!({"name": "Ann"})),
        ("greet", json!({"name": 5})),
        ("failing_job", json!({})),
        ("protocol_error_job", json!({})),
        ("confirm_delete", json!({"filename": "a"})),
        ("await_call", json!({})),
        ("nobody", json!({})),
    ];
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for capabilities in [json!({}), json!({"elicitation": {"form": {}}}), tasks] {
        let plain = Client::new(&server.url, capabilities.clone());
        let remarking = Client::remarking(&server.url, capabilities.clone());
        // Where nobody can be asked, this one waits for a person behind another door.
        let asks = ("test_input_required_result_elicitation", json!({}));
        let asks = capabilities.get("elicitation").map(|_| &asks);
        for (name, arguments) in calls.iter().chain(asks) {
            let params = json!({"name": name, "arguments": arguments});
            let answers = || {
                let ours = without_names(plain.answered("tools/call", params.clone()));
                (ours, without_names(remarking.answered("tools/call", params.clone())))
            };
            let (began, mut answered) = (Instant::now(), answers());
            // Which calls wait is listed here, and a task begins to wait after it was answered.
            while *name == "await_call" && answered.0 != answered.1 && began.elapsed() < PATIENCE {
                answered = answers();
            }
            assert_eq!(answered.0, answered.1, "{name} {arguments} {capabilities}");
        }
    }
}

/// A tool that goes on until it is stopped.
fn lingers(began: Arc<Notify>, stopped: Arc<Notify>) -> impl Tool {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new("linger".parse().unwrap(), "Lingers.", schema);
    definition.gate = Gate::Auto;
    definition.interrupt = InterruptBehavior::Cancel;
    FunctionTool::new(definition, move |_: ToolArguments, context: ToolContext| {
        let (began, stopped) = (Arc::clone(&began), Arc::clone(&stopped));
        async move {
            began.notify_one();
            context.stop().cancelled().await;
            stopped.notify_one();
            Err(ToolError::cancelled())
        }
    })
}

// Issue 8: closing the response stream cancels the call, and that is recorded.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_hangs_up_has_a_running_call_stopped() {
    let (began, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let directory = tempfile::tempdir().unwrap();
    let questions = Questions::new();
    let tool = lingers(Arc::clone(&began), Arc::clone(&stopped));
    let builder = haft_mcp::install(Haft::builder(), &questions).tool(tool);
    let haft = builder.start(Store::open_sqlite(directory.path()).unwrap()).unwrap();
    let server = McpServer::new(haft, questions, ServerSettings::default());
    let door = HttpDoor { anonymous: Some(principal("ann")), ..HttpDoor::local() };
    let url = listening(server.http(door)).await;
    for client in [Client::new(&url, json!({})), Client::remarking(&url, json!({}))] {
        let params = json!({"name": "linger", "arguments": {}});
        let request = tokio::task::spawn_blocking(move || client.send("tools/call", params));
        let request = request.await.unwrap();
        began.notified().await;
        drop(request);
        let told = tokio::time::timeout(PATIENCE, stopped.notified());
        told.await.expect("it is stopped when its client hangs up");
    }
}
