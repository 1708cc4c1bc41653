//! `/haft/v1/…` over real sockets and a real store.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]

mod audit;
mod channels;
#[path = "../../../haft-store/tests/it/cluster.rs"]
#[expect(dead_code, reason = "shared with other crates' tests, which use more of it")]
mod cluster;
mod crawler;
mod deleted;
mod doors;
mod doubt;
mod environments;
mod gate;
mod grants;
mod house;
mod inbox;
mod late;
mod levels;
mod memories;
mod mutated;
#[expect(clippy::disallowed_methods, reason = "the mounted server is a process of its own")]
#[path = "../../../haft-mcp/tests/it/named.rs"]
mod named;
mod once;
mod refreshed;
mod rosters;
mod rules;
mod scopes;
mod steerable;
mod supervised;
mod threads;
#[expect(clippy::disallowed_methods, reason = "the token endpoint is a process of its own")]
mod token_endpoint;
mod treatments;
mod vaults;
mod versions;
mod wakes;
mod workers;
