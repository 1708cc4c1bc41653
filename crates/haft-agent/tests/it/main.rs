//! The models behind sessions, over real HTTP on loopback and on real nodes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed step fails the test")]

mod agents;
mod context;
mod exchange;
mod fake;
mod local_model;
mod pairing;
mod sessions;
mod streams;
mod traces;
#[path = "../../../haft-core/tests/it/world.rs"]
#[expect(dead_code, reason = "the core's world can do more than is needed here")]
mod world;
