//! How many durable steps of tool calls a second, as a share of what the disk gives.

use std::fmt;
use std::time::{Duration, Instant};

use haft_core::tool::Gate;
use haft_store::Store;
use serde::Serialize;

use super::session::{Session, tool};
use super::{Backend, Effort, Ground, floor, median};

/// How many sessions are at work at once.
const SESSIONS: usize = 64;

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
    let bytes_each = bytes_per_step(&ground.store).await?;
    let (mut steps, mut raw, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let directory = ground.directory.path();
        let floor = floor::group_commits(directory, SESSIONS, bytes_each, effort.span()).await?;
        let rate = steps_per_second(&ground.store, effort.span()).await?;
        ratios.push(rate / floor);
        raw.push(floor);
        steps.push(rate);
    }
    Ok(Figures {
        backend: ground.backend,
        sessions: SESSIONS,
        bytes_each,
        steps_per_second: median(steps),
        raw_commits_per_second: median(raw),
        ratio: median(ratios),
    })
}

async fn bytes_per_step(store: &Store) -> anyhow::Result<usize> {
    let mut session = Session::create(store).await?;
    let before = session.n_events();
    session.step(&tool(Gate::Auto)?).await?;
    session.bytes_per_append(before, 2).await
}

/// Each append is a step: that a call begins, and what came of it.
async fn steps_per_second(store: &Store, span: Duration) -> anyhow::Result<f64> {
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Session::create(store).await?);
    }
    let tool = tool(Gate::Auto)?;
    let started = Instant::now();
    let callers = sessions.into_iter().map(|mut session| {
        let tool = tool.clone();
        async move {
            let mut count = 0;
            while started.elapsed() < span {
                session.step(&tool).await?;
                count += 2;
            }
            Ok(count)
        }
    });
    floor::rate(started, callers).await
}
