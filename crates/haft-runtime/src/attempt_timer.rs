//! The clock of one attempt, which stands still while the attempt waits for a person.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Measures how long an attempt has been at work. A clone measures the same attempt.
#[derive(Debug, Clone)]
pub struct AttemptTimer(Arc<watch::Sender<Worked>>);

/// How long an attempt has been at work.
#[derive(Debug, Clone, Copy)]
struct Worked {
    /// Until the clock was last set going or stopped.
    before: Duration,
    /// Since when it goes; none while it stands still.
    since: Option<Instant>,
    /// How many have it stand still.
    n_pauses: u32,
}

impl Worked {
    fn so_far(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl Default for AttemptTimer {
    fn default() -> Self {
        let worked = Worked { before: Duration::ZERO, since: Some(Instant::now()), n_pauses: 0 };
        Self(Arc::new(watch::Sender::new(worked)))
    }
}

impl AttemptTimer {
    /// Has the clock stand still until what is returned is dropped.
    pub fn pause(&self) -> ClockPause {
        self.0.send_modify(|worked| {
            worked.before = worked.so_far();
            worked.since = None;
            worked.n_pauses += 1;
        });
        ClockPause(self.clone())
    }

    /// Waits until the attempt has been at work for this long.
    pub(crate) async fn elapsed(&self, limit: Duration) {
        let mut changes = self.0.subscribe();
        loop {
            let worked = *changes.borrow_and_update();
            let left = limit.saturating_sub(worked.so_far());
            if left.is_zero() {
                return;
            }
            let changed = changes.changed();
            match worked.since {
                // There is a sender for as long as there is this.
                None => changed.await.unwrap_or_default(),
                Some(_) => tokio::time::timeout(left, changed).await.map_or((), |_| ()),
            }
        }
    }
}

/// Keeps the clock of an attempt still for as long as it lives.
#[derive(Debug)]
#[must_use = "the clock goes on when this is dropped"]
pub struct ClockPause(AttemptTimer);

impl Drop for ClockPause {
    fn drop(&mut self) {
        self.0.0.send_modify(|worked| {
            worked.n_pauses -= 1;
            if worked.n_pauses == 0 {
                worked.since = Some(Instant::now());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn time_that_a_person_takes_does_not_count() {
        let (timer, limit) = (AttemptTimer::default(), Duration::from_millis(200));
        let counted = timer.clone();
        let over = tokio::spawn(async move { counted.elapsed(limit).await });
        let (first, second) = (timer.pause(), timer.pause());
        tokio::time::sleep(2 * limit).await;
        drop(first);
        tokio::time::sleep(2 * limit).await;
        assert!(!over.is_finished(), "one of them still waits");
        drop(second);
        over.await.unwrap();
    }
}
