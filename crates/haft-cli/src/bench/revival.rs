//! What it costs to load a session again, by the length of its log.

use std::fmt;
use std::time::Instant;

use anyhow::Context as _;
use haft_store::Store;
use serde::Serialize;

use super::session::Session;
use super::{Backend, Ground, median};

const SHORT: u64 = 10;

/// How often each of the two is loaded, in turns.
const LOADS: usize = 300;

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    backend: Backend,
    short_events: u64,
    short_us: f64,
    long_events: u64,
    long_us: f64,
    ratio: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, short_events, short_us, long_events, long_us, ratio } = self;
        writeln!(f, "Revival, {backend}")?;
        writeln!(f, "  {short_us:>9.0} µs  with {short_events} events")?;
        writeln!(f, "  {long_us:>9.0} µs  with {long_events} events")?;
        write!(f, "  {ratio:>9.2}     times the short one (wanted: 1.5 or less)")
    }
}

pub(super) async fn measure(ground: &Ground, events: u64) -> anyhow::Result<Figures> {
    let store = &ground.store;
    let short = Session::grown(store, SHORT).await?;
    let long = Session::grown(store, events).await?;
    let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
    for _ in 0..LOADS {
        of_short.push(load_us(store, &short).await?);
        of_long.push(load_us(store, &long).await?);
    }
    let (short_us, long_us) = (median(of_short), median(of_long));
    Ok(Figures {
        backend: ground.backend,
        short_events: short.n_events(),
        short_us,
        long_events: long.n_events(),
        long_us,
        ratio: long_us / short_us,
    })
}

async fn load_us(store: &Store, session: &Session) -> anyhow::Result<f64> {
    let started = Instant::now();
    store.load(session.id()).await?.context("a stored session is not there")?;
    Ok(started.elapsed().as_secs_f64() * 1e6)
}
