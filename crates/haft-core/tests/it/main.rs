//! The session machine, driven through its public surface in a world with virtual time.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]

#[path = "../corpora/reading.rs"]
#[expect(clippy::disallowed_methods, reason = "reads the corpora; the ban is for the crate itself")]
mod corpora;
mod corpus;
mod coverage;
mod doubt;
mod effect_unknown;
mod goals;
mod golden;
mod grants;
mod hardening;
mod journal;
mod legible;
mod lifecycle;
mod liveness;
mod looping;
mod properties;
mod queueing;
mod reports;
mod restored;
mod spending;
mod stopping;
mod suspension;
mod world;
