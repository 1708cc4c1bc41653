//! A node of this process over the store itself, for when no server runs.

use std::path::Path;
use std::time::Duration;

use haft_mcp::Questions;
use haft_runtime::Haft;
use haft_server::{Config, InProcess};
use haft_store::ErrorKind;
use tempfile::TempDir;

use crate::place::Place;
use crate::serve::{self, ModelArgs};
use crate::trouble::{Code, Trouble};

/// How long what runs may go on after the command has said all it had to say.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Local {
    pub(super) api: InProcess,
    haft: Haft,
    /// The data of a node that is gone when the command is.
    _scratch: Option<TempDir>,
}

impl Local {
    pub(super) async fn start(place: &Place, models: &ModelArgs) -> anyhow::Result<Self> {
        Self::over(place, models, None).await
    }

    /// Over a store that is gone with the command, for what needs none.
    pub(super) async fn in_scratch(models: &ModelArgs) -> anyhow::Result<Self> {
        let scratch = tempfile::tempdir()?;
        let place = Place { data: scratch.path().to_owned(), database_url: None };
        Self::over(&place, models, Some(scratch)).await
    }

    async fn over(
        place: &Place,
        models: &ModelArgs,
        scratch: Option<TempDir>,
    ) -> anyhow::Result<Self> {
        let questions = Questions::new();
        let started = serve::start_for_command(place, models, &questions).await;
        let haft = started.map_err(|error| held(error, &place.data))?;
        let config = Config { uploads: Some(place.data.join("uploads")), ..Config::default() };
        let api = InProcess::start(haft.clone(), serve::fresh_key()?, config).await?;
        Ok(Self { api, haft, _scratch: scratch })
    }

    pub(super) async fn close(self) {
        self.api.stop();
        self.haft.shutdown(PATIENCE).await;
    }
}

/// Says who holds the store, where another process does.
pub(super) fn held(error: anyhow::Error, data: &Path) -> anyhow::Error {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<haft_store::Error>());
    match kind.map(haft_store::Error::kind) {
        Some(ErrorKind::InUse) => {
            let what = format!("another process has the store in `{}`", data.display());
            Trouble::new(Code::StoreInUse, what)
                .why("the embedded store has one user at a time, and that one has left no address")
                .next("wait until it ends, or stop it; a running `haft serve` is found by itself")
                .into()
        }
        _ => error,
    }
}
