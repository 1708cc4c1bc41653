//! A bare rmcp server with one trivial tool, written as rmcp's own documentation does.
//!
//! usage: rmcp_server PORT

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Adder;

#[tool_router]
impl Adder {
    #[tool(description = "Adds two integers.", annotations(read_only_hint = true))]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Adder {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: rmcp_server PORT")?.parse()?;
    bench_mcp::serve(port, || Adder).await
}
