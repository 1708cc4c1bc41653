//! `haft deny`: no, and why.

use serde_json::json;

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::resolving::{Patience, resolve};

/// Denies a call that waits; the note reaches the model.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The call, or the beginning of its id.
    call: String,
    /// Why, for the model and the log.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let wait = api.wait(&args.call).await?;
        let said = json!({ "type": "deny", "note": args.note });
        resolve(api, &args.reach, &wait, said, Patience::None).await
    })
}
