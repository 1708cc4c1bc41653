//! The managed tools through a whole node, in the real sandbox.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a broken assumption fails the test; the corpus's counts are shown"
)]

mod advised;
mod agency;
mod agent_toolset;
mod attacks;
mod catalogue;
mod commands;
mod delegation;
mod files;
mod grounds;
mod kinship;
mod memories;
mod outcomes;
mod outlived;
mod place;
mod preflight;
mod recalling;
mod sharing;
mod shells;
mod threads;
mod told;
