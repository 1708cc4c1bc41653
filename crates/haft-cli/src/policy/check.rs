//! `haft policy check`.

use std::path::{Path, PathBuf};

use haft_runtime::PolicyFile;
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse, rows};
use crate::approve::not_arguments;
use crate::command::over_api;
use crate::resolving::json_argument;
use crate::rules;
use crate::terminal::{Paint, Tone, say, say_json};
use crate::tools::no_tool;
use crate::trouble::{Code, Trouble};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file; without it, `policy.toml` in the data directory.
    file: Option<PathBuf>,
    /// Tells what would happen to a call of this tool; nothing is run and nobody is asked.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// The call's arguments, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_argument, default_value = "{}", requires = "tool")]
    args: Value,
    /// The agent in whose sessions the call would be made.
    #[arg(long, value_name = "AGENT", requires = "tool")]
    agent: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

/// A file, with what it says.
struct Checked {
    path: PathBuf,
    text: String,
    rules: PolicyFile,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if !args.args.is_object() {
        return Err(not_arguments(&args.args).into());
    }
    let checked = match &args.file {
        Some(path) => Some(checked(path)?),
        None => {
            let usual = rules::usual(args.reach.data());
            usual.exists().then(|| checked(&usual)).transpose()?
        }
    };
    over_api(&args.reach, StoreUse::Any, async |api| match (&args.tool, &checked) {
        (Some(tool), checked) => weigh(api, args, tool, checked.as_ref()).await,
        (None, Some(checked)) => report(api, args, checked).await,
        (None, None) => Err(nothing(args.reach.data()).into()),
    })
}

fn checked(path: &Path) -> Result<Checked, Trouble> {
    let text = std::fs::read_to_string(path).map_err(|error| rules::bad(path, &error))?;
    let rules = rules::read(path, &text)?;
    Ok(Checked { path: path.to_owned(), text, rules })
}

fn nothing(data: &Path) -> Trouble {
    let usual = rules::usual(data);
    Trouble::new(Code::BadPolicy, format!("there is no `{}`", usual.display()))
        .why("no file was named, and the data directory holds no rules")
        .next("name a file, or a tool with --tool to see what would happen to its calls")
}

async fn weigh(
    api: &Api,
    args: &Args,
    tool: &str,
    checked: Option<&Checked>,
) -> anyhow::Result<Verdict> {
    let policy = checked.map(|checked| &checked.text);
    let call = json!({
        "tool": tool, "arguments": args.args, "agent": args.agent, "policy": policy,
    });
    let weighed = match api.post("/haft/v1/rules/check", &call).await {
        Err(error) if error.code() == "not_found_error" && args.agent.is_none() => {
            let tools = rows(api.get("/haft/v1/tools").await?);
            return Err(no_tool(api, tool, &tools).await.into());
        }
        weighed => weighed?,
    };
    match args.reach.wants_json() {
        true => say_json(&weighed)?,
        false => super::tell(weighed["called"].as_str().unwrap_or(tool), would(&weighed), &weighed),
    }
    Ok(Verdict::Holds)
}

/// What is in the file, and which of it is about nothing that is here.
async fn report(api: &Api, args: &Args, checked: &Checked) -> anyhow::Result<Verdict> {
    let tools = rows(api.get("/haft/v1/tools").await?);
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let idle = checked.rules.idle(&names);
    let (n_rules, n_examples) = (checked.rules.n_rules(), checked.rules.n_examples());
    if args.reach.wants_json() {
        let idle: Vec<Value> =
            idle.iter().map(|(rule, tools)| json!({ "rule": rule, "tools": tools })).collect();
        say_json(&json!({
            "file": checked.path, "rules": n_rules, "examples": n_examples, "idle": idle,
        }))?;
        return Ok(Verdict::Holds);
    }
    say(&format!("{}: {n_rules} rules, all examples hold ({n_examples})", checked.path.display()));
    for (rule, tools) in idle {
        let word = Paint::stderr().paint(Tone::Warn, "warning");
        eprintln!("{word}: the rule `{rule}` is about `{tools}`, and there is no such tool here");
    }
    Ok(Verdict::Holds)
}

/// What would become of a call.
fn would(weighed: &Value) -> &'static str {
    match weighed["decision"].as_str().unwrap_or_default() {
        "allow" => "runs",
        "ask" => "waits for a person",
        _ => "is refused",
    }
}
