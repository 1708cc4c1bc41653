//! `haft settle`: what became of a call in doubt.

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::resolving::{Patience, json_argument, resolve};
use crate::trouble::{Code, Trouble};

/// Settles a call in doubt: only a person can tell whether it took effect.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// What became of it.
    verdict: Settlement,
    /// What it gave, as JSON; with `happened` only.
    #[arg(long, value_name = "JSON", value_parser = json_argument)]
    value: Option<Value>,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Settlement {
    /// It took effect.
    Happened,
    /// It did not, and shall run.
    RunAgain,
    /// It is left as it is.
    GiveUp,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let verdict = match (args.verdict, &args.value) {
        (Settlement::Happened, _) => "happened",
        (Settlement::RunAgain, None) => "run_again",
        (Settlement::GiveUp, None) => "give_up",
        (Settlement::RunAgain | Settlement::GiveUp, Some(_)) => {
            return Err(Trouble::new(Code::BadArguments, "a value goes with `happened` only")
                .next("leave --value out")
                .into());
        }
    };
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let wait = api.wait(&args.call).await?;
        let mut said = json!({ "type": "settle", "verdict": verdict });
        if let Some(value) = &args.value {
            said["value"] = value.clone();
        }
        resolve(api, &args.reach, &wait, said, Patience::Outcome).await
    })
}
