//! `haft tools call`.

use std::io::IsTerminal as _;

use haft_core::{CallResult, Outcome};
use serde_json::{Map, Value, json};

use super::{all, no_tool, text};
use crate::Verdict;
use crate::api::{Api, Reach, StoreUse};
use crate::approve::not_arguments;
use crate::command::over_api;
use crate::decide::decide;
use crate::prompt::Lines;
use crate::resolving::{Became, json_argument, outcome, outcome_line};
use crate::terminal::{Paint, fitted, printable, say, say_json};
use crate::waiting::SessionWaits;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tool.
    name: String,
    /// Its arguments, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_argument, default_value = "{}")]
    args: Value,
    /// The session of an earlier call of this tool, or the beginning of its id: what was granted
    /// and written there is there.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Makes the call once for this key, however often the command is repeated: the same call again
    /// gives the first result again, for at least 24 hours.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    waits: SessionWaits,
    #[command(flatten)]
    reach: Reach,
}

/// At a terminal, what it waits for is asked there; elsewhere the command ends and says so.
pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let Value::Object(arguments) = &args.args else { return Err(not_arguments(&args.args).into()) };
    over_api(&args.reach, StoreUse::Made, async |api| {
        let tools = all(api).await?;
        if !tools.iter().any(|tool| text(tool, "name") == args.name) {
            return Err(no_tool(api, &args.name, &tools).await.into());
        }
        called(api, args, arguments).await
    })
}

async fn called(api: &Api, args: &Args, arguments: &Map<String, Value>) -> anyhow::Result<Verdict> {
    let path = format!("/haft/v1/tools/{}/call", args.name);
    let mut wanted = Map::from_iter([("arguments".to_owned(), json!(arguments))]);
    match &args.session {
        Some(session) => {
            wanted.insert("session".to_owned(), api.session(session).await?.into());
        }
        None => args.waits.add_to(&mut wanted),
    }
    let key = args.idempotency_key.as_deref();
    let answer = api.post_once(&path, &Value::Object(wanted), key).await?;
    let (session, call) = (text(&answer, "session"), text(&answer, "call"));
    let is_asked = !args.reach.wants_json() && std::io::stdin().is_terminal();
    let mut became = match text(&answer, "state") {
        "done" => Became::Finished(Box::new(serde_json::from_value(answer["outcome"].clone())?)),
        _ => Became::WaitsAgain,
    };
    if is_asked && matches!(became, Became::WaitsAgain) {
        let mut lines = Lines::of_stdin();
        while matches!(became, Became::WaitsAgain) {
            let wait = api.wait(call).await?;
            if !decide(api, &mut lines, &wait).await? {
                break;
            }
            became = outcome(api, session, call).await?;
        }
    }
    tell(args, &answer, &became)
}

fn tell(args: &Args, answer: &Value, became: &Became) -> anyhow::Result<Verdict> {
    let verdict = match became {
        Became::Finished(outcome) => verdict(outcome),
        Became::WaitsAgain | Became::Unseen => Verdict::Waits,
        Became::Rejected(_) => Verdict::Broken,
    };
    if args.reach.wants_json() {
        say_json(answer)?;
        return Ok(verdict);
    }
    match became {
        Became::Finished(outcome) => result(outcome)?,
        Became::WaitsAgain | Became::Unseen => {
            let call = text(answer, "call");
            eprintln!("{} waits for someone: `haft pending {call}`", args.name);
        }
        Became::Rejected(why) => eprintln!("{} was not run: {why}", args.name),
    }
    Ok(verdict)
}

fn verdict(outcome: &Outcome) -> Verdict {
    match outcome.result {
        CallResult::Ok(_) => Verdict::Holds,
        CallResult::Err(_) => Verdict::Broken,
    }
}

/// What it gave goes to stdout, whole, but in words to people; how it went to stderr.
fn result(outcome: &Outcome) -> anyhow::Result<()> {
    let CallResult::Ok(output) = &outcome.result else {
        eprintln!("{}", fitted(outcome_line(outcome, Paint::stderr()).trim_start(), 2));
        return Ok(());
    };
    let is_read = std::io::stdout().is_terminal();
    let words = output.value.as_ref().filter(|_| is_read).and_then(|value| value["text"].as_str());
    match (words.or_else(|| output.first_text()), &output.value) {
        (Some(text), _) if is_read => say(&printable(text)),
        (Some(text), _) => say(text),
        (None, Some(value)) => say_json(value)?,
        (None, None) => {}
    }
    Ok(())
}
