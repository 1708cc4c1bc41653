//! A server without a store: the same checks, and nothing that could wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use haft_core::session::{Config, Returned};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema};
use haft_core::{CallResult, Output};
use haft_mcp::{DirectServer, HttpDoor, McpService};
use haft_runtime::testing::user;
use haft_runtime::{FunctionTool, Haft, Tool, ToolArguments, ToolContext, ToolError};
use serde_json::json;

use crate::gated::principal;
use crate::listen;
use crate::wire::Client;

fn counting(name: &str, ran: &Arc<AtomicU32>, gate: Gate) -> impl Tool + use<> {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let schema = Schema::new(schema).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "Says who called.", schema);
    definition.facets = Facets { mutates: Some(Mutates::None), ..Facets::default() };
    definition.gate = gate;
    let ran = Arc::clone(ran);
    FunctionTool::new(definition, move |_: ToolArguments, context: ToolContext| {
        ran.fetch_add(1, Ordering::SeqCst);
        let said = Output::of_text(context.actor().to_string());
        async move { Ok::<_, ToolError>(Returned::from(CallResult::Ok(said))) }
    })
}

/// Serves `look` and `pay`, and returns where.
async fn served(ran: &Arc<AtomicU32>) -> String {
    let tools = [("look", Gate::Auto), ("pay", Gate::Ask)];
    let tools = tools.map(|(name, gate)| counting(name, ran, gate));
    let builder = tools.into_iter().fold(Haft::builder(), |builder, tool| builder.tool(tool));
    let direct = builder.direct(Config::default(), user("owner")).unwrap();
    let door = HttpDoor { anonymous: Some(principal("ann")), ..HttpDoor::local() };
    listening(DirectServer::new(direct, "direct").http(door)).await
}

/// Listens for a service, and returns where.
pub(crate) async fn listening(service: McpService) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async { listen::serve(listener, service).await.ok() });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_there_are_only_tools() {
    let url = served(&Arc::default()).await;
    let asked = tokio::task::spawn_blocking(move || {
        let client = Client::with_tasks(&url);
        let capabilities = client.request("server/discover", json!({}))["capabilities"].clone();
        assert_eq!(capabilities, json!({"tools": {}}));
        let lists = ["prompts", "resources", "resourceTemplates"];
        for (list, of) in lists.into_iter().zip(["prompts", "resources", "resources/templates"]) {
            let listed = client.request(&format!("{of}/list"), json!({}));
            assert_eq!(listed[list], json!([]), "{listed}");
        }
        let absent = [
            ("prompts/get", json!({"name": "greet"})),
            ("resources/read", json!({"uri": "file:///etc/passwd"})),
            ("logging/setLevel", json!({"level": "debug"})),
            ("subscriptions/listen", json!({"notifications": {}})),
            ("tasks/get", json!({"taskId": "one"})),
            ("tasks/update", json!({"taskId": "one", "inputResponses": {}})),
            ("tasks/cancel", json!({"taskId": "one"})),
        ];
        for (method, params) in absent {
            let refused = client.exchange(method, params)["error"].clone();
            assert_eq!(refused, json!({"code": -32601, "message": method}));
        }
    });
    asked.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_a_call_is_checked_and_what_would_wait_is_refused() {
    let ran = Arc::new(AtomicU32::new(0));
    let url = served(&ran).await;
    let asked = tokio::task::spawn_blocking(move || {
        let client = Client::new(&url, json!({}));
        let listed = client.request("tools/list", json!({}));
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
        assert_eq!(names, ["look", "pay"]);
        let looked = client.call("look", json!({"n": 1}));
        assert_eq!(looked["isError"], false, "{looked}");
        assert!(looked["content"][0]["text"].as_str().unwrap().contains("ann"), "{looked}");
        let misfit = client.call("look", json!({"n": "one"}));
        assert_eq!(misfit["isError"], true, "{misfit}");
        let asks = client.call("pay", json!({"n": 1}));
        assert_eq!(asks["isError"], true, "{asks}");
        assert!(asks["content"][0]["text"].as_str().unwrap().contains("store"), "{asks}");
        let unknown = client.exchange("tools/call", json!({"name": "steal", "arguments": {}}));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    });
    asked.await.unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1, "only what was permitted ran");
}
