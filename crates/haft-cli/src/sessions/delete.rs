//! `haft sessions delete`.

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;
use crate::terminal::{say, say_json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, or the beginning of its id.
    session: String,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let id = api.session(&args.session).await?;
        let deleted = api.delete(&format!("/haft/v1/sessions/{id}")).await?;
        if args.reach.wants_json() {
            say_json(&deleted)?;
            return Ok(Verdict::Holds);
        }
        say(&match deleted["state"].as_str() {
            Some("stopping") => format!("{id} is being stopped; it is erased right after"),
            _ => format!("{id} is erased"),
        });
        Ok(Verdict::Holds)
    })
}
