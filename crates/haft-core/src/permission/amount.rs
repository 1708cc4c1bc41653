//! Amounts that are summed against a budget: exact decimals, never floats.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Number;

const DECIMALS: u32 = 9;
const UNIT: i128 = 1_000_000_000;
const WHOLE_MAX: i128 = 1_000_000_000_000_000_000;

/// A decimal with up to nine places, exact under addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Reads a JSON number, if it is exact in nine decimal places and below 10^18.
    pub fn from_number(number: &Number) -> Option<Self> {
        number.to_string().parse().ok()
    }

    /// Returns the sum of two amounts, at most the largest there is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self((self.0 + other.0).min(WHOLE_MAX * UNIT - 1))
    }

    /// Returns what is left after spending `other`; `None` when that is more than there is, or
    /// negative.
    pub fn spend(self, other: Self) -> Option<Self> {
        let left = self.0 - other.0;
        (other.0 >= 0 && left >= 0).then_some(Self(left))
    }
}

/// A text that is not an exact amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an amount below 10^18 with at most 9 decimals, found `{found}`")]
pub struct AmountError {
    found: String,
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        parse(text).ok_or_else(|| AmountError { found: text.chars().take(40).collect() })
    }
}

fn parse(text: &str) -> Option<Amount> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    let plain =
        !whole.is_empty() && digits.len() <= 30 && digits.bytes().all(|b| b.is_ascii_digit());
    let value: i128 = plain.then(|| digits.parse().ok())??;
    let places = i32::try_from(fraction.len()).ok()?;
    let shift = exponent.checked_add(i32::try_from(DECIMALS).ok()?)?.checked_sub(places)?;
    let scaled = if shift >= 0 {
        value.checked_mul(10i128.checked_pow(shift.unsigned_abs())?)?
    } else {
        let divisor = 10i128.checked_pow(shift.unsigned_abs())?;
        (value % divisor == 0).then_some(value / divisor)?
    };
    let signed = if mantissa.starts_with('-') { -scaled } else { scaled };
    (signed.abs() < WHOLE_MAX * UNIT).then_some(Amount(signed))
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (self.0.abs() / UNIT, self.0.abs() % UNIT);
        write!(f, "{sign}{whole}")?;
        if fraction == 0 {
            return Ok(());
        }
        write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0'))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

/// A number is taken too, by the digits that it is written with: people write `500`.
impl de::Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount, as a number or a text such as \"12.50\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_exactly() {
        let tenth: Amount = "0.1".parse().unwrap();
        let left = (0..3).try_fold("0.3".parse::<Amount>().unwrap(), |left, _| left.spend(tenth));
        assert_eq!(left, Some(Amount::ZERO));
        assert_eq!(Amount::ZERO.spend(tenth), None);
        assert_eq!(Amount::ZERO.spend("-1".parse().unwrap()), None);
        for text in ["12.5", "-3.000000001", "1e3", "1.5e-3", "0"] {
            let amount: Amount = text.parse().unwrap();
            assert_eq!(amount.to_string().parse(), Ok(amount), "{text}");
        }
        assert_eq!("1e3".parse::<Amount>().unwrap().to_string(), "1000");
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        for bad in [
            "",
            ".",
            "1e-10",
            "0.0000000001",
            "1e18",
            "x",
            "1e400",
            "--1",
            "1e99999999999",
            "1.1234567890123e-2147483648",
        ] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
        assert!(Amount::from_number(&Number::from_f64(1e300).unwrap()).is_none());
    }

    #[test]
    fn an_amount_is_read_from_a_number_or_a_text() {
        let read = |json: &str| serde_json::from_str::<Amount>(json);
        for json in ["12.5", "\"12.5\"", "\"12.50\""] {
            assert_eq!(read(json).unwrap().to_string(), "12.5");
        }
        assert_eq!(read("-3").unwrap().to_string(), "-3");
        assert!(read("1e300").is_err() && read("true").is_err());
    }
}
