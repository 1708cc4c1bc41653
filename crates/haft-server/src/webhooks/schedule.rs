//! When a delivery is attempted again.

use haft_core::{Millis, Timestamp};
use haft_store::NextAttempt;

/// The first pause; each further one is twice as long.
const FIRST: Millis = Millis::from_secs(1);

/// The longest pause.
const LONGEST: Millis = Millis::from_secs(3600);

/// Says when to try again after an attempt that failed: half of the pause is certain, the other
/// half is left to chance, so that those who failed together do not come back together.
pub(super) fn next(
    happened: Timestamp,
    now: Timestamp,
    attempt: u32,
    give_up_after: Millis,
    chance: u32,
) -> NextAttempt {
    let pause = FIRST.0.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(LONGEST.0);
    let by_chance = pause / 2 * u64::from(chance) / u64::from(u32::MAX);
    let at = now + Millis(pause / 2 + by_chance);
    match at > happened + give_up_after {
        true => NextAttempt::GivenUp,
        false => NextAttempt::At(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);
    const DAY: Millis = Millis::from_secs(86_400);

    fn pause(attempt: u32, chance: u32) -> u64 {
        match next(NOW, NOW, attempt, DAY, chance) {
            NextAttempt::At(at) => at.since(NOW).0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pauses_double_up_to_an_hour_and_half_of_each_is_chance() {
        assert_eq!((pause(1, 0), pause(1, u32::MAX)), (500, 1000));
        assert_eq!((pause(4, 0), pause(4, u32::MAX)), (4000, 8000));
        assert_eq!((pause(40, 0), pause(40, u32::MAX)), (1_800_000, 3_600_000));
    }

    #[test]
    fn what_would_come_too_late_is_given_up() {
        let given_up = next(NOW, NOW + DAY, 12, DAY, 0);
        assert_eq!(given_up, NextAttempt::GivenUp);
    }
}
