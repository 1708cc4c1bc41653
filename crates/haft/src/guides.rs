//! The Rust in the guides, compiled and run as documentation tests.
//!
//! `cargo xtask tidy` finds a document with Rust in it that is not named here.

#[doc = include_str!("../docs/guides/your-first-tool.md")]
mod your_first_tool {}

#[doc = include_str!("../docs/guides/approvals-and-grants.md")]
mod approvals_and_grants {}

#[doc = include_str!("../docs/guides/waiting-for-days.md")]
mod waiting_for_days {}

#[doc = include_str!("../docs/guides/writing-a-policy.md")]
mod writing_a_policy {}

#[doc = include_str!("../docs/guides/testing-your-tools.md")]
mod testing_your_tools {}
