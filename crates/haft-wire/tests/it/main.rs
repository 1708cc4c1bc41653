//! The dialects, by what real tools and hostile readers wrote.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]

#[path = "../../../haft-core/tests/corpora/reading.rs"]
mod corpora;
mod corpus;
mod hardening;
