//! The client against servers that behave as servers do.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]

mod connections;
mod egress;
