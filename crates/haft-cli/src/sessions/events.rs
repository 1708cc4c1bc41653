//! `haft sessions events`.

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Heard, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, say, shortened, width};
use haft_core::Timestamp;

/// How many are read at once.
const PAGE: usize = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, or the beginning of its id.
    session: String,
    /// Begins after this place in the log.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Goes on with what comes.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    reach: Reach,
}

/// With `--json`, a line for each event.
pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let id = api.session(&args.session).await?;
        match args.follow {
            true => follow(api, args, &id).await,
            false => list(api, args, &id).await,
        }
    })
}

async fn list(api: &Api, args: &Args, id: &str) -> anyhow::Result<Verdict> {
    let mut after = args.after;
    loop {
        let path = format!("/haft/v1/sessions/{id}/events?after={after}&limit={PAGE}");
        let page = rows(api.get(&path).await?);
        for entry in &page {
            print(args, entry);
            after = entry["seq"].as_u64().unwrap_or(after);
        }
        if page.len() < PAGE {
            return Ok(Verdict::Holds);
        }
    }
}

async fn follow(api: &Api, args: &Args, id: &str) -> anyhow::Result<Verdict> {
    let mut after = args.after;
    loop {
        let mut stream = api.follow(id, after).await?;
        while let Some(heard) = stream.next().await {
            if let Heard::Entry { seq, at, event } = heard {
                after = seq;
                print(args, &json!({ "seq": seq, "at": at, "event": event }));
            }
        }
    }
}

fn print(args: &Args, entry: &Value) {
    if args.reach.wants_json() {
        return say(&entry.to_string());
    }
    let paint = Paint::stdout();
    let at = entry["at"].as_i64().map(Timestamp::from_ms).map(|at| at.to_string());
    let mut event = entry["event"].clone();
    let kind = event["type"].take();
    if let Value::Object(members) = &mut event {
        members.remove("type");
    }
    let head = format!(
        "{:>5}  {}  {:<20}",
        entry["seq"],
        at.unwrap_or_default(),
        kind.as_str().unwrap_or_default()
    );
    let room = width().map_or(usize::MAX, |width| width.saturating_sub(head.len() + 2).max(20));
    let rest = shortened(&event.to_string(), room);
    say(&format!("{}  {}", paint.paint(Tone::Accent, &head), paint.paint(Tone::Dim, &rest)));
}
