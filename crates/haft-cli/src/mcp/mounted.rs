//! `haft mcp list`, `accept` and `authorize`: the servers that a running `haft serve` has mounted.

use std::io::IsTerminal as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Elsewhere, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::prompt::Lines;
use crate::terminal::{Paint, Table, Tone, diff, printable, say, say_json};
use crate::trouble::{Code, Trouble};

/// How often it is looked whether somebody has authorized a server.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only this one, with its tools and what of it waits to be accepted.
    #[arg(id = "mounted", value_name = "SERVER")]
    server: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AcceptArgs {
    /// The server.
    #[arg(id = "mounted", value_name = "SERVER")]
    server: String,
    /// Only this tool of it, by the server's own name for it.
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
    /// Accepts what is shown without asking.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AuthorizeArgs {
    /// The server.
    #[arg(id = "mounted", value_name = "SERVER")]
    server: String,
    /// Prints the address to open, and does not wait until somebody has.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        require_server(api)?;
        let paint = Paint::stdout();
        let Some(server) = &args.server else {
            let servers = rows(api.get("/haft/v1/mcp/servers").await?);
            match args.reach.wants_json() {
                true => say_json(&json!({ "data": servers }))?,
                false => say_all(&servers, paint),
            }
            return Ok(Verdict::Holds);
        };
        let server = api.get(&path(server)).await?;
        match args.reach.wants_json() {
            true => say_json(&server)?,
            false => say_one(&server, paint),
        }
        Ok(Verdict::Holds)
    })
}

fn say_all(servers: &[Value], paint: Paint) {
    if servers.is_empty() {
        eprintln!("No server is mounted. `haft mcp add` mounts one.");
        return;
    }
    let mut table = Table::new(&["SERVER", "STATE", "TOOLS", "TO ACCEPT", "WHERE"]);
    for server in servers {
        let n_pending = waiting(server).len();
        table.row([
            (text(&server["name"]), Some(Tone::Bold)),
            state(server),
            (server["tools"].as_object().map_or(0, serde_json::Map::len).to_string(), None),
            (n_pending.to_string(), (n_pending > 0).then_some(Tone::Warn)),
            (place(server), Some(Tone::Dim)),
        ]);
    }
    say(&table.shown(paint));
    for server in servers {
        if let Some(message) = server["health"]["message"].as_str() {
            eprintln!("\n{}: {}", text(&server["name"]), printable(message));
        }
    }
    if servers.iter().any(|server| !waiting(server).is_empty()) {
        eprintln!("\n`haft mcp accept SERVER` shows what waits to be accepted, and accepts it.");
    }
}

fn say_one(server: &Value, paint: Paint) {
    let (state, tone) = state(server);
    let state = tone.map_or_else(|| state.clone(), |tone| paint.paint(tone, &state));
    let name = paint.paint(Tone::Bold, &text(&server["name"]));
    say(&format!("{name}  {state}  {}", paint.paint(Tone::Dim, &place(server))));
    if let Some(message) = server["health"]["message"].as_str() {
        say(&format!("  {}", printable(message)));
    }
    for (wire_name, tool) in server["tools"].as_object().into_iter().flatten() {
        say(&format!("  {}  {}", text(tool), paint.paint(Tone::Dim, &printable(wire_name))));
    }
    for (wire_name, why) in server["refused"].as_object().into_iter().flatten() {
        say(&format!("  {} cannot be used: {}", printable(wire_name), text(why)));
    }
    for change in waiting(server) {
        say_change(change, paint);
    }
}

pub(super) fn accept(args: &AcceptArgs) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        require_server(api)?;
        let server = api.get(&path(&args.server)).await?;
        let is_meant =
            |change: &&Value| args.tool.as_ref().is_none_or(|tool| change["tool"] == **tool);
        let changes: Vec<&Value> = waiting(&server).iter().filter(is_meant).collect();
        if changes.is_empty() {
            return match &args.tool {
                Some(tool) => Err(nothing_waits(&format!("`{tool}` of `{}`", args.server)).into()),
                None => {
                    eprintln!("Nothing of `{}` waits to be accepted.", args.server);
                    Ok(Verdict::Holds)
                }
            };
        }
        let mut lines = (!args.yes && std::io::stdin().is_terminal()).then(Lines::of_stdin);
        for change in changes {
            if !args.reach.wants_json() {
                say_change(change, Paint::stdout());
            }
            if is_accepted(args, lines.as_mut()).await? {
                let body = json!({ "tool": change["tool"], "digest": change["digest"] });
                api.post(&format!("{}/accept", path(&args.server)), &body).await?;
                eprintln!("`{}` is accepted as it is now.", text(&change["tool"]));
            }
        }
        if args.reach.wants_json() {
            say_json(&api.get(&path(&args.server)).await?)?;
        }
        Ok(Verdict::Holds)
    })
}

async fn is_accepted(args: &AcceptArgs, lines: Option<&mut Lines>) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    let Some(lines) = lines else {
        let what = "nobody can be asked here whether to accept this";
        let trouble = Trouble::new(Code::NoTerminal, what);
        return Err(trouble.next("look at it, and say `--yes`").into());
    };
    lines.discard_what_was_typed_before().await;
    let answer = lines.ask("Accept it? [y/N] ").await.unwrap_or_default();
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(super) fn authorize(args: &AuthorizeArgs) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let base = require_server(api)?;
        let path = path(&args.server);
        let body = json!({ "origin": base });
        let begun = api.post(&format!("{path}/authorize"), &body).await?;
        match args.reach.wants_json() {
            true => say_json(&begun)?,
            false => say(&text(&begun["open"])),
        }
        if args.no_wait {
            return Ok(Verdict::Holds);
        }
        eprintln!("Open this address and say yes there; this waits until you have.");
        loop {
            let server = api.get(&path).await?;
            if server["health"]["state"] == "up" {
                eprintln!("`{}` is authorized.", args.server);
                return Ok(Verdict::Holds);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

/// Only a server that goes on running has servers mounted.
fn require_server(api: &Api) -> Result<&str, Trouble> {
    let nobody = || {
        Trouble::new(Code::Unreachable, "no `haft serve` runs here, and only that mounts servers")
            .next("start it with `haft serve`, or name another one with --server")
    };
    match api.runs_elsewhere() {
        Elsewhere::Yes => api.base().ok_or_else(nobody),
        Elsewhere::No => Err(nobody()),
    }
}

fn nothing_waits(what: &str) -> Trouble {
    Trouble::new(Code::NoTool, format!("{what} does not wait to be accepted"))
        .next("`haft mcp list SERVER` shows what does")
}

fn path(server: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let plain = server.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    format!("/haft/v1/mcp/servers/{}", plain.collect::<String>())
}

fn say_change(change: &Value, paint: Paint) {
    let what = match change["change"].as_str() {
        Some("new") => "is new",
        _ => "is not what was accepted",
    };
    let name = paint.paint(Tone::Bold, &text(&change["tool"]));
    say(&format!("\n{name} {what}"));
    say(&diff(change["diff"].as_str().unwrap_or_default(), paint));
}

fn waiting(server: &Value) -> &[Value] {
    server["pending"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn state(server: &Value) -> (String, Option<Tone>) {
    let state = text(&server["health"]["state"]);
    let tone = match state.as_str() {
        "up" => Some(Tone::Good),
        "down" => Some(Tone::Bad),
        "unauthorized" => Some(Tone::Warn),
        _ => None,
    };
    (state, tone)
}

fn place(server: &Value) -> String {
    let peer = &server["peer"];
    let words = peer["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command = words.collect::<Vec<_>>().join(" ");
    let place = printable(peer["url"].as_str().unwrap_or(&command));
    match peer["sandbox"].as_bool() {
        Some(true) => format!("{place}  (sandboxed)"),
        Some(false) => format!("{place}  (NOT sandboxed: runs with the server's rights)"),
        None => place,
    }
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}
