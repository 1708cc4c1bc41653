//! Time as a value: the driver says what time it is, the core compares and prints.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const MS_PER_DAY: i64 = 86_400_000;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z, the last moment that RFC 3339 can print.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// Takes milliseconds since the epoch, clamped to the years 1 to 9999.
    pub const fn from_ms(ms: i64) -> Self {
        const MIN: i64 = -62_135_596_800_000;
        if ms < MIN {
            Self(MIN)
        } else if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// Returns milliseconds since the epoch.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// Returns how long ago `earlier` was; zero when the clock stepped back.
    pub const fn since(self, earlier: Self) -> Millis {
        let ms = self.0.saturating_sub(earlier.0);
        Millis(if ms < 0 { 0 } else { ms.unsigned_abs() })
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction]`, then `Z`, as this type prints it, or an offset from
    /// UTC such as `+02:00`.
    ///
    /// # Errors
    ///
    /// When the text has another form or names no real moment.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimestampError> {
        parse(text).ok_or_else(|| TimestampError { found: text.chars().take(64).collect() })
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let (local, ahead) = match text.strip_suffix('Z') {
        Some(utc) => (utc, 0),
        None => offset(text)?,
    };
    let (whole, fraction) = match local.split_once('.') {
        Some((whole, fraction)) => (whole, millis_of_fraction(fraction)?),
        None => (local, 0),
    };
    let (date, clock) = whole.split_once('T')?;
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = fields(clock, ':', [2, 2, 2])?;
    let real = year >= 1
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let seconds = (hour * 60 + minute) * 60 + second;
    real.then(|| {
        let local = days_from_civil(year, month, day) * MS_PER_DAY + seconds * 1000 + fraction;
        Timestamp::from_ms(local - ahead)
    })
}

/// Parts a local time from its offset at the end, in milliseconds ahead of UTC.
fn offset(text: &str) -> Option<(&str, i64)> {
    let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
    let (sign, clock) = match offset.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let [hours, minutes] = fields(clock, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some((local, sign * (hours * 60 + minutes) * 60_000))
}

fn fields<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next()?;
        let digits = part.len() == width && part.bytes().all(|b| b.is_ascii_digit());
        *number = digits.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

fn millis_of_fraction(digits: &str) -> Option<i64> {
    let plain = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| format!("{digits:0<3}")[..3].parse().ok())?
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the epoch to a date of the proleptic Gregorian calendar, by counting 400-year eras
/// that start on 1 March, so that the leap day is the last day of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

impl fmt::Display for Timestamp {
    /// Prints RFC 3339 in UTC with milliseconds, as document 001 wants `fetchedAt`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(MS_PER_DAY));
        let ms = self.0.rem_euclid(MS_PER_DAY);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        let milli = ms % 1000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, span: Millis) -> Self {
        let ms = i64::try_from(span.0).unwrap_or(i64::MAX);
        Self::from_ms(self.0.saturating_add(ms))
    }
}

/// A text that is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a time like `2025-01-15T10:30:00.000Z`, found `{found}`")]
pub struct TimestampError {
    found: String,
}

/// A length of time in milliseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Takes whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // S1-18: ISO 8601 with milliseconds and Z.
    #[test]
    fn s1_18_a_moment_prints_with_milliseconds_and_z() {
        assert_eq!(Timestamp::from_ms(1_736_937_000_000).to_string(), "2025-01-15T10:30:00.000Z");
        assert_eq!(Timestamp::from_ms(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_ms(i64::MIN).to_string(), "0001-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_ms(951_782_400_000).to_string(), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn a_text_that_names_no_moment_is_refused() {
        for bad in [
            "",
            "2025-02-29T00:00:00Z",
            "2025-13-01T00:00:00Z",
            "2025-01-01T24:00:00Z",
            "2025-01-01 00:00:00Z",
            "2025-01-01T00:00:00",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00+1:00",
            "2025-01-01T00:00:00+24:00",
            "2025-01-01T00:00:00+01:60",
            "2025-01-01T00:00:00 01:00",
            "2025-01-01T00:00:0é+01:00",
            "+025-01-01T00:00:00Z",
            "2025-01-01T00:00:00.0000000000Z",
        ] {
            let error = Timestamp::parse_rfc3339(bad).unwrap_err().to_string();
            assert!(error.contains("expected a time"), "{bad}");
        }
        let half = Timestamp::parse_rfc3339("2025-01-15T10:30:00.5Z").unwrap();
        assert_eq!(half.ms(), 1_736_937_000_500);
    }

    #[test]
    fn an_offset_names_the_same_moment() {
        for same in [
            "2025-01-15T12:30:00+02:00",
            "2025-01-15T05:00:00.000-05:30",
            "2025-01-15T10:30:00-00:00",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(same).unwrap().ms(), 1_736_937_000_000, "{same}");
        }
        let first = Timestamp::parse_rfc3339("0001-01-01T00:00:00+01:00").unwrap();
        assert_eq!(first.to_string(), "0001-01-01T00:00:00.000Z");
    }

    #[test]
    fn adding_never_wraps_and_a_clock_that_steps_back_counts_as_zero() {
        assert_eq!(Timestamp::MAX + Millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_ms(5).since(Timestamp::from_ms(9)), Millis(0));
        assert_eq!(Timestamp::from_ms(9).since(Timestamp::from_ms(5)), Millis(4));
    }

    proptest! {
        #[test]
        fn every_printed_moment_reads_back(ms in -62_135_596_800_000i64..=253_402_300_799_999) {
            let at = Timestamp::from_ms(ms);
            prop_assert_eq!(Timestamp::parse_rfc3339(&at.to_string()), Ok(at));
        }
    }
}
