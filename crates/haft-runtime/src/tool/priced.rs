//! What `#[tool(cost(..))]` writes.

use haft_core::JsonPointer;
use haft_core::tool::{Cost, Told};

use super::written::declared;

/// One half of a price, as the attribute says it.
#[derive(Debug)]
pub enum CostPart {
    /// The same for every call.
    Always(&'static str),
    /// What this argument says.
    Field(JsonPointer),
}

impl CostPart {
    fn told<T: std::str::FromStr<Err: std::fmt::Display>>(self) -> Told<T> {
        match self {
            Self::Always(text) => Told::Always(declared(text, "cost", text.parse())),
            Self::Field(place) => Told::Field(place),
        }
    }
}

/// Puts a price together.
///
/// # Panics
///
/// When what the macro wrote is refused: its own checks rule that out.
pub fn cost(amount: CostPart, unit: CostPart) -> Cost {
    Cost { amount: amount.told(), unit: unit.told() }
}

/// A type whose values are exact amounts.
#[diagnostic::on_unimplemented(
    message = "an amount is a number, and `{Self}` is none",
    label = "expected an integer or a float"
)]
pub trait Counted {}

macro_rules! counted {
    ($($number:ty),*) => { $(impl Counted for $number {})* };
}

counted!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);

/// Has rustc check that an argument is an amount.
pub const fn counted<T: Counted>() {}
