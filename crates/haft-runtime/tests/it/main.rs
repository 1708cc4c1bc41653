//! The driver over a real store: suspension and resolution that survive anything.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]
#![expect(clippy::print_stdout, reason = "the corpora's counts")]

mod crashes;
mod hardening;
mod jobs;
mod node;
mod registry;
mod resolving;
