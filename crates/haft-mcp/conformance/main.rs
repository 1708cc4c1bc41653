//! The server that the official conformance suite tests: its fixture's tools, prompts and
//! resources, all of them Haft tools behind Haft's lifecycle, permissions and store.
//!
//! `cargo run -p haft-mcp --bin haft-mcp-conformance -- DIRECTORY PORT`
#![expect(clippy::print_stdout, reason = "it says where it listens")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]

mod content;
mod inputs;
mod jobs;
mod kit;
mod listen;
mod prompts;

use std::path::Path;

use haft_core::{Actor, ActorId};
use haft_mcp::{HttpDoor, McpServer, Principal, Questions, ServerSettings};
use haft_runtime::{Haft, HaftBuilder};
use haft_store::{Store, Tenant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(directory), Some(port)) = (args.next(), args.next()) else {
        return Err("usage: haft-mcp-conformance DIRECTORY PORT".into());
    };
    let questions = Questions::new();
    let haft = node(&questions).start(Store::open_sqlite(Path::new(&directory))?)?;
    content::attach(&haft);
    let server = McpServer::new(haft, questions, settings());
    let door = HttpDoor { anonymous: Some(principal()?), ..HttpDoor::local() };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    listen::serve(listener, server.http(door)).await
}

fn node(questions: &Questions) -> HaftBuilder {
    let tools = [content::tools(), inputs::tools(), jobs::tools(), prompts::tools()];
    let builder = haft_mcp::install(Haft::builder(), questions);
    builder.tools(tools.into_iter().flatten())
}

fn settings() -> ServerSettings {
    ServerSettings {
        name: "haft-conformance".to_owned(),
        instructions: Some("The fixture of the conformance suite, as Haft tools.".to_owned()),
        tasks: jobs::task_uses(),
        prompts: prompts::names(),
        resources: prompts::resources(),
        ..ServerSettings::default()
    }
}

fn principal() -> Result<Principal, Box<dyn std::error::Error>> {
    let (actor, tenant) = (Actor::user(ActorId::new("conformance")?), Tenant::new("conformance")?);
    Ok(Principal { actor, tenant })
}
