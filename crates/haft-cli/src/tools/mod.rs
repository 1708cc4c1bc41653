//! `haft tools`: the catalogue.

mod call;
mod import;
mod lint;
mod list;
mod show;

use haft_runtime::registry;
use serde_json::Value;

use crate::Verdict;
use crate::api::{Api, rows};
use crate::mounts::note_left_out;
use crate::trouble::{Code, Trouble};

/// Shows the tools, tries one, judges their definitions.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Calls one tool through its whole lifecycle, in a session of its own.
    Call(call::Args),
    /// Takes in tools that are defined in any of the dialects: for an agent, or printed as Haft's.
    Import(import::Args),
    /// Finds what makes models choose or use tools wrongly.
    Lint(lint::Args),
    /// Lists the tools of the node.
    List(list::Args),
    /// Shows one tool: what it does to the world, who approves, what it takes and gives.
    Show(show::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Call(args) => call::run(args),
        Command::Import(args) => import::run(args),
        Command::Lint(args) => lint::run(args),
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
    }
}

async fn all(api: &Api) -> Result<Vec<Value>, Trouble> {
    note_left_out(api);
    Ok(rows(api.get("/haft/v1/tools").await?))
}

/// Says what is there instead: a mounted server's tool that waits to be accepted, or the name
/// that is nearest to the one that was asked for.
pub(crate) async fn no_tool(api: &Api, name: &str, tools: &[Value]) -> Trouble {
    let trouble = Trouble::new(Code::NoTool, format!("there is no tool `{name}`"));
    let servers = api.get("/haft/v1/mcp/servers").await.map(rows).unwrap_or_default();
    if let Some(server) = servers.iter().find(|server| offers(server, name)) {
        let server = text(server, "name");
        return trouble
            .why(format!("the mounted server `{server}` offers it, and nobody has accepted it"))
            .next(format!("`haft mcp accept {server}` shows it, and accepts it"));
    }
    let near = nearest(name, tools).map(|near| format!("did you mean `{near}`? "));
    trouble.next(format!("{}`haft tools list` lists them", near.unwrap_or_default()))
}

/// Whether a server's tool of this name waits to be accepted. It has no name here before that.
fn offers(server: &Value, name: &str) -> bool {
    let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_lowercase();
    let waits = server["pending"].as_array().into_iter().flatten();
    let mut names =
        waits.map(|change| format!("{}_{}", text(server, "name"), text(change, "tool")));
    names.any(|waiting| plain(&waiting) == plain(name))
}

/// The tool whose name differs by the fewest letters; if all differ by many, the one that begins
/// alike, as for a name that was cut off.
fn nearest<'a>(name: &str, tools: &'a [Value]) -> Option<&'a str> {
    let names = tools.iter().map(|tool| text(tool, "name"));
    if let Some(near) = registry::nearest(name, names).first().copied() {
        return Some(near);
    }
    let shared = |other: &str| other.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let near = tools.iter().map(|tool| text(tool, "name"));
    let near = near.map(|other| (shared(other) + usize::from(other.contains(name)), other));
    let near = near.filter(|(n_shared, _)| *n_shared > 2).max_by_key(|(n_shared, _)| *n_shared);
    near.map(|(_, other)| other)
}

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row[member].as_str().unwrap_or_default()
}
