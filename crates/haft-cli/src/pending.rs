//! `haft pending`: what waits for someone.

use std::num::NonZeroU16;

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Listed, Reach, StoreUse, short};
use crate::command::over_api;
use crate::terminal::{
    Paint, Table, Tone, ago, arguments_line, fitted, left, now, say, say_json, wait_card,
};
use haft_core::Timestamp;

/// How many are read at once.
const PAGE: usize = 500;

/// Lists what waits for someone, calls in doubt first; a call shows one of them whole.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: Option<String>,
    /// How many to list at most. Default: all of them.
    #[arg(long, value_name = "N", conflicts_with = "call")]
    limit: Option<NonZeroU16>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| match &args.call {
        Some(call) => show(api, args, call).await,
        None => list(api, args).await,
    })
}

async fn show(api: &Api, args: &Args, call: &str) -> anyhow::Result<Verdict> {
    let wait = api.wait(call).await?;
    if args.reach.wants_json() {
        say_json(&wait)?;
        return Ok(Verdict::Holds);
    }
    let paint = Paint::stdout();
    say(&wait_card(&wait, now(), paint));
    let (call, session) = (text(&wait, "call"), text(&wait, "session"));
    say(&paint.paint(Tone::Dim, &format!("  {call} of {session}\n  {}", verbs(&wait, call))));
    Ok(Verdict::Holds)
}

async fn list(api: &Api, args: &Args) -> anyhow::Result<Verdict> {
    let most = args.limit.map(|limit| usize::from(limit.get()));
    let page = most.unwrap_or(PAGE).min(PAGE);
    let path = format!("/haft/v1/pending?limit={page}");
    let Listed { rows: waits, has_more } = api.pages(&path, most).await?;
    if args.reach.wants_json() {
        say_json(&json!({ "data": waits, "has_more": has_more }))?;
        return Ok(Verdict::Holds);
    }
    if waits.is_empty() {
        eprintln!("Nothing waits for anyone.");
        return Ok(Verdict::Holds);
    }
    let ids: Vec<&str> = waits.iter().map(|wait| text(wait, "call")).collect();
    let mut table = Table::new(&["CALL", "WAITS FOR", "TOOL", "LEFT", "SINCE", "ARGUMENTS"]);
    let now = now();
    for wait in &waits {
        let at = |member: &str| wait[member].as_i64().map_or(now, Timestamp::from_ms);
        let arguments = match wait["unreadable"].as_str() {
            Some(_) => "cannot be read".to_owned(),
            None => wait["arguments"].as_object().map(arguments_line).unwrap_or_default(),
        };
        table.row([
            (short(text(wait, "call"), &ids), Some(Tone::Accent)),
            (awaited(text(wait, "kind")).to_owned(), None),
            (text(wait, "tool").to_owned(), Some(Tone::Bold)),
            (left(at("expires_at"), now), Some(Tone::Warn)),
            (ago(at("since"), now), Some(Tone::Dim)),
            (arguments, None),
        ]);
    }
    say(&table.shown(Paint::stdout()));
    if has_more {
        eprintln!("\nThere are more; without `--limit` all of them are listed.");
    }
    let n_unreadable = waits.iter().filter(|wait| wait["unreadable"].is_string()).count();
    if n_unreadable > 0 {
        let said = format!(
            "{n_unreadable} of them cannot be read; `haft audit verify` says what is wrong with \
             their sessions."
        );
        eprintln!("\n{}", fitted(&said, 0));
    }
    let hint = "`haft pending CALL` shows one whole; `haft approve`, `deny`, `answer` and `settle` decide.";
    eprintln!("\n{}", fitted(hint, 0));
    Ok(Verdict::Holds)
}

fn text<'a>(wait: &'a Value, member: &str) -> &'a str {
    wait[member].as_str().unwrap_or_default()
}

/// What is waited for, in a word.
fn awaited(kind: &str) -> &str {
    match kind {
        "approval" => "approval",
        "elicitation" => "an answer",
        "client_exec" => "a client",
        "settlement" => "a verdict",
        other => other,
    }
}

/// The commands that end a wait.
fn verbs(wait: &Value, call: &str) -> String {
    match text(wait, "kind") {
        "approval" => format!("haft approve {call}   haft deny {call} --note …"),
        "elicitation" => format!("haft answer {call} JSON   haft deny {call}"),
        "settlement" => format!("haft settle {call} happened|run-again|give-up"),
        _ => "a client that follows the session runs it".to_owned(),
    }
}
