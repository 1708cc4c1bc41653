//! `haft bench`: what a user would measure before trusting a machine with durable calls.
//!
//! Every figure stands beside a floor that was measured in the same run, in turns, because a
//! machine's other work is not ours to stop. The ratio is what can be compared.

mod beside;
mod floor;
mod load;
mod parked;
mod resolve;
mod revival;
mod session;
mod steps;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use haft_store::Store;
use serde::Serialize;
use tempfile::TempDir;

use crate::Verdict;
use crate::terminal::{LiveLine, say};

/// Measures on this machine.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// All of the others, one after the other.
    All {
        #[command(flatten)]
        effort: Effort,
        #[command(flatten)]
        target: Target,
        /// How many calls wait.
        #[arg(long, default_value_t = 10_000)]
        count: u32,
        /// How many events the long log has.
        #[arg(long, default_value_t = 10_000)]
        events: u64,
    },
    /// Answers every request with a word: what `load` is measured beside.
    #[command(hide = true)]
    Bare,
    /// Runs many sessions at once against a server of its own, over HTTP.
    Load {
        #[command(flatten)]
        load: load::Burden,
        #[command(flatten)]
        effort: Effort,
        #[command(flatten)]
        place: Place,
    },
    /// Parks calls that wait for approval, then approves some and lets many fall due at once.
    Parked {
        /// How many calls wait.
        #[arg(long, default_value_t = 10_000)]
        count: u32,
        #[command(flatten)]
        place: Place,
    },
    /// Suspends calls and decides about them, 128 at once.
    Resolve {
        #[command(flatten)]
        effort: Effort,
        #[command(flatten)]
        target: Target,
    },
    /// Loads a session with a long log, beside one with a short log.
    Revival {
        /// How many events the long log has.
        #[arg(long, default_value_t = 10_000)]
        events: u64,
        #[command(flatten)]
        target: Target,
    },
    /// Appends the steps of tool calls, 64 sessions at once.
    Steps {
        #[command(flatten)]
        effort: Effort,
        #[command(flatten)]
        target: Target,
    },
}

/// Where the measuring happens, and how it is told.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Place {
    /// Where to make a temporary directory: on the disk that is to be measured.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Target {
    /// A PostgreSQL database instead of the embedded store, as `postgres://…`. What is measured
    /// stays in it: give it one of its own.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// How long it is measured for.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Effort {
    /// How many rounds, of which the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many milliseconds each round takes, for each of the things that are compared.
    #[arg(long, default_value_t = 1_000)]
    round_ms: u64,
}

impl Effort {
    const fn span(self) -> Duration {
        Duration::from_millis(self.round_ms)
    }
}

/// Everything that there is to measure.
#[derive(Debug, Serialize)]
struct All {
    steps: steps::Figures,
    resolve: resolve::Figures,
    revival: revival::Figures,
    parked: parked::Figures,
}

impl fmt::Display for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steps, resolve, revival, parked } = self;
        write!(f, "{steps}\n\n{resolve}\n\n{revival}\n\n{parked}")
    }
}

pub(crate) fn run(command: &Command) -> anyhow::Result<Verdict> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(command))
}

async fn measure(command: &Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Bare => load::serve_bare().await?,
        Command::Load { load, effort, place } => {
            let figures = load::measure(place.directory()?.path(), *load, *effort).await?;
            place.print(&figures)?;
            if !figures.holds() {
                return Ok(Verdict::Broken);
            }
        }
        Command::All { effort, target, count, events } => {
            let ground = Ground::prepare(target).await?;
            let mut line = LiveLine::on_stderr();
            line.show("1 of 4: appending steps");
            let steps = steps::measure(&ground, *effort).await?;
            line.show("2 of 4: suspending and deciding");
            let resolve = resolve::measure(&ground, *effort).await?;
            line.show("3 of 4: reviving a session with a long log");
            let revival = revival::measure(&ground, *events).await?;
            line.show("4 of 4: parking calls that wait");
            let parked = parked::measure(&target.place.directory()?, *count).await?;
            line.clear();
            let figures = All { steps, resolve, revival, parked };
            target.place.print(&figures)?;
        }
        Command::Parked { count, place } => {
            place.print(&parked::measure(&place.directory()?, *count).await?)?;
        }
        Command::Resolve { effort, target } => {
            let ground = Ground::prepare(target).await?;
            target.place.print(&resolve::measure(&ground, *effort).await?)?;
        }
        Command::Revival { events, target } => {
            let ground = Ground::prepare(target).await?;
            target.place.print(&revival::measure(&ground, *events).await?)?;
        }
        Command::Steps { effort, target } => {
            let ground = Ground::prepare(target).await?;
            target.place.print(&steps::measure(&ground, *effort).await?)?;
        }
    }
    Ok(Verdict::Holds)
}

impl Place {
    fn directory(&self) -> anyhow::Result<TempDir> {
        match &self.dir {
            Some(dir) => tempfile::tempdir_in(dir),
            None => tempfile::tempdir(),
        }
        .context("making a temporary directory")
    }

    fn print(&self, figures: &(impl fmt::Display + Serialize)) -> anyhow::Result<()> {
        match self.json {
            true => say(&serde_json::to_string_pretty(figures)?),
            false => say(&figures.to_string()),
        }
        Ok(())
    }
}

/// The store that is measured, and a directory for the floor beside it.
struct Ground {
    store: Store,
    backend: Backend,
    directory: TempDir,
}

#[derive(Debug, Clone, Copy, Serialize)]
enum Backend {
    PostgreSQL,
    SQLite,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Ground {
    async fn prepare(target: &Target) -> anyhow::Result<Self> {
        let directory = target.place.directory()?;
        let (store, backend) = match &target.database_url {
            Some(url) => {
                let store = Store::connect_postgres(url).await;
                (store.context("connecting to the database")?, Backend::PostgreSQL)
            }
            None => {
                let store = Store::open_sqlite(&directory.path().join("store"));
                (store.context("opening the store")?, Backend::SQLite)
            }
        };
        Ok(Self { store, backend, directory })
    }
}

/// The figure in the middle; 0 for none.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
