//! May this call run? Decided once, from named sources, with the reasons kept.
//!
//! `allow < ask < deny`, combined by maximum. Nothing lowers a `deny`. What the tool's own
//! definition asks is lowered by the autonomous level and by an agent whose policy allows the tool;
//! a grant lowers any ask. None of them lowers the ask of a tool that always asks. A source that
//! fails is a `deny`. The operator's [`Floor`] is one more source, heard last.

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
