//! `haft tools`: the catalogue.

mod call;
mod import;
mod lint;
mod list;
mod show;

use serde_json::Value;

use crate::Verdict;
use crate::api::{Api, rows};
use crate::mounts::note_left_out;
use crate::trouble::Trouble;

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

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row[member].as_str().unwrap_or_default()
}
