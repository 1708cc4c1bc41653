//! What a store counts while it works, for whoever watches the node: read at any time, never
//! reset, and never more of it than there are names below.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use haft_core::session::{Event, SuspensionKind};
use haft_core::{CallResult, ErrorClass};

/// Values sorted into ranges.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds: the last is for what is above them all.
    counts: Box<[AtomicU64]>,
    /// In millionths.
    sum: AtomicU64,
}

/// A histogram at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramReading {
    /// The upper bound of each range, and how many values are at most that.
    pub up_to: Vec<(f64, u64)>,
    /// How many values there are.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Histogram {
    /// Bounds for times in seconds, from a tenth of a millisecond to ten seconds.
    pub const SECONDS: &'static [f64] = &[
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
        5.0, 10.0,
    ];

    /// Makes one with these bounds, in order.
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let range = self.bounds.partition_point(|bound| *bound < value);
        self.counts[range].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    /// Counts a time.
    pub fn observe_time(&self, time: Duration) {
        self.observe(time.as_secs_f64());
    }

    /// Returns it as it is now.
    pub fn read(&self) -> HistogramReading {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(self.bounds.len());
        for (at, n) in self.counts.iter().enumerate() {
            count += n.load(Ordering::Relaxed);
            if let Some(bound) = self.bounds.get(at) {
                up_to.push((*bound, count));
            }
        }
        HistogramReading { up_to, count, sum: self.sum.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

/// What a store has done since it was opened.
#[derive(Debug)]
pub struct Measures {
    /// How long appends took until they were durable.
    pub append_seconds: Histogram,
    /// How many requests shared a transaction.
    pub batch_size: Histogram,
    outcomes: [AtomicU64; ErrorClass::ALL.len() + 1],
    answers: AtomicU64,
    retries: AtomicU64,
    tokens: [AtomicU64; 3],
    /// How often a session was loaded.
    loads: AtomicU64,
    /// How often each background loop of the node panicked, by its name.
    loop_panics: Mutex<BTreeMap<&'static str, u64>>,
}

/// What the events that were appended here amount to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many calls ended in which way; `None` is for those that went well.
    pub outcomes: Vec<(Option<ErrorClass>, u64)>,
    /// How often a model answered.
    pub model_answers: u64,
    /// How often it had to be asked again.
    pub model_retries: u64,
    /// The tokens that were read, written, and read from a cache.
    pub tokens: [u64; 3],
}

impl Measures {
    pub(crate) fn new() -> Self {
        Self {
            append_seconds: Histogram::new(Histogram::SECONDS),
            batch_size: Histogram::new(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]),
            outcomes: std::array::from_fn(|_| AtomicU64::new(0)),
            answers: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            tokens: std::array::from_fn(|_| AtomicU64::new(0)),
            loads: AtomicU64::new(0),
            loop_panics: Mutex::default(),
        }
    }

    /// Returns how many sessions were loaded: read, and folded from their logs.
    pub fn loads(&self) -> u64 {
        self.loads.load(Ordering::Relaxed)
    }

    pub(crate) fn count_load(&self) {
        self.loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a background loop of the node began, so that it is listed before it panics.
    pub fn loop_started(&self, name: &'static str) {
        self.lock_panics().entry(name).or_default();
    }

    /// Counts a panic of a background loop of the node.
    pub fn loop_panicked(&self, name: &'static str) {
        *self.lock_panics().entry(name).or_default() += 1;
    }

    /// Returns how often each background loop of the node panicked.
    pub fn loop_panics(&self) -> BTreeMap<&'static str, u64> {
        self.lock_panics().clone()
    }

    fn lock_panics(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.loop_panics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, events: &[Event]) {
        let one = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        for event in events {
            match event {
                Event::CallFinished { outcome } => {
                    let class = match &outcome.result {
                        CallResult::Ok(_) => None,
                        CallResult::Err(failure) => Some(failure.class),
                    };
                    one(&self.outcomes[place(class)]);
                }
                Event::CallRejected { rejection, .. } => {
                    one(&self.outcomes[place(Some(rejection.reason.class()))]);
                }
                Event::TurnRetried { .. } => {
                    one(&self.retries);
                }
                Event::TurnAnswered { usage, .. } => {
                    one(&self.answers);
                    let usage = usage.unwrap_or_default();
                    for (counter, n) in
                        self.tokens.iter().zip([usage.input, usage.output, usage.cache_read])
                    {
                        counter.fetch_add(n, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns what the events that were appended here amount to.
    pub fn tally(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let classes = std::iter::once(None).chain(ErrorClass::ALL.map(Some));
        Tally {
            outcomes: classes.map(|class| (class, read(&self.outcomes[place(class)]))).collect(),
            model_answers: read(&self.answers),
            model_retries: read(&self.retries),
            tokens: std::array::from_fn(|at| read(&self.tokens[at])),
        }
    }
}

fn place(class: Option<ErrorClass>) -> usize {
    let at = class.and_then(|class| ErrorClass::ALL.iter().position(|known| *known == class));
    at.map_or(0, |at| at + 1)
}

/// What is stored at a moment, by all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// How many calls wait for what.
    pub waiting: Vec<(SuspensionKind, u64)>,
    /// How many deliveries are still to be made.
    pub deliveries: u64,
}
