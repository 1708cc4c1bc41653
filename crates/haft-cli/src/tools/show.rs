//! `haft tools show`.

use serde_json::Value;

use super::{all, no_tool, text};
use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, printable, say, say_json, say_prose, took};
use haft_core::Millis;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool.
    name: String,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Any, async |api| {
        let tools = all(api).await?;
        let tool = tools.iter().find(|tool| text(tool, "name") == args.name);
        let Some(tool) = tool else { return Err(no_tool(api, &args.name, &tools).await.into()) };
        match args.reach.wants_json() {
            true => say_json(tool)?,
            false => tell(tool)?,
        }
        Ok(Verdict::Holds)
    })
}

fn tell(tool: &Value) -> anyhow::Result<()> {
    let paint = Paint::stdout();
    say(&paint.paint(Tone::Bold, text(tool, "name")));
    say_prose(&printable(text(tool, "description")), 0);
    say("");
    let facets = &tool["facets"];
    let undo = tool["undo"]["tool"].as_str().unwrap_or("–").to_owned();
    let reach: Vec<&str> =
        facets["reach"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let reach = if reach.is_empty() { "–".to_owned() } else { reach.join(", ") };
    let ms = |member: &str| tool[member].as_u64().map(|ms| took(Millis(ms)));
    let facts = [
        ("effect", text(tool, "mode").to_owned()),
        ("gate", text(tool, "gate").to_owned()),
        ("run by", text(tool, "executor").to_owned()),
        ("reach", reach),
        ("repeatable", facets["idempotency"].to_string().trim_matches('"').to_owned()),
        ("taken back", undo),
        ("may run", ms("exec_timeout_ms").unwrap_or_else(|| "–".to_owned())),
        ("may wait", ms("suspend_ttl_ms").unwrap_or_else(|| "as its session".to_owned())),
    ];
    for (name, value) in facts {
        say(&format!("  {} {value}", paint.paint(Tone::Dim, &format!("{name:<10}"))));
    }
    for (what, schema) in [("takes", "input_schema"), ("gives", "output_schema")] {
        if !tool[schema].is_null() {
            let shown = serde_json::to_string_pretty(&tool[schema])?;
            say(&format!("\n{}\n{}", paint.paint(Tone::Dim, what), printable(&shown)));
        }
    }
    for finding in tool["lint"].as_array().into_iter().flatten() {
        say(&format!(
            "\n{} {}",
            paint.paint(Tone::Warn, &format!("{}:", text(finding, "field"))),
            text(finding, "message")
        ));
    }
    Ok(())
}
