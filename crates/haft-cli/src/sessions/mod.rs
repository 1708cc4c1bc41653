//! `haft sessions`: what happened.

mod events;
mod list;
mod show;
mod trace;

use crate::Verdict;

/// Shows sessions and what happened in them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Prints the events of a session, as they are stored.
    Events(events::Args),
    /// Lists sessions, the newest first.
    List(list::Args),
    /// Shows one session: what it is called, what it is doing, what stands in it.
    Show(show::Args),
    /// Shows what happened in a session as a tree: turns, calls, waits and who decided.
    Trace(trace::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Events(args) => events::run(args),
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Trace(args) => trace::run(args),
    }
}
