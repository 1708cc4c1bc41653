//! Where the data is: a directory, or a database.

use std::path::PathBuf;

use anyhow::Context as _;
use haft_store::{ErrorKind, Store};

use crate::trouble::{Code, Trouble};

/// Where sessions are kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    /// The directory of the embedded store.
    #[arg(long, value_name = "DIR", env = "HAFT_DATA", default_value = "haft-data")]
    pub(crate) data: PathBuf,
    /// A PostgreSQL database instead, as `postgres://…`.
    #[arg(long, value_name = "URL", env = "HAFT_DATABASE_URL")]
    pub(crate) database_url: Option<String>,
}

impl Place {
    pub(crate) async fn open(&self) -> anyhow::Result<Store> {
        match &self.database_url {
            Some(url) => Store::connect_postgres(url).await.context("connecting to the database"),
            None => Store::open_sqlite(&self.data).map_err(|error| self.not_opened(error)),
        }
    }

    fn not_opened(&self, error: haft_store::Error) -> anyhow::Error {
        let data = self.data.display();
        match error.kind() {
            ErrorKind::InUse => {
                let what = format!("another process has the store in `{data}`");
                Trouble::new(Code::StoreInUse, what)
                    .why("the embedded store has one user at a time")
                    .next(
                        "stop it or wait until it ends; a running `haft serve` is found by itself",
                    )
                    .into()
            }
            _ => anyhow::Error::from(error).context(format!("opening the store in `{data}`")),
        }
    }
}
