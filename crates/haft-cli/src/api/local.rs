//! A node of this process over the store itself, for when no server runs.

use std::time::Duration;

use haft_http::egress::EgressSettings;
use haft_mcp::Questions;
use haft_runtime::Haft;
use haft_server::{Config, InProcess};
use tempfile::TempDir;

use crate::config::ConfigFile;
use crate::place::Place;
use crate::serve::{self, ModelArgs};

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
        let operator = ConfigFile::of_environment().operator()?;
        let haft = serve::start_for_command(place, models, &questions, &operator).await?;
        let egress = EgressSettings::clone(&operator.egress);
        let (uploads, data) = (Some(place.data.join("uploads")), Some(place.data.clone()));
        let config = Config { uploads, data, egress, ..Config::default() };
        let api = InProcess::start(haft.clone(), serve::fresh_key()?, config).await?;
        Ok(Self { api, haft, _scratch: scratch })
    }

    pub(super) async fn close(self) {
        self.api.stop();
        self.haft.shutdown(PATIENCE).await;
    }
}
