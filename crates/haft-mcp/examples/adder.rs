//! A server with one trivial tool, for measuring what stands around a call.
//!
//! `cargo run --release -p haft-mcp --example adder -- PORT WHERE`, where `WHERE` is
//! - `direct`: nothing is recorded;
//! - `sqlite DIRECTORY`: every call is recorded there before it runs, and what came of it before
//!   it is answered;
//! - `mounted DIRECTORY URL`: recorded, and the tool is another server's.

#[path = "../conformance/listen.rs"]
mod listen;

use std::error::Error;
use std::path::Path;

use haft_core::permission::Level;
use haft_core::session::{Config, Driver, Returned};
use haft_core::tool::{Definition, Facets, Mutates, Schema};
use haft_core::{Actor, ActorId, CallResult, Output};
use haft_mcp::{
    DirectServer, HttpDoor, McpServer, McpService, MountConfig, Mounts, Peer, Principal, Questions,
    Secrets, ServerSettings,
};
use haft_runtime::{FunctionTool, Haft, Tool, ToolArguments, ToolContext, ToolError};
use haft_store::{Store, Tenant};
use serde_json::Value;
use tokio::net::TcpListener;

/// As in the binary `haft`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (port, service) = match arguments[..] {
        [port, "direct"] => (port, direct()?),
        [port, "sqlite", directory] => (port, stored(Path::new(directory))?),
        [port, "mounted", directory, url] => (port, mounted(Path::new(directory), url).await?),
        _ => return Err("usage: adder PORT direct|sqlite DIRECTORY|mounted DIRECTORY URL".into()),
    };
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    listen::serve(listener, service).await
}

fn direct() -> Result<McpService> {
    let direct = Haft::builder().tool(adder()?).direct(Config::default(), principal()?.actor)?;
    Ok(DirectServer::new(direct, "adder").http(door()?))
}

fn stored(directory: &Path) -> Result<McpService> {
    let questions = Questions::new();
    let builder = haft_mcp::install(Haft::builder(), &questions).tool(adder()?);
    let haft = builder.start(Store::open_sqlite(directory)?)?;
    Ok(McpServer::new(haft, questions, ServerSettings::default()).http(door()?))
}

async fn mounted(directory: &Path, url: &str) -> Result<McpService> {
    let (questions, Principal { actor, tenant }) = (Questions::new(), principal()?);
    let haft = haft_mcp::install(Haft::builder(), &questions);
    let haft = haft.start(Store::open_sqlite(directory)?)?;
    let secrets = Secrets::new(|_| Box::pin(async { Err("there are no secrets".to_owned()) }));
    let (registry, store) = (haft.registry().clone(), haft.store().clone());
    let mounts = Mounts::new(registry, store, questions.clone(), secrets, tenant);
    let peer =
        Peer::Http { url: url.to_owned(), headers: Default::default(), oauth: Default::default() };
    mounts.mount(MountConfig::new("peer".parse()?, peer), &actor).await?;
    let (driver, level) = (Driver::Caller, Level::Autonomous);
    let config = Config { driver, level, ..Config::default() };
    let settings = ServerSettings { config, ..ServerSettings::default() };
    Ok(McpServer::new(haft, questions, settings).http(door()?))
}

fn adder() -> Result<impl Tool> {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#;
    let mut definition =
        Definition::new("add".parse()?, "Adds two integers.", Schema::new(schema)?);
    let facets =
        Facets { mutates: Some(Mutates::None), reach: Some([].into()), ..Facets::default() };
    definition.facets = facets;
    Ok(FunctionTool::new(definition, |arguments: ToolArguments, _: ToolContext| async move {
        let number = |name: &str| arguments.get(name).and_then(Value::as_i64).unwrap_or_default();
        let sum = Output::of_text((number("a") + number("b")).to_string());
        Ok::<_, ToolError>(Returned::from(CallResult::Ok(sum)))
    }))
}

fn door() -> Result<HttpDoor> {
    Ok(HttpDoor { anonymous: Some(principal()?), ..HttpDoor::local() })
}

fn principal() -> Result<Principal> {
    Ok(Principal { actor: Actor::user(ActorId::new("caller")?), tenant: Tenant::new("bench")? })
}
