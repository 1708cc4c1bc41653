//! The binary as people and scripts use it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]

mod agent;
mod authority;
mod bench;
mod breakage;
#[path = "../../../haft-store/tests/it/cluster.rs"]
#[expect(dead_code, reason = "shared with the store's tests, which use more of it")]
mod cluster;
mod commands;
mod confined;
mod doctor;
mod duel;
mod egress;
mod fault_table;
mod faults;
mod git_attacks;
mod golden;
#[expect(clippy::disallowed_methods, reason = "the mounted server is a process of its own")]
#[path = "../../../haft-mcp/tests/it/guarded.rs"]
mod guarded;
mod hostile;
mod https;
mod keeping;
mod mcp;
mod mounted;
mod once;
mod outlived;
mod own_state;
mod policies;
mod pty;
mod readiness;
mod reading;
mod serve;
mod served_tools;
mod serving;
mod settling;
mod stopping;
mod story;
mod streams;
mod terminal;
mod torture;
mod trusting;
mod undoing;
mod waiting;
mod webhooks;
