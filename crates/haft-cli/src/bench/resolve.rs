//! How many calls a second can be suspended and decided about.

use std::fmt;
use std::time::{Duration, Instant};

use haft_core::tool::Gate;
use haft_store::Store;
use serde::Serialize;

use super::session::{Session, tool};
use super::{Backend, Effort, Ground, floor, median};

/// How many calls are under way at once.
const CONCURRENT: usize = 128;

/// How many appends a round trip has.
const APPENDS: usize = 3;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    backend: Backend,
    concurrent: usize,
    bytes_each: usize,
    round_trips_per_second: f64,
    raw_commits_per_second: f64,
    ratio: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, concurrent, bytes_each, .. } = self;
        writeln!(f, "Suspend, resolve and go on, {concurrent} at once, {backend}")?;
        writeln!(
            f,
            "  {:>9.0} /s  round trips of {APPENDS} appends of {bytes_each} bytes",
            self.round_trips_per_second
        )?;
        writeln!(
            f,
            "  {:>9.0} /s  raw group commits of the same bytes on this disk",
            self.raw_commits_per_second
        )?;
        write!(f, "  {:>9.2}     of what the disk gives, append for append", self.ratio)
    }
}

pub(super) async fn measure(ground: &Ground, effort: Effort) -> anyhow::Result<Figures> {
    let bytes_each = bytes_per_append(&ground.store).await?;
    let (mut trips, mut raw, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let directory = ground.directory.path();
        let floor = floor::group_commits(directory, CONCURRENT, bytes_each, effort.span()).await?;
        let rate = round_trips_per_second(&ground.store, effort.span()).await?;
        ratios.push(rate * APPENDS as f64 / floor);
        raw.push(floor);
        trips.push(rate);
    }
    Ok(Figures {
        backend: ground.backend,
        concurrent: CONCURRENT,
        bytes_each,
        round_trips_per_second: median(trips),
        raw_commits_per_second: median(raw),
        ratio: median(ratios),
    })
}

async fn bytes_per_append(store: &Store) -> anyhow::Result<usize> {
    let mut session = Session::create(store).await?;
    let before = session.n_events();
    session.round_trip(&tool(Gate::Ask)?).await?;
    session.bytes_per_append(before, APPENDS).await
}

async fn round_trips_per_second(store: &Store, span: Duration) -> anyhow::Result<f64> {
    let mut sessions = Vec::new();
    for _ in 0..CONCURRENT {
        sessions.push(Session::create(store).await?);
    }
    let tool = tool(Gate::Ask)?;
    let started = Instant::now();
    let callers = sessions.into_iter().map(|mut session| {
        let tool = tool.clone();
        async move {
            let mut count = 0;
            while started.elapsed() < span {
                session.round_trip(&tool).await?;
                count += 1;
            }
            Ok(count)
        }
    });
    floor::rate(started, callers).await
}
