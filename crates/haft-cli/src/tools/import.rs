//! `haft tools import`: definitions written for others.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use haft_core::tool::{Definition, Executor};
use haft_runtime::registry::lint_definition;
use haft_wire::{Dialect, Kind, LiftError, Reading};
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{say, say_json};
use crate::trouble::{Code, Trouble};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A JSON file with one definition, a list of them, or an object with a member `tools`.
    file: PathBuf,
    /// The dialect that it is written in; found out if not given.
    #[arg(long)]
    dialect: Option<DialectName>,
    /// Gives them to this agent, as a new version of it, in the place of its tools of these names.
    /// Without it they are printed as an agent takes them.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

/// A shape in which others define tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DialectName {
    Agentix,
    Anthropic,
    Mcp,
    OpenaiChat,
    OpenaiResponses,
    Openboa,
    Steerable,
    Tinyagents,
    ToolForge,
}

impl DialectName {
    const fn dialect(self) -> Dialect {
        match self {
            Self::Agentix => Dialect::Agentix,
            Self::Anthropic => Dialect::Anthropic,
            Self::Mcp => Dialect::Mcp,
            Self::OpenaiChat => Dialect::OpenAiChat,
            Self::OpenaiResponses => Dialect::OpenAiResponses,
            Self::Openboa => Dialect::OpenboaText,
            Self::Steerable => Dialect::Steerable,
            Self::Tinyagents => Dialect::TinyAgents,
            Self::ToolForge => Dialect::ToolForge,
        }
    }
}

/// A definition and the dialect that it was written in.
pub(super) struct Lifted {
    pub(super) definition: Definition,
    dialect: Dialect,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let lifted = read(&args.file, args.dialect)?;
    let tools: Vec<Value> = lifted.iter().map(|found| for_agent(&found.definition)).collect();
    for Lifted { definition, dialect } in &lifted {
        eprintln!("{}: read as {dialect}", definition.name);
        for finding in lint_definition(definition) {
            eprintln!("  {finding}");
        }
    }
    let n = lifted.len();
    let Some(agent) = &args.agent else {
        say_json(&Value::Array(tools))?;
        eprintln!("{n} tools; `--agent AGENT` gives them to an agent");
        return Ok(Verdict::Holds);
    };
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let given = give(api, agent, tools).await?;
        match args.reach.wants_json() {
            true => say_json(&given)?,
            false => say(&format!("{agent} has {n} tools more, as version {}", given["version"])),
        }
        Ok(Verdict::Holds)
    })
}

/// As an agent takes it. A definition brings no code along, so whoever follows the session runs
/// its calls.
fn for_agent(definition: &Definition) -> Value {
    let mut definition = definition.clone();
    if definition.executor == Executor::Server {
        definition.executor = Executor::Client;
    }
    json!({ "type": "haft_tool", "definition": definition })
}

/// Makes a version of the agent that has the tools.
async fn give(api: &Api, agent: &str, tools: Vec<Value>) -> Result<Value, Trouble> {
    let path = format!("/v1/agents/{agent}");
    let known = api.get(&path).await?;
    let is_replaced = |old: &Value| {
        let name = old.pointer("/definition/name");
        name.is_some() && tools.iter().any(|new| new.pointer("/definition/name") == name)
    };
    let kept = known["tools"].as_array().into_iter().flatten().filter(|old| !is_replaced(old));
    let all: Vec<Value> = kept.cloned().chain(tools.iter().cloned()).collect();
    // The version says what was looked at: whoever changed the agent meanwhile is not overruled.
    api.post(&path, &json!({ "version": known["version"], "tools": all })).await
}

pub(super) fn read(file: &Path, dialect: Option<DialectName>) -> anyhow::Result<Vec<Lifted>> {
    let text = std::fs::read(file).map_err(|error| {
        Trouble::new(Code::BadDefinition, format!("`{}` cannot be read", file.display()))
            .why(error)
            .next("name a file that this user may read")
    })?;
    let body = Dialect::Mcp.read(Kind::Definition, &text).map_err(|error| refused(&error))?;
    let bodies = match body {
        Value::Array(bodies) => bodies,
        Value::Object(mut members) if members.contains_key("tools") => {
            match members.remove("tools") {
                Some(Value::Array(bodies)) => bodies,
                found => {
                    return Err(Trouble::new(
                        Code::BadDefinition,
                        format!("`tools` is a list, found {found:?}"),
                    )
                    .into());
                }
            }
        }
        one => vec![one],
    };
    bodies.into_iter().map(|body| lift(body, dialect).map_err(Into::into)).collect()
}

fn lift(body: Value, named: Option<DialectName>) -> Result<Lifted, Trouble> {
    let dialect = named.map_or_else(|| recognised(&body), |named| Some(named.dialect()));
    let Some(dialect) = dialect else {
        let names: Vec<_> =
            body.as_object().into_iter().flat_map(|body| body.keys()).cloned().collect();
        return Err(Trouble::new(
            Code::BadDefinition,
            "no dialect defines tools with these members",
        )
        .why(format!("found {}", names.join(", ")))
        .next("name its dialect with --dialect"));
    };
    let definition =
        dialect.lift_definition(body, Reading::Foreign).map_err(|error| refused(&error))?;
    Ok(Lifted { definition, dialect })
}

/// The dialect whose own word for the arguments is there, and whose reader takes it.
fn recognised(body: &Value) -> Option<Dialect> {
    let has = |member: &str| body.get(member).is_some();
    let likely = match () {
        () if has("function") => Dialect::OpenAiChat,
        () if has("inputSchema") => Dialect::Mcp,
        () if has("input_schema") => Dialect::Anthropic,
        () if has("parameters") && body["type"] == "function" => Dialect::OpenAiResponses,
        () => Dialect::Steerable,
    };
    let takes = |dialect: &Dialect| dialect.lift_definition(body.clone(), Reading::Foreign).is_ok();
    [likely].into_iter().chain(Dialect::ALL).find(takes)
}

fn refused(error: &LiftError) -> Trouble {
    Trouble::new(Code::BadDefinition, error.to_string())
        .next(error.fix().unwrap_or("correct the file, or name another dialect with --dialect"))
}
