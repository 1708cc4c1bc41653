//! The stores, each case written once and run on both: SQLite in a directory of its own, and a
//! real PostgreSQL in a schema of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption fails the test")]

mod audits;
mod authority;
mod backing;
mod clients;
mod cluster;
mod content;
mod driver;
mod encrypted;
mod erased;
mod erasing;
mod examine;
mod hardening;
mod journal;
mod lists;
mod losses;
mod notices;
mod outage;
mod ownership;
mod pooler;
mod poolers;
mod power_loss;
mod races;
mod readiness;
mod requests;
mod sqlite_files;
mod upgrade;
mod watching;
mod work;
