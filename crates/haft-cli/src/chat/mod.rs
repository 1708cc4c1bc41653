//! `haft chat` and `haft run`: a conversation in the terminal, or one turn of it.

mod agent;
mod prose;
mod recap;
mod screen;
mod talk;

use std::io::IsTerminal as _;

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::mounts::note_left_out;
use crate::trouble::{Code, Trouble};
use crate::waiting::SessionWaits;
use agent::session as opened;
use talk::{Manner, Talk};

/// Talks to a model in the terminal; what its tools ask is asked there. Without a model, a
/// scripted demo that needs none.
#[derive(Debug, clap::Args)]
pub(crate) struct ChatArgs {
    /// Goes on with a session, by its id or the beginning of it.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    waits: SessionWaits,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    reach: Reach,
}

/// Has a model do one thing: prints what it says, asks what its tools ask, and ends.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// What is wanted.
    message: String,
    /// Goes on with a session, by its id or the beginning of it.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    waits: SessionWaits,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    reach: Reach,
}

/// Whom to talk to.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Choice {
    /// The model, such as `openai/NAME` or `anthropic/NAME`.
    #[arg(long, short, value_name = "MODEL", env = "HAFT_MODEL")]
    model: Option<String>,
    /// An agent of the server instead, by its id.
    #[arg(long, value_name = "ID", conflicts_with = "model")]
    agent: Option<String>,
    /// How much is asked in the new session: what tools declare (`cautious`), nothing but what
    /// always asks (`autonomous`), every change (`standard`) or everything (`paranoid`). Default:
    /// what the agent says.
    #[arg(long, value_name = "LEVEL", value_parser = ["autonomous", "cautious", "standard", "paranoid"])]
    level: Option<String>,
}

pub(crate) fn chat(args: &ChatArgs) -> anyhow::Result<Verdict> {
    if !std::io::stdin().is_terminal() {
        return Err(Trouble::new(Code::NoTerminal, "`haft chat` needs a terminal to talk in")
            .why("its input comes from somewhere else")
            .next("use `haft run \"…\"`, which also works in scripts")
            .into());
    }
    over_api(&args.reach, StoreUse::Made, async |api| {
        note_left_out(api);
        let (session, seen) =
            opened(api, &args.choice, &args.waits, args.session.as_deref()).await?;
        let mut talk = Talk::begin(api, session, seen, Manner::Conversation).await?;
        talk.converse().await
    })
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Made, async |api| {
        note_left_out(api);
        let (session, seen) =
            opened(api, &args.choice, &args.waits, args.session.as_deref()).await?;
        let manner = match args.reach.wants_json() {
            true => Manner::Json,
            false => Manner::OneTurn,
        };
        let mut talk = Talk::begin(api, session, seen, manner).await?;
        talk.once(&args.message).await
    })
}
