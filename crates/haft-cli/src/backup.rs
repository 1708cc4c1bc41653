//! `haft backup`: everything that is needed to put a data directory back, in one file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use haft_runtime::Clock;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::Verdict;
use crate::api::{Reach, ServerOrStore, StoreUse};
use crate::terminal::{say, say_json};
use crate::trouble::{Code, Trouble};

/// Writes a backup of the store and of everything else in the data directory, also while a server
/// runs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to make, readable for this user alone; `-` is stdout. It holds the sealing key.
    file: PathBuf,
    #[command(flatten)]
    reach: Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Verdict> {
    if args.reach.place().database_url.is_some() && args.reach.server().is_none() {
        return Err(of_postgres().into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if args.file == Path::new("-") {
            write(args, io::stdout()).await?;
            return Ok(Verdict::Holds);
        }
        let file = PartialFile::beside(&args.file, args.reach.data())?;
        let bytes = write(args, file.0.reopen()?).await?;
        file.finish(&args.file)?;
        let shown = args.file.display();
        match args.reach.wants_json() {
            true => say_json(&json!({ "file": shown.to_string(), "bytes": bytes }))?,
            false => say(&format!("{shown}: {bytes} bytes; `haft restore {shown}` puts it back")),
        }
        Ok(Verdict::Holds)
    })
}

/// Has whoever has the store write the backup; returns how long it is.
async fn write<W: Write + Send + 'static>(args: &Args, out: W) -> anyhow::Result<u64> {
    let counted = CountingWriter { out, bytes: std::sync::Arc::default() };
    let bytes = std::sync::Arc::clone(&counted.bytes);
    match args.reach.server_or_store(StoreUse::Existing).await? {
        ServerOrStore::Server(api) => {
            let mut counted = counted;
            api.download("/haft/v1/backup", &mut counted).await?;
            counted.flush()?;
        }
        ServerOrStore::Store(store) => {
            let (data, now) = (args.reach.data(), Clock::System.now());
            haft_server::backup::write(&store, data, now, counted).await?;
        }
    }
    Ok(bytes.load(std::sync::atomic::Ordering::Relaxed))
}

/// What to do where the sessions are in PostgreSQL.
pub(crate) fn of_postgres() -> Trouble {
    Trouble::new(Code::BadArguments, "a PostgreSQL database is backed up with its own tools")
        .why("`haft backup` and `haft restore` are for the embedded store")
        .next(
            "use `pg_dump`, or the server's own backups, and copy the data directory; after it was \
             put back, run `haft restore --mark-only` before any node starts",
        )
}

/// A file that takes its name when it is whole.
struct PartialFile(NamedTempFile);

impl PartialFile {
    fn beside(path: &Path, data: &Path) -> Result<Self, Trouble> {
        let bad = |why: String, next: &str| {
            let what = format!("the backup cannot be written to `{}`", path.display());
            Trouble::new(Code::BadArguments, what).why(why).next(next)
        };
        if path.exists() {
            return Err(bad("the file is there already".to_owned(), "name another file"));
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let is_inside = match (parent.canonicalize(), data.canonicalize()) {
            (Ok(parent), Ok(data)) => parent.starts_with(data),
            _ => false,
        };
        if is_inside {
            let why = "the file would be in the directory that it is a backup of".to_owned();
            return Err(bad(why, "name a file elsewhere, best on another disk"));
        }
        // Readable for this user alone, which is how temporary files are made.
        let file = NamedTempFile::new_in(parent);
        file.map(Self).map_err(|error| bad(error.to_string(), "name a file that can be written"))
    }

    fn finish(self, path: &Path) -> anyhow::Result<()> {
        self.0.as_file().sync_all()?;
        self.0.persist_noclobber(path)?;
        Ok(())
    }
}

/// Counts what is written.
struct CountingWriter<W> {
    out: W,
    bytes: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes.fetch_add(written as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
