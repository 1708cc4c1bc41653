//! The clock: calls expire and are retried by it.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::finding::Finding;

const NAME: &str = "clock";

/// When this was written, in seconds since 1970: no clock that is right is before it.
const WRITTEN_AT: u64 = 1_767_225_600;

/// By how much the two clocks may come apart while this program looks around.
const APART_MAX: Duration = Duration::from_millis(500);

/// The time of day and the time since the machine was started, at the same moment.
pub(super) struct Clocks {
    day: SystemTime,
    steady: Instant,
}

impl Clocks {
    pub(super) fn start() -> Self {
        Self { day: SystemTime::now(), steady: Instant::now() }
    }

    /// Whether the time of day has gone on as the steady clock has.
    pub(super) fn compared(&self) -> Finding {
        let set = "let NTP or chrony set the clock";
        let steady = self.steady.elapsed();
        let (now, expected) = (SystemTime::now(), self.day + steady);
        let apart = now.duration_since(expected).unwrap_or_else(|error| error.duration());
        if now < SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN_AT) {
            return Finding::problem(NAME, "the clock is years behind", set);
        }
        match apart > APART_MAX {
            true => {
                let ms = apart.as_millis();
                let message = format!("the clock jumped by {ms} ms while this program ran");
                Finding::warning(NAME, message, set)
            }
            false => Finding::ok(NAME, "the time of day goes on evenly"),
        }
    }
}

/// A store that was written in the future says that the clock was turned back.
pub(super) fn of_files(data: &Path) -> Option<Finding> {
    let written =
        std::fs::metadata(data.join("haft.db")).and_then(|found| found.modified()).ok()?;
    let ahead = written.duration_since(SystemTime::now()).ok().filter(|it| *it > APART_MAX)?;
    Some(Finding::warning(
        "clock.store",
        format!("the store was last written {} s in the future", ahead.as_secs()),
        "set the clock: calls that wait expire by it",
    ))
}
