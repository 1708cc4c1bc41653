//! Everything that the binary `haft` does: the only reader of argv and the environment.
//!
//! It is a library so that cargo compiles it beside the crates that it is linked with; a binary
//! waits until all of them are done.
//!
//! Data goes to stdout, all else to stderr. Exit codes: 0 all is well, 1 what was asked for did
//! not hold or could not be done, 2 the arguments make no sense, 3 something waits for a person,
//! 4 someone else decided first, 5 there is nobody to ask.
#![expect(clippy::print_stderr, reason = "the terminal is the interface")]

mod answer;
mod api;
mod approve;
mod audit;
mod backup;
mod bench;
mod chat;
mod command;
mod config;
mod decide;
mod deny;
mod doctor;
mod edit;
mod explain;
mod exported;
mod hands;
mod keys;
mod mcp;
mod mounts;
mod pending;
mod place;
mod policy;
mod private;
mod prompt;
mod reference;
mod repair;
mod resolving;
mod restore;
mod rules;
mod serve;
mod sessions;
mod settings;
mod settle;
mod terminal;
mod tools;
mod torture;
mod trouble;
mod trust;
mod undo;
mod waiting;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::trouble::{Code, Trouble};

/// The durable, permissioned tool runtime for LLM agents.
#[derive(Debug, Parser)]
#[command(name = "haft", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Answer(answer::Args),
    Approve(approve::Args),
    /// Checks the store: finds what was changed, left out, moved or damaged.
    #[command(subcommand)]
    Audit(audit::Command),
    Backup(backup::Args),
    /// Measures on this machine.
    #[command(subcommand)]
    Bench(bench::Command),
    Chat(chat::ChatArgs),
    Completions(reference::CompletionsArgs),
    Deny(deny::Args),
    Doctor(doctor::Args),
    Explain(explain::Args),
    /// Makes API keys.
    #[command(subcommand)]
    Keys(keys::Command),
    Man(reference::ManArgs),
    /// Serves tools to an MCP client over stdin and stdout; mounts other servers' tools.
    Mcp(mcp::Args),
    Pending(pending::Args),
    #[command(subcommand)]
    Policy(policy::Command),
    /// Prints the reference of all commands, as Markdown.
    #[command(hide = true)]
    Reference,
    Repair(repair::Args),
    Restore(restore::Args),
    Run(chat::RunArgs),
    /// Serves Haft over HTTP.
    Serve(Box<serve::Args>),
    /// A worker that `serve` runs beside itself, which dies with it.
    #[command(hide = true)]
    ServeWorker(serve::WorkerArgs),
    #[command(subcommand)]
    Sessions(sessions::Command),
    Settle(settle::Args),
    #[command(subcommand)]
    Tools(tools::Command),
    /// Kills a real process again and again while it works, and counts what happened.
    Torture(torture::Args),
    /// One of two processes that approve the same call at the same moment.
    #[command(hide = true)]
    TortureDuel(torture::DuelArgs),
    /// One life of the process that `torture` kills.
    #[command(hide = true)]
    TortureLife(torture::LifeArgs),
    Trust(trust::Args),
    Undo(undo::Args),
}

impl Command {
    /// Whether it does its work where the settings cannot be used: it tells what is wrong with
    /// them, sees to their being trusted, or has nothing to do with them.
    const fn needs_no_settings(&self) -> bool {
        matches!(
            self,
            Self::Completions(_)
                | Self::Doctor(_)
                | Self::Explain(_)
                | Self::Man(_)
                | Self::Reference
                | Self::Trust(_)
        )
    }
}

/// Runs the command that argv names and returns its exit code.
pub fn main() -> ExitCode {
    // A sandbox starts this program again as its launcher; nothing may happen before that.
    haft_sandbox::launcher::main_if_asked();
    let args = match settings::configured(Args::command()) {
        Ok(command) => Args::from_arg_matches(&command.get_matches()),
        Err(trouble) => match Args::try_parse() {
            Ok(args) if args.command.needs_no_settings() => Ok(args),
            Err(error) if !error.use_stderr() => error.exit(),
            _ => return fail(&trouble.into()),
        },
    };
    let done = match args.unwrap_or_else(|error| error.exit()).command {
        Command::Answer(args) => answer::run(&args),
        Command::Approve(args) => approve::run(&args),
        Command::Audit(command) => audit::run(&command),
        Command::Backup(args) => backup::run(&args),
        Command::Bench(command) => bench::run(&command),
        Command::Chat(args) => chat::chat(&args),
        Command::Completions(args) => Ok(reference::completions(&args)),
        Command::Deny(args) => deny::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Keys(command) => keys::run(command),
        Command::Man(args) => reference::man(&args),
        Command::Mcp(args) => mcp::run(args),
        Command::Pending(args) => pending::run(&args),
        Command::Policy(command) => policy::run(&command),
        Command::Reference => Ok(reference::reference()),
        Command::Repair(args) => repair::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Run(args) => chat::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::ServeWorker(args) => serve::become_worker(&args),
        Command::Sessions(command) => sessions::run(&command),
        Command::Settle(args) => settle::run(&args),
        Command::Tools(command) => tools::run(&command),
        Command::Torture(args) => torture::run(&args),
        Command::TortureDuel(args) => torture::duel(&args),
        Command::TortureLife(args) => torture::live(&args),
        Command::Trust(args) => trust::run(&args),
        Command::Undo(args) => undo::run(&args),
    };
    match (done, terminal::unsaid()) {
        (Err(error), _) => fail(&error),
        (Ok(_), Some(error)) => fail(&not_whole(error).into()),
        (Ok(Verdict::Holds), None) => ExitCode::SUCCESS,
        (Ok(Verdict::Broken), None) => ExitCode::FAILURE,
        (Ok(Verdict::Waits), None) => ExitCode::from(3),
    }
}

fn not_whole(error: &std::io::Error) -> Trouble {
    Trouble::new(Code::Failed, "what was printed is not whole")
        .why(error)
        .next("make room where it goes, or have it go elsewhere; what the command did is done")
}

/// Where what is said of an error begins, behind `why:` and `next:`.
const ERROR_HANG: usize = 8;

/// Says what went wrong: to people on stderr; `--json` changes only what is on stdout.
fn fail(error: &anyhow::Error) -> ExitCode {
    let trouble = error.downcast_ref::<Trouble>().cloned();
    let trouble = trouble.unwrap_or_else(|| Trouble::new(Code::Failed, format!("{error:#}")));
    let code = trouble.code();
    let word = terminal::Paint::stderr().paint(terminal::Tone::Bad, &format!("error[{code}]"));
    let said = format!("{word}: {trouble}\n  more: haft explain {code}");
    eprintln!("{}", terminal::fitted(&said, ERROR_HANG));
    ExitCode::from(trouble.exit_code())
}

/// What a command found, as opposed to an error, which kept it from finding anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// The command has said what does not hold.
    Broken,
    /// Someone has to decide first; the command has said who finds it where.
    Waits,
}
