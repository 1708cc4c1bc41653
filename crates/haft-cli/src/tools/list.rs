//! `haft tools list`.

use serde_json::json;

use super::{all, text};
use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{Paint, Table, Tone, say, say_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Any, async |api| {
        let tools = all(api).await?;
        if args.reach.wants_json() {
            say_json(&json!({ "data": tools }))?;
            return Ok(Verdict::Holds);
        }
        let mut table = Table::new(&["TOOL", "EFFECT", "GATE", "RUN BY", "DESCRIPTION"]);
        for tool in &tools {
            let mode = text(tool, "mode");
            table.row([
                (text(tool, "name").to_owned(), Some(Tone::Bold)),
                (mode.to_owned(), Some(tone(mode))),
                (text(tool, "gate").to_owned(), None),
                (text(tool, "executor").to_owned(), Some(Tone::Dim)),
                (text(tool, "description").to_owned(), None),
            ]);
        }
        say(&table.shown(Paint::stdout()));
        Ok(Verdict::Holds)
    })
}

fn tone(mode: &str) -> Tone {
    match mode {
        "read" => Tone::Good,
        "safe_write" => Tone::Accent,
        "destructive" => Tone::Bad,
        _ => Tone::Warn,
    }
}
