//! `/haft/v1/…` over real sockets and a real store.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]

mod audit;
mod channels;
mod doors;
mod grants;
mod house;
mod rosters;
mod rules;
mod scopes;
mod steerable;
mod threads;
mod treatments;
mod vaults;
mod versions;
mod wakes;
