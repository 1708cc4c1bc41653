//! `#[tool]` and `#[tools]` as whoever adds the crate sees them.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]

mod calls;
mod definitions;
mod idempotent;
mod methods;
mod misuse;
mod running;
mod shapes;
mod spending;
