//! `haft sessions events`.

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Heard, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, clipped, columns, say, shortened, width};
use haft_core::Timestamp;

/// How many are read at once.
const PAGE: usize = 1000;

/// How much of an event is worth its place on a line.
const REST_MIN: usize = 20;

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
            match heard {
                Heard::Entry { seq, at, event } => {
                    after = seq;
                    print(args, &json!({ "seq": seq, "at": at, "event": event }));
                }
                Heard::Deleted => {
                    eprintln!("the session was deleted");
                    return Ok(Verdict::Holds);
                }
                Heard::CaughtUp | Heard::Progress { .. } | Heard::Text { .. } => {}
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
        entry["seq"].as_u64().unwrap_or_default(),
        at.unwrap_or_default(),
        kind.as_str().unwrap_or_default()
    );
    say(&shown(&head, &event.to_string(), width(), paint));
}

/// In a narrow terminal, what an event says goes below its head.
fn shown(head: &str, event: &str, width: Option<usize>, paint: Paint) -> String {
    const GAP: &str = "  ";
    const BELOW: &str = "\n       ";
    let beside = width.map(|width| width.saturating_sub(columns(head) + GAP.len()));
    let (head, gap, room) = match (width, beside) {
        (Some(width), Some(beside)) if beside < REST_MIN => {
            (clipped(head.trim_end(), width), BELOW, width.saturating_sub(BELOW.len() - 1))
        }
        (_, beside) => (head.to_owned(), GAP, beside.unwrap_or(usize::MAX)),
    };
    let rest = shortened(event, room);
    format!("{}{gap}{}", paint.paint(Tone::Accent, &head), paint.paint(Tone::Dim, &rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        let head = "    3  2026-11-16T17:07:59.472Z  call.proposed       ";
        let event = r#"{"call":"call_01m7jn8wven45jm7rq78tadhtg","arguments":{"a":1}}"#;
        let wide = shown(head, event, Some(90), Paint::Plain);
        assert_eq!((wide.lines().count(), columns(&wide)), (1, 90), "{wide}");
        for width in [20, 40, 60, 74] {
            let narrow = shown(head, event, Some(width), Paint::Plain);
            assert_eq!(narrow.lines().count(), 2, "{narrow}");
            assert!(narrow.lines().all(|line| columns(line) <= width), "{narrow}");
        }
        assert!(shown(head, event, None, Paint::Plain).ends_with(event));
    }
}
