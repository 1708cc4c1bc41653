//! What time it is: the machine's clock, or one that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use haft_core::{Millis, Timestamp};
use haft_store::Moment;

/// Where the driver gets its time from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clock, and the database's where several nodes must agree.
    #[default]
    System,
    /// The machine's clock and a span ahead of it: a rehearsal of what happens later.
    Ahead(Millis),
    /// A clock that moves only when told.
    Manual(ManualClock),
}

/// A clock that moves only when told.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Starts at a moment.
    pub fn at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.ms())))
    }

    /// Moves forward.
    pub fn advance(&self, span: Millis) {
        let ms = i64::try_from(span.0).unwrap_or(i64::MAX);
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock {
    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Ahead(span) => Self::System.now() + *span,
            Self::Manual(clock) => Timestamp::from_ms(clock.0.load(Ordering::SeqCst)),
        }
    }

    /// Returns the moment by which the store looks for due work: its own clock, unless a test
    /// moves time.
    pub fn moment(&self) -> Moment {
        match self {
            Self::System => Moment::Clock,
            Self::Ahead(_) | Self::Manual(_) => Moment::At(self.now()),
        }
    }
}
