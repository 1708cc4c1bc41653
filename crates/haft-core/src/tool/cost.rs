//! What one call of a tool costs, as far as its arguments tell.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::behaviour::{Executor, Ownership};
use super::contract::Contract;
use crate::arguments::Arguments;
use crate::permission::Amount;
use crate::pointer::JsonPointer;

/// What amounts are counted in: a currency, or anything else that is used up. `EUR` and `eur` are
/// two units, and nothing is ever converted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(Box<str>);

impl Unit {
    /// How long its name may be.
    pub const LEN_MAX: usize = 16;

    /// Returns its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that names no unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a unit of 1 to 16 ASCII letters, digits, `_` or `-`, found `{found}`")]
pub struct UnitError {
    found: String,
}

impl FromStr for Unit {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if (1..=Self::LEN_MAX).contains(&text.len()) && text.bytes().all(plain) {
            return Ok(Self(text.into()));
        }
        Err(UnitError { found: text.chars().take(40).collect() })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Where a call's price is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// How much.
    pub amount: Told<Amount>,
    /// Of what.
    pub unit: Told<Unit>,
}

/// One half of a price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told<T> {
    /// The same for every call.
    Always(T),
    /// What this argument says.
    Field(JsonPointer),
}

/// What one call costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// How much.
    pub amount: Amount,
    /// Of what.
    pub unit: Unit,
}

/// What a contract keeps of a tool's spending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spending {
    /// The definition does not say whether it spends.
    #[default]
    Undeclared,
    /// Nothing is ever spent.
    Nothing,
    /// Something may be spent, and nothing tells how much.
    Untold,
    /// Its arguments tell.
    Told(Cost),
}

/// Why nobody can tell what a call costs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// Nothing says what the tool does.
    #[error("nothing says whether this tool spends; declare what it does, or `spend: none`")]
    Undeclared,
    /// The tool spends and has no price.
    #[error("this tool may spend, and its definition does not tell how much; declare its `cost`")]
    Untold,
    /// The argument is not what it should be.
    #[error("expected {expected} at `{field}`")]
    Field {
        /// Where.
        field: JsonPointer,
        /// What it should be.
        expected: &'static str,
    },
}

impl Contract {
    /// Returns whether a call may spend anything, as far as is declared. A question to a person
    /// spends nothing. What another server runs may spend, whatever its name or its hints suggest.
    pub const fn may_spend(&self) -> bool {
        match (&self.spending, self.executor, self.ownership) {
            (Spending::Nothing, ..) | (Spending::Undeclared, Executor::Human, _) => false,
            (Spending::Undeclared, _, Ownership::Mcp) => true,
            (Spending::Undeclared, ..) => self.mode.is_none(),
            (Spending::Untold | Spending::Told(_), ..) => true,
        }
    }

    /// Returns what a call with these arguments costs; `None` for nothing.
    ///
    /// # Errors
    ///
    /// When nobody can tell.
    pub fn price(&self, arguments: &Arguments) -> Result<Option<Price>, Unpriced> {
        match &self.spending {
            Spending::Nothing => Ok(None),
            Spending::Undeclared if !self.may_spend() => Ok(None),
            Spending::Undeclared if self.ownership == Ownership::Mcp => Err(Unpriced::Untold),
            Spending::Undeclared => Err(Unpriced::Undeclared),
            Spending::Untold => Err(Unpriced::Untold),
            Spending::Told(cost) => cost.of(arguments).map(Some),
        }
    }
}

impl Cost {
    fn of(&self, arguments: &Arguments) -> Result<Price, Unpriced> {
        let exact = |value: &Value| value.as_number().and_then(Amount::from_number);
        let amount = self.amount.read(arguments, exact, "an exact amount")?;
        if amount < Amount::ZERO {
            let (Told::Field(field), expected) = (&self.amount, "an amount of at least 0") else {
                return Err(Unpriced::Untold);
            };
            return Err(Unpriced::Field { field: field.clone(), expected });
        }
        let name = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let unit = self.unit.read(arguments, name, "the name of a unit")?;
        Ok(Price { amount, unit })
    }
}

impl<T: Clone> Told<T> {
    /// A masked secret says nothing about what runs.
    fn read(
        &self,
        arguments: &Arguments,
        of: impl Fn(&Value) -> Option<T>,
        expected: &'static str,
    ) -> Result<T, Unpriced> {
        match self {
            Self::Always(value) => Ok(value.clone()),
            Self::Field(field) => {
                let found = field.find(arguments.record());
                let told = found.filter(|value| !arguments.is_masked(value)).and_then(of);
                told.ok_or_else(|| Unpriced::Field { field: field.clone(), expected })
            }
        }
    }
}
