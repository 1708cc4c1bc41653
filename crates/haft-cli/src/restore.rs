//! `haft restore`: a backup becomes a data directory again, and its open calls are in doubt.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::{Actor, Timestamp};
use haft_runtime::{Clock, RestoreSummary, mark_restored};
use haft_server::backup::{Label, UnpackError, unpack};
use haft_store::{Moment, SqliteCheck, Store};
use serde_json::json;

use crate::Verdict;
use crate::audit::all_sessions;
use crate::backup::of_postgres;
use crate::place::Place;
use crate::terminal::{say, say_json};
use crate::trouble::{Code, Trouble};

/// How long the check of the database file may take before it is left to `haft doctor`.
const CHECK_MAX: Duration = Duration::from_secs(600);

/// The directory in which a backup is unpacked and checked, below the one that it is for.
const UNPACKING: &str = ".haft-restoring";

/// Puts a backup back into an empty directory. Calls that were open in it may have run since, so
/// they are in doubt and wait for `haft settle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The backup; `-` is stdin.
    #[arg(required_unless_present = "mark_only")]
    file: Option<PathBuf>,
    /// Unpacks nothing: marks a store that was put back in another way, such as by `pg_restore` or
    /// from a snapshot of the disk, before any server starts over it.
    #[arg(long, conflicts_with = "file")]
    mark_only: bool,
    #[command(flatten)]
    place: Place,
    /// Prints JSON, for programs.
    #[arg(long)]
    json: bool,
}

/// What was put back.
struct Outcome {
    sessions: usize,
    backed_up_at: Option<Timestamp>,
    marked: RestoreSummary,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match &args.file {
            None => mark(&args.place).await,
            Some(file) => restore(&args.place, file).await,
        }
    })?;
    let Outcome { sessions, backed_up_at, marked } = outcome;
    let in_doubt = marked.calls_in_doubt;
    if args.json {
        say_json(&json!({
            "sessions": sessions, "open_sessions": marked.sessions, "calls_in_doubt": in_doubt,
            "backed_up_at": backed_up_at,
        }))?;
        return Ok(Verdict::Holds);
    }
    let since = backed_up_at.map(|at| format!(" as of {at}")).unwrap_or_default();
    say(&format!("{sessions} sessions{since}, verified; {in_doubt} calls are in doubt"));
    if in_doubt > 0 {
        eprintln!("They may have run since. `haft pending` lists them, `haft settle` ends them.");
    }
    Ok(Verdict::Holds)
}

async fn mark(place: &Place) -> anyhow::Result<Outcome> {
    let store = place.open().await?;
    let alive = store.live_nodes(Moment::Clock).await?;
    if let Some(node) = alive.first() {
        let what = format!("node `{node}` uses the store");
        return Err(Trouble::new(Code::StoreInUse, what)
            .why("a store is marked before any node works on it")
            .next("stop every node, wait ten seconds, and run it again")
            .into());
    }
    finish(&store, None).await
}

async fn restore(place: &Place, file: &Path) -> anyhow::Result<Outcome> {
    if place.database_url.is_some() {
        return Err(of_postgres().into());
    }
    let data = &place.data;
    require_empty(data)?;
    place.make()?;
    let inside = StagingDirectory::make(data)?;
    let label = unpacked(file, &inside.0)?;
    check_file(&inside.0)?;
    let outcome = {
        let store = Store::open_sqlite(&inside.0)?;
        finish(&store, Some(label.backed_up_at)).await?
    };
    inside.become_data(data)?;
    Ok(outcome)
}

/// Verifies every chain, and marks what is open.
async fn finish(store: &Store, backed_up_at: Option<Timestamp>) -> anyhow::Result<Outcome> {
    let sessions = all_sessions(store).await?;
    for session in &sessions {
        store.verify(*session).await.map_err(|error| broken(&format!("{session}: {error}")))?;
    }
    store.verify_erasures().await.map_err(|error| broken(&error.to_string()))?;
    let now = Clock::System.now();
    let marked = mark_restored(store, &Actor::system(), backed_up_at, now).await?;
    Ok(Outcome { sessions: sessions.len(), backed_up_at, marked })
}

fn broken(why: &str) -> Trouble {
    Trouble::new(Code::BadStore, "the journal in it is not what was written")
        .why(why)
        .next("use an earlier backup; nothing was put back")
}

fn require_empty(data: &Path) -> Result<(), Trouble> {
    let refused = |why: String, next: &str| {
        let what = format!("nothing is put back into `{}`", data.display());
        Err(Trouble::new(Code::BadStore, what).why(why).next(next))
    };
    match fs::read_dir(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => refused(error.to_string(), "name another directory with --data"),
        Ok(mut entries) => match (entries.next(), haft_store::is_in_use(data)) {
            (None, _) => Ok(()),
            (Some(_), Ok(true)) => refused(
                "another process uses the store there".to_owned(),
                "stop it and move the directory away, or name another one with --data",
            ),
            (Some(_), _) => refused(
                "it is not empty".to_owned(),
                "move it away, or name another directory with --data",
            ),
        },
    }
}

fn unpacked(file: &Path, into: &Path) -> anyhow::Result<Label> {
    let bad = |why: String| {
        let what = format!("the backup `{}` cannot be put back", file.display());
        Trouble::new(Code::BadStore, what).why(why)
    };
    let from: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).map_err(|error| {
            bad(error.to_string()).next("name the file that `haft backup` made")
        })?),
    };
    let next = |error: &UnpackError| match error {
        UnpackError::NotWhole(_) => "use another backup; nothing was put back",
        UnpackError::Newer { .. } => "use the version of `haft` that wrote it, or a newer one",
        UnpackError::File { .. } => "see to it and run it again; nothing was put back",
    };
    Ok(unpack(BufReader::new(from), into)
        .map_err(|error| bad(error.to_string()).next(next(&error)))?)
}

fn check_file(directory: &Path) -> anyhow::Result<()> {
    match haft_store::examine_sqlite(directory, CHECK_MAX)?.check {
        SqliteCheck::Whole | SqliteCheck::CutOff => Ok(()),
        SqliteCheck::Damaged { findings } => Err(broken(&findings.join("; ")).into()),
    }
}

/// Where a backup is unpacked: below the directory that it is for, so that it can be moved there
/// even if that is a volume of its own. It is gone when this is dropped.
struct StagingDirectory(PathBuf);

impl StagingDirectory {
    fn make(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(UNPACKING);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Moves everything to its place, the database last: without it there is no store.
    fn become_data(self, data: &Path) -> anyhow::Result<()> {
        let entries = fs::read_dir(&self.0)?.collect::<Result<Vec<_>, _>>()?;
        let (database, rest): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.file_name() == "haft.db");
        for entry in rest.iter().filter(|entry| entry.file_name() != "haft.lock") {
            fs::rename(entry.path(), data.join(entry.file_name()))?;
        }
        File::open(data)?.sync_all()?;
        for entry in &database {
            fs::rename(entry.path(), data.join(entry.file_name()))?;
        }
        File::open(data)?.sync_all()?;
        Ok(())
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        // What stays is found, and told, by whoever restores into the directory next.
        drop(fs::remove_dir_all(&self.0));
    }
}
