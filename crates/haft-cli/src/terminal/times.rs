//! Times as people say them. Everything takes `now`, so that only [`now`] reads a clock.

use haft_core::{Millis, Timestamp};
use haft_runtime::Clock;

pub(crate) fn now() -> Timestamp {
    Clock::System.now()
}

/// What is left until a moment, such as `4:05`, `2 h 10 min` or `3 d`.
pub(crate) fn left(until: Timestamp, now: Timestamp) -> String {
    let seconds = until.since(now).0.div_ceil(1000);
    let minutes = seconds / 60;
    match seconds {
        0..3600 => format!("{minutes}:{:02}", seconds % 60),
        3600..172_800 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} d", minutes / 1440),
    }
}

/// How long ago a moment was.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(at).0 / 1000;
    match seconds {
        0..45 => "just now".to_owned(),
        45..3600 => format!("{} min ago", seconds.div_ceil(60)),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// How long something took, such as `340 ms`, `2.1 s` or `3 d 4 h`.
pub(crate) fn took(time: Millis) -> String {
    match time.0 {
        0..1000 => format!("{} ms", time.0),
        1000..60_000 => format!("{}.{} s", time.0 / 1000, time.0 % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", time.0 / 60_000, time.0 % 60_000 / 1000),
        _ => match time.0 / 60_000 {
            minutes @ 0..2880 => format!("{} h {} min", minutes / 60, minutes % 60),
            minutes => format!("{} d {} h", minutes / 1440, minutes % 1440 / 60),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        let at = |seconds: i64| Timestamp::from_ms(seconds * 1000);
        assert_eq!(left(at(245), at(0)), "4:05");
        assert_eq!(left(at(7800), at(0)), "2 h 10 min");
        assert_eq!(left(at(3 * 86_400), at(0)), "3 d");
        assert_eq!(left(at(0), at(9)), "0:00");
        assert_eq!(ago(at(0), at(44)), "just now");
        assert_eq!(ago(at(0), at(300)), "5 min ago");
        assert_eq!(ago(at(0), at(7300)), "2 h ago");
        assert_eq!(took(Millis(2150)), "2.1 s");
        assert_eq!(took(Millis(61_000)), "1 min 1 s");
        assert_eq!(took(Millis(86_400_000)), "24 h 0 min");
        assert_eq!(took(Millis(3 * 86_400_000 + 4 * 3_600_000)), "3 d 4 h");
    }
}
