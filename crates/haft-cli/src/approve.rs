//! `haft approve`: yes, with these arguments.

use serde_json::{Map, Value, json};

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::resolving::{Patience, json_argument, resolve};
use crate::trouble::{Code, Trouble};

/// Approves a call that waits, and tells what comes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// Runs it with these arguments instead, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = json_argument)]
    args: Option<Value>,
    /// Also lets through every further call of the tool in this session.
    #[arg(long, conflicts_with = "rule")]
    session: bool,
    /// Also lets through further calls within these bounds: `{"when": [{"field": "/path", "test":
    /// {"equals": "a"}}], "uses": 3, "lasts_ms": 3600000, "budget": {"field": "/cents", "left": 500}}`.
    #[arg(long, value_name = "JSON", value_parser = json_argument)]
    rule: Option<Value>,
    /// A note for the log and the model.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Does not wait for the outcome.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let arguments = match &args.args {
        None => None,
        Some(Value::Object(arguments)) => Some(arguments.clone()),
        Some(found) => return Err(not_arguments(found).into()),
    };
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let wait = api.wait(&args.call).await?;
        let grant = match args.session {
            true => Some(Value::Object(Map::new())),
            false => args.rule.clone(),
        };
        let mut said = json!({ "type": "approve", "note": args.note });
        if let Some(arguments) = arguments {
            said["arguments"] = Value::Object(arguments);
        }
        if let Some(grant) = grant {
            said["grant"] = grant;
        }
        let patience = if args.no_wait { Patience::None } else { Patience::Outcome };
        resolve(api, &args.reach, &wait, said, patience).await
    })
}

/// Arguments are an object, whatever else JSON can be.
pub(crate) fn not_arguments(found: &Value) -> Trouble {
    Trouble::new(Code::BadArguments, "arguments are a JSON object")
        .why(format!("found {found}"))
        .next("write them as `{\"name\": value}`")
}
