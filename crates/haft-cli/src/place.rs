//! Where the data is: a directory, or a database.

use std::path::PathBuf;

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
            Some(url) => Store::connect_postgres(url).await.map_err(|error| not_connected(&error)),
            None => Store::open_sqlite(&self.data).map_err(|error| self.not_opened(&error)),
        }
    }

    /// Makes the directory, where it is not there yet.
    pub(crate) fn make(&self) -> Result<(), Trouble> {
        std::fs::create_dir_all(&self.data).map_err(|error| {
            let next = "name a directory that you may write to with --data";
            self.unusable(error).next(next)
        })
    }

    fn unusable(&self, why: impl std::fmt::Display) -> Trouble {
        let what = format!("the store in `{}` cannot be used", self.data.display());
        Trouble::new(Code::BadStore, what).why(why)
    }

    fn not_opened(&self, error: &haft_store::Error) -> anyhow::Error {
        match error.kind() {
            ErrorKind::InUse => {
                let what = format!("another process has the store in `{}`", self.data.display());
                Trouble::new(Code::StoreInUse, what)
                    .why("the embedded store has one user at a time")
                    .next(
                        "stop it or wait until it ends; a running `haft serve` is found by itself",
                    )
                    .into()
            }
            ErrorKind::NewerSchema => self
                .unusable(error)
                .next("use the version of `haft` that wrote it, or a newer one")
                .into(),
            _ => {
                self.unusable(error).next("see to it, or name another directory with --data").into()
            }
        }
    }
}

fn not_connected(error: &haft_store::Error) -> anyhow::Error {
    let next = match error.kind() {
        ErrorKind::NewerSchema => "use the version of `haft` that wrote it, or a newer one",
        _ => "see that it runs and takes the user, and that --database-url names it",
    };
    let what = "the database of --database-url cannot be used";
    Trouble::new(Code::BadStore, what).why(causes(error)).next(next).into()
}

/// An error with what lies beneath it.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let below = std::iter::successors(error.source(), |error| error.source());
    let mut said = error.to_string();
    for cause in below.map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// Whether a store was not opened because another process has it.
pub(crate) fn is_in_use(error: &anyhow::Error) -> bool {
    let trouble = error.downcast_ref::<Trouble>();
    trouble.is_some_and(|trouble| trouble.code() == Code::StoreInUse.word())
}
