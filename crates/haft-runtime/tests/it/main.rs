//! The driver over a real store: suspension and resolution that survive anything.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]
#![expect(clippy::print_stdout, reason = "the corpora's counts")]

#[path = "../../../haft-store/tests/it/cluster.rs"]
#[expect(dead_code, reason = "shared with the store's tests, which use more of it")]
mod cluster;
#[path = "../../../haft-core/tests/corpora/reading.rs"]
mod corpora;
mod crashes;
mod draining;
mod drift;
mod ending;
mod hardening;
mod jobs;
mod leases;
mod moments;
mod node;
mod outages;
mod proxy;
mod registry;
mod resolving;
mod settling;
mod standing;
mod storms;
mod tools;
