//! Ending a wait, and seeing what comes of it.

use haft_core::session::Event;
use haft_core::{CallResult, Outcome, Output};
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Elsewhere, Heard, Reach};
use crate::terminal::{
    LiveLine, Paint, Tone, printable, say, say_json, say_prose, shortened, took,
};
use crate::trouble::{Code, Trouble};

/// How long a result may be on one line.
const RESULT_MAX: usize = 400;

/// Whether the outcome is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the call has its outcome or waits again.
    Outcome,
    /// Not at all, where somebody else goes on with it.
    None,
}

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Became {
    Finished(Box<Outcome>),
    WaitsAgain,
    Rejected(String),
    /// Nobody here looked.
    Unseen,
}

/// Ends the wait that was shown, tells who decided, and what came of it.
pub(crate) async fn resolve(
    api: &Api,
    reach: &Reach,
    wait: &Value,
    mut said: Value,
    patience: Patience,
) -> anyhow::Result<Verdict> {
    let (session, call) = (text(wait, "session"), text(wait, "call"));
    require_tool(api, wait, &said)?;
    // What was looked at is what is decided about: a later wait of the same call is another one.
    said["round"] = wait["round"].clone();
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    let decided = api.post(&path, &said).await?;
    let became = match (patience, api.runs_elsewhere()) {
        (Patience::None, Elsewhere::Yes) => Became::Unseen,
        (Patience::Outcome, _) | (Patience::None, Elsewhere::No) => {
            outcome(api, session, call).await?
        }
    };
    match reach.wants_json() {
        true => say_json(&as_json(wait, &decided, &became))?,
        false => tell(wait, &decided, &became),
    }
    Ok(match became {
        Became::WaitsAgain => Verdict::Waits,
        Became::Finished(_) | Became::Rejected(_) | Became::Unseen => Verdict::Holds,
    })
}

/// Whoever lets a call run where its tool is not would end it as a call of a tool that is gone.
fn require_tool(api: &Api, wait: &Value, said: &Value) -> Result<(), Trouble> {
    let runs = said["type"] == "approve" || said["verdict"] == "run_again";
    let is_here = api.runs_elsewhere() == Elsewhere::Yes || !wait["input_schema"].is_null();
    if !runs || is_here {
        return Ok(());
    }
    Err(Trouble::new(Code::NoTool, format!("the tool `{}` is not here", text(wait, "tool")))
        .why("no server runs, and a command by itself mounts no MCP servers")
        .next("start `haft serve` and decide again: the call goes on waiting"))
}

/// Follows a session until a call has its outcome or waits for someone.
pub(crate) async fn outcome(api: &Api, session: &str, call: &str) -> anyhow::Result<Became> {
    let mut line = LiveLine::on_stderr();
    let (mut seq, mut became) = (0, Became::Unseen);
    let mut stream = api.follow(session, seq).await?;
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut is_caught_up = false;
    loop {
        let heard = tokio::select! {
            heard = stream.next() => heard,
            _ = tick.tick() => {
                line.show("running");
                continue;
            }
        };
        match heard {
            None => stream = api.follow(session, seq).await?,
            Some(Heard::Entry { seq: at, event, .. }) => {
                seq = at;
                became = seen(&event, call, became);
            }
            Some(Heard::CaughtUp) => is_caught_up = true,
            // Its log says what became of the call.
            Some(Heard::Deleted) => return Ok(became),
            Some(Heard::Progress { .. } | Heard::Text { .. }) => {}
        }
        if is_caught_up && !matches!(became, Became::Unseen) {
            line.clear();
            return Ok(became);
        }
    }
}

fn seen(event: &Event, call: &str, before: Became) -> Became {
    if event.call().is_none_or(|of| of.to_string() != call) {
        return before;
    }
    match event {
        Event::CallFinished { outcome } => Became::Finished(Box::new(outcome.clone())),
        Event::CallRejected { rejection, .. } => Became::Rejected(rejection.message.clone()),
        Event::CallSuspended { .. } => Became::WaitsAgain,
        _ => Became::Unseen,
    }
}

fn as_json(wait: &Value, decided: &Value, became: &Became) -> Value {
    let outcome = match became {
        Became::Finished(outcome) => json!(outcome),
        Became::WaitsAgain | Became::Rejected(_) | Became::Unseen => Value::Null,
    };
    json!({
        "session": wait["session"], "call": wait["call"], "tool": wait["tool"],
        "decision": decided["decision"], "by": decided["by"], "at": decided["at"],
        "outcome": outcome, "waits_again": matches!(became, Became::WaitsAgain),
    })
}

fn tell(wait: &Value, decided: &Value, became: &Became) {
    let paint = Paint::stdout();
    let by = decided["by"]["id"].as_str().unwrap_or("you");
    let word = decided["decision"].as_str().unwrap_or("decided");
    say(&format!("{} {} by {by}", paint.paint(Tone::Bold, text(wait, "tool")), decision(word)));
    match became {
        Became::Finished(outcome) => say_prose(&outcome_line(outcome, paint), 4),
        Became::WaitsAgain => {
            let next = format!("it waits again: `haft pending {}`", text(wait, "call"));
            say_prose(&format!("  {}", paint.paint(Tone::Warn, &next)), 4);
        }
        Became::Rejected(why) => say(&format!("  {}", paint.paint(Tone::Bad, why))),
        Became::Unseen => {}
    }
}

/// A decision, as it is told.
pub(crate) fn decision(word: &str) -> &str {
    match word {
        "approve" => "approved",
        "granted" => "let through by a grant",
        "deny" => "denied",
        "answer" => "answered",
        "result" => "run by a client",
        "happened" => "settled: it happened",
        "run_again" => "settled: run again",
        "give_up" => "settled: left as it is",
        "expired" => "expired: nobody decided in time",
        "client_gone" => "given up: no client was there to run it",
        other => other,
    }
}

/// How a call ended, on one line.
pub(crate) fn outcome_line(outcome: &Outcome, paint: Paint) -> String {
    let time = took(outcome.finished_at.since(outcome.started_at));
    match &outcome.result {
        CallResult::Ok(output) => {
            let shown = shortened(&said(output), RESULT_MAX);
            format!(
                "  {} {}  {shown}",
                paint.paint(Tone::Good, "✓ done"),
                paint.paint(Tone::Dim, &time)
            )
        }
        CallResult::Err(failure) => {
            let class = failure.class.code();
            format!(
                "  {} {}",
                paint.paint(Tone::Bad, &format!("✗ {class}")),
                printable(&failure.message)
            )
        }
    }
}

/// What a tool gave, as people read it: in words, where there are some beside the data.
pub(crate) fn said(output: &Output) -> String {
    let value = output.value.as_ref();
    let words = value.and_then(|value| value["text"].as_str()).or_else(|| output.first_text());
    let words = words.map(|words| words.trim().to_owned());
    words.or_else(|| value.map(Value::to_string)).unwrap_or_default()
}

fn text<'a>(wait: &'a Value, member: &str) -> &'a str {
    wait[member].as_str().unwrap_or_default()
}

/// Reads an argument that must be JSON.
pub(crate) fn json_argument(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("expected JSON: {error}"))
}
