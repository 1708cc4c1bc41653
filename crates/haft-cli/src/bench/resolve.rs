//! How many calls a second can be suspended and decided about.

use std::fmt;

use serde::Serialize;

use super::beside::{self, Work};
use super::{Backend, Effort, Ground};

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
        let n_appends = Work::RoundTrip.n_appends();
        let Self { backend, concurrent, bytes_each, .. } = self;
        writeln!(f, "Suspend, resolve and go on, {concurrent} at once, {backend}")?;
        writeln!(
            f,
            "  {:>9.0} /s  round trips of {n_appends} appends of {bytes_each} bytes",
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
    let beside = beside::measure(ground, effort, Work::RoundTrip).await?;
    Ok(Figures {
        backend: ground.backend,
        concurrent: Work::RoundTrip.n_sessions(),
        bytes_each: beside.bytes_each,
        round_trips_per_second: beside.appends_per_second / Work::RoundTrip.n_appends() as f64,
        raw_commits_per_second: beside.raw_commits_per_second,
        ratio: beside.ratio,
    })
}
