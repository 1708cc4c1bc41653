//! Trouble of a loop that tries again for ever: it is told when it begins, now and then while it
//! lasts, and when it is over. A line for every try would bury what else is in the log.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

/// How often trouble that lasts is told again.
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// What one loop is kept from.
#[derive(Debug)]
pub struct Outage {
    what: &'static str,
    lasting: Option<Lasting>,
}

#[derive(Debug, Clone, Copy)]
struct Lasting {
    since: Instant,
    told: Instant,
}

/// What is said about one more failure.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Begun,
    Lasts(Duration),
    Nothing,
}

impl Outage {
    /// None so far; `what` is what cannot be done while there is one.
    pub const fn of(what: &'static str) -> Self {
        Self { what, lasting: None }
    }

    /// Notes a try that failed.
    pub fn failed(&mut self, error: &dyn Display) {
        let what = self.what;
        match self.fail(Instant::now()) {
            Said::Begun => tracing::warn!(%error, "{what}; trying again"),
            Said::Lasts(since) => {
                tracing::warn!(%error, seconds = since.as_secs(), "{what}; still trying");
            }
            Said::Nothing => {}
        }
    }

    /// Notes a try that did not fail.
    pub fn over(&mut self) {
        if let Some(lasted) = self.lasting.take() {
            let (what, seconds) = (self.what, lasted.since.elapsed().as_secs());
            tracing::info!(seconds, "{what}: that is over");
        }
    }

    fn fail(&mut self, now: Instant) -> Said {
        let Some(lasting) = &mut self.lasting else {
            self.lasting = Some(Lasting { since: now, told: now });
            return Said::Begun;
        };
        if now.duration_since(lasting.told) < REMIND_EVERY {
            return Said::Nothing;
        }
        lasting.told = now;
        Said::Lasts(now.duration_since(lasting.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_when_it_begins_and_twice_a_minute() {
        let mut outage = Outage::of("nothing can be done");
        let begun = Instant::now();
        let said = (0..700).map(|tenth| outage.fail(begun + Duration::from_millis(100) * tenth));
        let said: Vec<Said> = said.filter(|said| *said != Said::Nothing).collect();
        let lasts = |seconds| Said::Lasts(Duration::from_secs(seconds));
        assert_eq!(said, [Said::Begun, lasts(30), lasts(60)]);
        outage.over();
        assert_eq!(outage.fail(begun), Said::Begun, "the next one is another one");
    }
}
