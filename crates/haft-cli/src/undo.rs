//! `haft undo`: takes a call back.

use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{Paint, Tone, printable, say_json, say_prose};
use crate::trouble::Trouble;

/// Takes a call back, as its tool declares it, and tells what comes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// The session that it belongs to, or the beginning of its id; then the call's id is whole.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let (session, call) = named(api, args).await?;
        let path = format!("/haft/v1/sessions/{session}/calls/{call}/undo");
        let answer = api.post(&path, &json!({})).await?;
        let undone = Undone::read(&answer);
        match args.reach.wants_json() {
            true => say_json(&as_json(&session, &call, &answer))?,
            false => tell(&call, &answer, undone),
        }
        Ok(undone.verdict())
    })
}

async fn named(api: &Api, args: &Args) -> Result<(String, String), Trouble> {
    if let Some(session) = &args.session {
        return Ok((api.session(session).await?, args.call.clone()));
    }
    let call = api.call(&args.call).await?;
    let text = |member: &str| call[member].as_str().unwrap_or_default().to_owned();
    Ok((text("session"), text("call")))
}

/// What became of the call that takes another one back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undone {
    Done,
    Failed,
    InDoubt,
    Running,
    Waiting,
}

impl Undone {
    fn read(answer: &Value) -> Self {
        match answer["state"].as_str() {
            Some("done") => Self::Done,
            Some("failed") => Self::Failed,
            Some("in_doubt") => Self::InDoubt,
            Some("waiting") => Self::Waiting,
            _ => Self::Running,
        }
    }

    fn verdict(self) -> Verdict {
        match self {
            Self::Done => Verdict::Holds,
            Self::Failed => Verdict::Broken,
            Self::InDoubt | Self::Running | Self::Waiting => Verdict::Waits,
        }
    }
}

fn as_json(session: &str, call: &str, answer: &Value) -> Value {
    json!({
        "session": session, "call": call, "state": answer["state"], "message": answer["message"],
        "by": { "session": answer["session"], "call": answer["call"] },
    })
}

fn tell(call: &str, answer: &Value, undone: Undone) {
    let paint = Paint::stdout();
    let text = |member: &str| printable(answer[member].as_str().unwrap_or_default());
    let by = text("call");
    let (tone, said) = match undone {
        Undone::Done => (Tone::Good, format!("✓ {call} is taken back")),
        Undone::Failed => {
            let said = format!("✗ {call} is not taken back: {}", text("message"));
            (Tone::Bad, said)
        }
        Undone::InDoubt => {
            let said = format!("the undo is in doubt: look, then `haft settle {by} …`");
            (Tone::Warn, said)
        }
        Undone::Waiting => (Tone::Warn, format!("the undo waits for someone: `haft pending {by}`")),
        Undone::Running => {
            let said = format!("the undo runs; `haft undo {call}` tells again what became of it");
            (Tone::Warn, said)
        }
    };
    say_prose(&paint.paint(tone, &said), 2);
}
