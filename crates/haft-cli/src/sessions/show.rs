//! `haft sessions show`.

use serde_json::Value;

use crate::Verdict;
use crate::api::{Reach, StoreUse, rows};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, fitted, now, printable, say, say_json, wait_card};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, or the beginning of its id.
    session: String,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let id = api.session(&args.session).await?;
        let mut session = api.get(&format!("/haft/v1/sessions/{id}")).await?;
        let waits = rows(api.get(&format!("/haft/v1/pending?session={id}")).await?);
        if args.reach.wants_json() {
            session["pending"] = Value::Array(waits);
            say_json(&session)?;
            return Ok(Verdict::Holds);
        }
        tell(&session, &waits);
        Ok(Verdict::Holds)
    })
}

/// What a queued call waits for. Only the node that has its session knows how many are ahead.
fn queued(call: &Value) -> String {
    let (id, tool) = (call["call"].as_str().unwrap_or("–"), call["tool"].as_str().unwrap_or("–"));
    match (call["because"].as_str(), call["pool"].as_str(), call["ahead"].as_u64()) {
        (Some(because), ..) => format!("{id} {tool}: {because}"),
        (None, Some(pool), Some(ahead)) => {
            format!("{id} {tool}: behind {ahead} others for {pool}")
        }
        _ => format!("{id} {tool}"),
    }
}

fn tell(session: &Value, waits: &[Value]) {
    let paint = Paint::stdout();
    let text = |member: &str| session[member].as_str().unwrap_or("–");
    say(&paint.paint(Tone::Bold, &printable(text("title"))));
    let names = |rows: &Value, member: &str| {
        let names = rows.as_array().into_iter().flatten().filter_map(|row| row[member].as_str());
        let names: Vec<&str> = names.collect();
        if names.is_empty() { "–".to_owned() } else { names.join(", ") }
    };
    let facts = [
        ("session", text("id").to_owned()),
        ("status", text("status").to_owned()),
        ("agent", text("agent").to_owned()),
        ("events", session["head"].to_string()),
        ("own tools", names(&session["tools"], "name")),
        ("grants", names(&session["grants"], "tool")),
    ];
    for (name, value) in facts {
        say(&format!("  {} {value}", paint.paint(Tone::Dim, &format!("{name:<10}"))));
    }
    for call in session["queued"].as_array().into_iter().flatten() {
        say(&format!("  {} {}", paint.paint(Tone::Dim, "queued    "), printable(&queued(call))));
    }
    for wait in waits {
        say("");
        say(&wait_card(wait, now(), paint));
    }
    let hint = match session["agent"] {
        Value::Null => "`haft sessions trace` tells what happened.",
        _ => "`haft sessions trace` tells what happened; `haft chat --session` goes on with it.",
    };
    eprintln!("\n{}", fitted(hint, 0));
}
