//! `haft sessions list`.

use haft_core::Timestamp;
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Reach, StoreUse, rows, short};
use crate::command::over_api;
use crate::terminal::{Paint, Table, Tone, ago, now, say, say_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let listed = rows(api.get(&format!("/haft/v1/sessions?limit={}", args.limit)).await?);
        if args.reach.wants_json() {
            say_json(&json!({ "data": listed }))?;
            return Ok(Verdict::Holds);
        }
        match listed.is_empty() {
            true => eprintln!("There are no sessions yet; `haft chat` opens one."),
            false => say(&table(&listed).shown(Paint::stdout())),
        }
        Ok(Verdict::Holds)
    })
}

fn table(listed: &[Value]) -> Table {
    let text = |row: &Value, member: &str| row[member].as_str().unwrap_or_default().to_owned();
    let ids: Vec<&str> = listed.iter().filter_map(|row| row["id"].as_str()).collect();
    let mut table = Table::new(&["SESSION", "STATUS", "WAITS", "CHANGED", "AGENT", "TITLE"]);
    let now = now();
    for row in listed {
        let changed = row["updated_at"].as_i64().map_or(now, Timestamp::from_ms);
        let n_waiting = row["n_waiting"].as_u64().unwrap_or(0);
        let (waits, tone) = match n_waiting {
            0 => ("–".to_owned(), Tone::Dim),
            n => (n.to_string(), Tone::Warn),
        };
        table.row([
            (short(&text(row, "id"), &ids), Some(Tone::Accent)),
            (text(row, "status"), None),
            (waits, Some(tone)),
            (ago(changed, now), Some(Tone::Dim)),
            (text(row, "agent"), Some(Tone::Dim)),
            (text(row, "title"), None),
        ]);
    }
    table
}
