//! May this call run? Decided once, from named sources, with the reasons kept.
//!
//! `allow < ask < deny`, combined by maximum. Two things lower an `ask` and nothing lowers a
//! `deny`: the autonomous level lowers what the tool's own definition asks, and a grant lowers
//! any ask but that of a tool that always asks. A source that fails is a `deny`. The operator's
//! [`Floor`] is one more source, heard last.

mod amount;
mod derive;
mod exposure;
mod floor;
mod grant;

pub use amount::{Amount, AmountError};
pub use derive::{
    Derivation, Finding, Level, Profile, Question, Report, Source, SourceReport, Verdict,
};
pub use exposure::Exposure;
pub use floor::Floor;
pub use grant::{Budget, Condition, GrantUse, Mismatch, StandingGrant, Test};
