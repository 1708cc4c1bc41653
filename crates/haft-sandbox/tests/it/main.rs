//! The sandbox through its public surface, on the real kernel.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken assumption fails the test")]

mod classify;
mod corpus;
mod edit;
mod files;
mod fuzz;
mod gateway;
mod hostile;
mod memory;
mod missing;
mod place;
mod process;
mod race;
mod search;
mod shell;
mod system_calls;
