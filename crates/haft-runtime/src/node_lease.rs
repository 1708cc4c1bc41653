//! Whether this node may still act for its sessions: when it was last heard of, by a clock that
//! goes on while the machine sleeps.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uptime(Duration);

impl Uptime {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        let part = |part: i64| u64::try_from(part).unwrap_or(0);
        Self(Duration::from_secs(part(now.tv_sec)) + Duration::from_nanos(part(now.tv_nsec)))
    }

    fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// A time during which this node was never silent for as long as its lease lasts. Whatever it
/// owned at its start and has not given back is its own until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term(u64);

#[derive(Debug)]
pub(crate) struct NodeLease {
    ttl: Duration,
    heard: Mutex<Option<Heard>>,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    sent: Uptime,
    term: Term,
}

impl NodeLease {
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { ttl, heard: Mutex::default() }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Notes a heartbeat that the store has just answered. The lease counts from when it was
    /// sent, which is before the store counts from; a silence, until when it was answered.
    pub(crate) fn heard(&self, sent: Uptime) {
        let answered = Uptime::now();
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let term = match *heard {
            Some(last) if answered.since(last.sent) < self.ttl => last.term,
            Some(last) => Term(last.term.0 + 1),
            None => Term(0),
        };
        *heard = Some(Heard { sent, term });
    }

    /// Returns the term, if it is not about to end: a quarter is left over for what happens
    /// between this look and the deed.
    pub(crate) fn term(&self) -> Option<Term> {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = heard.filter(|heard| Uptime::now().since(heard.sent) < self.ttl * 3 / 4)?;
        Some(heard.term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(silence: Duration) -> Uptime {
        Uptime(Uptime::now().0 - silence)
    }

    #[test]
    fn a_silence_as_long_as_the_lease_begins_another_term() {
        let lease = NodeLease::new(Duration::from_secs(10));
        assert_eq!(lease.term(), None, "nobody has heard of it");
        lease.heard(ago(Duration::from_secs(9)));
        assert_eq!(lease.term(), None, "the lease is about to end");
        lease.heard(Uptime::now());
        let first = lease.term().unwrap();
        lease.heard(ago(Duration::from_secs(11)));
        lease.heard(Uptime::now());
        assert_ne!(lease.term(), Some(first), "someone else may have taken everything meanwhile");
    }
}
