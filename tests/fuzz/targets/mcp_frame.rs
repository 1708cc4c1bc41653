//! What an MCP client sends over HTTP: whatever it is, it is answered, and a tool that asks never
//! runs.
#![no_main]

use std::sync::LazyLock;

use haft_core::session::{Config, Returned};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema};
use haft_core::{Actor, CallResult, Output};
use haft_mcp::{DirectServer, HttpDoor, McpService, Principal};
use haft_runtime::{FunctionTool, Haft, Tool};
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;
use tower_service::Service as _;

fn tool(name: &str, gate: Gate) -> impl Tool {
    let schema = Schema::new(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#);
    let name_of = name.parse().expect("a plain name");
    let mut definition = Definition::new(name_of, "Looks.", schema.expect("a plain schema"));
    definition.facets = Facets { mutates: Some(Mutates::None), ..Facets::default() };
    definition.gate = gate;
    FunctionTool::new(definition, move |_, _| {
        assert!(gate == Gate::Auto, "what asks has run");
        async { Ok(Returned::from(CallResult::Ok(Output::of_text("seen")))) }
    })
}

static SERVED: LazyLock<(Runtime, McpService)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let within = runtime.enter();
    let builder = Haft::builder().tool(tool("look", Gate::Auto)).tool(tool("pay", Gate::Ask));
    let direct = builder.direct(Config::default(), Actor::system()).expect("two tools");
    let tenant = "default".parse().expect("a plain name");
    let anonymous = Some(Principal { actor: Actor::system(), tenant });
    let service =
        DirectServer::new(direct, "fuzz").http(HttpDoor { anonymous, ..HttpDoor::local() });
    drop(within);
    (runtime, service)
});

fuzz_target!(|given: (bool, &[u8])| {
    let (is_current, body) = given;
    let (runtime, service) = &*SERVED;
    let mut request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if is_current {
        request = request
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "look");
    }
    let request = request.body(Full::new(bytes::Bytes::copy_from_slice(body)));
    let request = request.expect("a plain request");
    runtime.block_on(async {
        let response = service.clone().call(request).await.expect("it never fails");
        assert!(response.status().as_u16() < 500, "{}", response.status());
        // A stream may go on; its first part is enough.
        let mut body = response.into_body();
        let first = tokio::time::timeout(std::time::Duration::from_millis(50), body.frame());
        drop(first.await);
    });
});
