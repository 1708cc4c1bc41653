//! How many durable steps of tool calls a second, as a share of what the disk gives.

use std::fmt;

use serde::Serialize;

use super::beside::{self, Work};
use super::{Backend, Effort, Ground};

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    backend: Backend,
    sessions: usize,
    bytes_each: usize,
    steps_per_second: f64,
    raw_commits_per_second: f64,
    ratio: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, sessions, bytes_each, .. } = self;
        writeln!(f, "Durable steps, {sessions} sessions at once, {backend}")?;
        writeln!(f, "  {:>9.0} /s  steps of {bytes_each} bytes", self.steps_per_second)?;
        writeln!(
            f,
            "  {:>9.0} /s  raw group commits of the same bytes on this disk",
            self.raw_commits_per_second
        )?;
        write!(f, "  {:>9.2}     of what the disk gives (wanted: 0.5 or more)", self.ratio)
    }
}

pub(super) async fn measure(ground: &Ground, effort: Effort) -> anyhow::Result<Figures> {
    let beside = beside::measure(ground, effort, Work::Step).await?;
    Ok(Figures {
        backend: ground.backend,
        sessions: Work::Step.n_sessions(),
        bytes_each: beside.bytes_each,
        steps_per_second: beside.appends_per_second,
        raw_commits_per_second: beside.raw_commits_per_second,
        ratio: beside.ratio,
    })
}
