//! Where the data is: a directory, or a database.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use haft_core::SessionId;
use haft_core::journal::Head;
use haft_store::{AuditReport, ErrorKind, Store, audit_postgres_against, audit_sqlite_against};

use crate::trouble::{Code, Trouble};

/// Where the data is when nobody says.
pub(crate) const DATA: &str = "haft-data";

/// Where sessions are kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    /// The directory of the embedded store.
    #[arg(long, value_name = "DIR", env = "HAFT_DATA", default_value = DATA)]
    pub(crate) data: PathBuf,
    /// A PostgreSQL database instead, as `postgres://…`.
    #[arg(long, value_name = "URL", env = "HAFT_DATABASE_URL")]
    pub(crate) database_url: Option<String>,
}

impl Place {
    pub(crate) async fn open(&self) -> anyhow::Result<Store> {
        match &self.database_url {
            Some(url) => Store::connect_postgres(url).await.map_err(|error| not_connected(&error)),
            None => {
                self.make()?;
                self.require_no_loss()?;
                Store::open_sqlite(&self.data).map_err(|error| self.not_opened(&error))
            }
        }
    }

    /// Checks the whole store.
    pub(crate) async fn audit(&self) -> anyhow::Result<AuditReport> {
        self.audit_against(&BTreeMap::new()).await
    }

    /// Checks the whole store, and that it still has the logs as someone saw them earlier.
    pub(crate) async fn audit_against(
        &self,
        seen: &BTreeMap<SessionId, Head>,
    ) -> anyhow::Result<AuditReport> {
        match &self.database_url {
            Some(url) => {
                let report = audit_postgres_against(url, seen).await;
                report.map_err(|error| not_connected(&error))
            }
            None => {
                self.require_no_loss()?;
                audit_sqlite_against(&self.data, seen).map_err(|error| self.not_opened(&error))
            }
        }
    }

    /// Whether the store itself can be looked at, or there are traces of one that was here.
    pub(crate) fn is_within_reach(&self) -> bool {
        let is_there = |name: &str| self.data.join(name).exists();
        self.database_url.is_some() || is_there("haft.db") || is_there("haft.mark")
    }

    /// Says what kept the store from being used.
    pub(crate) fn unopened(&self, error: &haft_store::Error) -> anyhow::Error {
        match &self.database_url {
            Some(_) => not_connected(error),
            None => self.not_opened(error),
        }
    }

    /// Refuses to begin a new store where the sealing key of another one lies: the key is made
    /// after its store, so that there was one.
    fn require_no_loss(&self) -> Result<(), Trouble> {
        let database = self.data.join("haft.db");
        let is_empty = fs::metadata(database).map_or(true, |found| found.len() == 0);
        // What is no key at all is told by whoever reads it.
        let key = fs::metadata(self.data.join("sealing-key"));
        if !is_empty || !key.is_ok_and(|found| found.len() == 32) {
            return Ok(());
        }
        let why = "`haft.db` is missing or empty, and `sealing-key` beside it belongs to a store \
                   that was here";
        Err(self.unusable(why).next(
            "put `haft.db` and `haft.db-wal` back, or restore a backup; a directory that was used \
             with --database-url needs it again; for a new store, name an empty directory with \
             --data",
        ))
    }

    /// Makes the directory where it is not there yet, for this user alone. One that is there is
    /// taken from everybody else; one of another user is refused, who could change what is in it.
    pub(crate) fn make(&self) -> Result<(), Trouble> {
        let next = "name a directory that you may write to with --data";
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.data);
        let found = made.and_then(|()| fs::metadata(&self.data));
        let found = found.map_err(|error| self.unusable(error).next(next))?;
        let us = rustix::process::geteuid().as_raw();
        if found.uid() != us {
            let why = format!("it belongs to user {}, and this is user {us}", found.uid());
            let next = "run `haft` as the user that owns it, or give it to this user with `chown`";
            return Err(self.unusable(why).next(next));
        }
        let tightened = tighten(&self.data, found.mode());
        let tightened = tightened.map_err(|error| self.unusable(error).next(next))?;
        if tightened > 0 {
            tracing::warn!(
                directory = %self.data.display(),
                entries = tightened,
                "other users of this machine had access to the data; it is taken away"
            );
        }
        Ok(())
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
            ErrorKind::Lost => self.unusable(error).next(error.hint()).into(),
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

/// Leaves a directory and the entries in it to their owner; returns how many were others' too, none
/// where there was nothing to be had. What lies deeper is out of reach with them.
fn tighten(directory: &Path, mode: u32) -> io::Result<usize> {
    let only_owner = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o700)).map(|()| 1)
    };
    let mut n_tightened = match mode & 0o077 {
        0 => 0,
        _ => only_owner(directory, mode)?,
    };
    let mut is_empty = true;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        is_empty = false;
        let path = entry.path();
        // What is gone meanwhile needs nothing; links are nobody's to change.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if !found.is_symlink() && found.mode() & 0o077 != 0 {
            match only_owner(&path, found.mode()) {
                Ok(n) => n_tightened += n,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(if is_empty { 0 } else { n_tightened })
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
