//! `haft sessions export`.

use std::io::{self, Write as _};

use crate::Verdict;
use crate::api::{Reach, StoreUse};
use crate::command::over_api;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, or the beginning of its id.
    session: String,
    #[command(flatten)]
    reach: Reach,
}

/// A line of JSON for each entry, with or without `--json`.
pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let id = api.session(&args.session).await?;
        let mut out = io::stdout();
        api.download(&format!("/haft/v1/sessions/{id}/export"), &mut out).await?;
        out.flush()?;
        Ok(Verdict::Holds)
    })
}
