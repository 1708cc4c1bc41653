//! The binary `haft`: the only reader of argv and the environment.
//!
//! Data goes to stdout, all else to stderr. Exit codes: 0 all is well, 1 what was asked for did
//! not hold or could not be done, 2 the arguments make no sense.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the terminal is the interface")]

mod audit;
mod bench;
mod config;
mod hands;
mod keys;
mod mcp;
mod mounts;
mod place;
mod serve;
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The durable, permissioned tool runtime for LLM agents.
#[derive(Debug, Parser)]
#[command(name = "haft", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks the journal: finds an entry that was changed, left out or moved.
    #[command(subcommand)]
    Audit(audit::Command),
    /// Measures on this machine.
    #[command(subcommand)]
    Bench(bench::Command),
    /// Makes API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Serves tools to an MCP client over stdin and stdout; mounts other servers' tools.
    Mcp(mcp::Args),
    /// Serves Haft over HTTP.
    Serve(Box<serve::Args>),
    /// Kills a real process again and again while it works, and counts what happened.
    Torture(torture::Args),
    /// One of two processes that approve the same call at the same moment.
    #[command(hide = true)]
    TortureDuel(torture::DuelArgs),
    /// One life of the process that `torture` kills.
    #[command(hide = true)]
    TortureLife(torture::LifeArgs),
}

fn main() -> ExitCode {
    // A sandbox starts this program again as its launcher; nothing may happen before that.
    haft_sandbox::launcher::main_if_asked();
    let done = match Args::parse().command {
        Command::Audit(command) => audit::run(command),
        Command::Bench(command) => bench::run(&command),
        Command::Keys(command) => keys::run(command),
        Command::Mcp(args) => mcp::run(args),
        Command::Serve(args) => serve::run(&args),
        Command::Torture(args) => torture::run(&args),
        Command::TortureDuel(args) => torture::duel(&args),
        Command::TortureLife(args) => torture::live(&args),
    };
    match done {
        Ok(Verdict::Holds) => ExitCode::SUCCESS,
        Ok(Verdict::Broken) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What a command found, as opposed to an error, which kept it from finding anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// The command has said what does not hold.
    Broken,
}
