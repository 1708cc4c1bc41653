//! Haft behind real MCP peers: the official conformance suite, official SDKs, and clients by hand.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]
#![expect(clippy::disallowed_methods, reason = "peers are processes of their own")]
#![expect(clippy::print_stdout, reason = "what is left out is said")]
#![expect(clippy::needless_pass_by_value, reason = "`json!` is written where it is used")]

mod authorized;
mod brought;
mod conformance;
mod direct;
mod doors;
mod fixture;
mod gated;
mod guarded;
mod killed;
#[path = "../../conformance/listen.rs"]
mod listen;
mod mounts;
mod named;
mod over_http;
mod peers;
mod plain;
mod queued;
mod wire;
