//! `haft sessions`: what happened.

mod delete;
mod events;
mod export;
mod list;
mod show;
mod trace;

use crate::Verdict;

/// Shows sessions and what happened in them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Deletes a session: what was said and done in it is erased, also by its sub-agents.
    Delete(delete::Args),
    /// Prints the events of a session, as they are stored.
    Events(events::Args),
    /// Prints a session whole, with its hashes, as lines of JSON. `haft audit verify --file` checks it.
    Export(export::Args),
    /// Lists sessions, the newest first.
    List(list::Args),
    /// Shows one session: what it is called, what it is doing, what stands in it.
    Show(show::Args),
    /// Shows what happened in a session as a tree: turns, calls, waits and who decided.
    Trace(trace::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Delete(args) => delete::run(args),
        Command::Events(args) => events::run(args),
        Command::Export(args) => export::run(args),
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Trace(args) => trace::run(args),
    }
}
