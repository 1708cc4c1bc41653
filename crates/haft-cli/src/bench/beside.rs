//! Work that sessions do over and over, many at once, beside what the disk gives.

use std::time::{Duration, Instant};

use haft_core::tool::{Gate, ToolSpec};
use haft_store::Store;

use super::session::{Session, tool};
use super::{Effort, Ground, floor, median};

/// What each session does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// A call is proposed, waits, is decided about and goes on.
    RoundTrip,
    /// A call is proposed and runs, and its result is recorded.
    Step,
}

impl Work {
    /// How many sessions do it at once.
    pub(super) const fn n_sessions(self) -> usize {
        match self {
            Self::RoundTrip => 128,
            Self::Step => 64,
        }
    }

    /// How often it appends.
    pub(super) const fn n_appends(self) -> usize {
        match self {
            Self::RoundTrip => 3,
            Self::Step => 2,
        }
    }

    fn tool(self) -> anyhow::Result<ToolSpec> {
        tool(match self {
            Self::RoundTrip => Gate::Ask,
            Self::Step => Gate::Auto,
        })
    }

    async fn once(self, session: &mut Session, tool: &ToolSpec) -> anyhow::Result<()> {
        match self {
            Self::RoundTrip => session.round_trip(tool).await,
            Self::Step => session.step(tool).await,
        }
    }
}

/// What was measured; the medians of all rounds.
#[derive(Debug)]
pub(super) struct Beside {
    /// How many bytes an append puts into the log.
    pub(super) bytes_each: usize,
    pub(super) appends_per_second: f64,
    /// The same bytes, as many at once, by the floor.
    pub(super) raw_commits_per_second: f64,
    pub(super) ratio: f64,
}

pub(super) async fn measure(ground: &Ground, effort: Effort, work: Work) -> anyhow::Result<Beside> {
    let bytes_each = bytes_per_append(&ground.store, work).await?;
    let (mut appends, mut raw, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (directory, span) = (ground.directory.path(), effort.span());
        let floor = floor::group_commits(directory, work.n_sessions(), bytes_each, span).await?;
        let rate = appends_per_second(&ground.store, work, span).await?;
        ratios.push(rate / floor);
        raw.push(floor);
        appends.push(rate);
    }
    Ok(Beside {
        bytes_each,
        appends_per_second: median(appends),
        raw_commits_per_second: median(raw),
        ratio: median(ratios),
    })
}

async fn bytes_per_append(store: &Store, work: Work) -> anyhow::Result<usize> {
    let mut session = Session::create(store).await?;
    let before = session.n_events();
    work.once(&mut session, &work.tool()?).await?;
    session.bytes_per_append(before, work.n_appends()).await
}

async fn appends_per_second(store: &Store, work: Work, span: Duration) -> anyhow::Result<f64> {
    let mut sessions = Vec::new();
    for _ in 0..work.n_sessions() {
        sessions.push(Session::create(store).await?);
    }
    let tool = work.tool()?;
    let started = Instant::now();
    let callers = sessions.into_iter().map(|mut session| {
        let tool = tool.clone();
        async move {
            let mut count = 0;
            while started.elapsed() < span {
                work.once(&mut session, &tool).await?;
                count += work.n_appends() as u64;
            }
            Ok(count)
        }
    });
    floor::rate(started, callers).await
}
