//! Where the data is: a directory, or a database.

use std::path::PathBuf;

use anyhow::Context as _;
use haft_store::Store;

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
            None => Store::open_sqlite(&self.data)
                .with_context(|| format!("opening the store in `{}`", self.data.display())),
        }
    }
}
