//! Whether a value fits a schema.
//!
//! A schema is compiled once, when its tool is registered. What could make checking slow or reach
//! out is refused then: references that leave the document, patterns that need backtracking,
//! documents that unfold into too much work. So a check needs no clock of its own.

mod compile;
mod cost;
mod expectation;
mod misfit;
mod pattern;
mod reference;
mod validator;

pub use compile::CompileError;
pub use misfit::{Misfit, Violation};
pub use reference::{Reference, find_references};
pub use validator::Validator;
