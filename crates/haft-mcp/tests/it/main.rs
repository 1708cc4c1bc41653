//! Haft behind real MCP peers: the official conformance suite, official SDKs, and clients by hand.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]

mod conformance;
mod fixture;
mod killed;
mod peers;
mod wire;
