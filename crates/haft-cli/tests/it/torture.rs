//! The crash harness in its short form: a real process, really killed, on both stores.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "runs and shows the binary")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::cluster::{self, Cluster};

pub(crate) fn haft(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_haft")).args(args).output().unwrap()
}

/// Tortures and returns what was found, having checked that it holds.
#[track_caller]
fn torture(args: &[&str]) -> Value {
    let output = haft(&[&["torture", "--json"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["findings"]["violations"], Value::Array(vec![]));
    println!("{text}");
    report
}

fn number(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).expect("a number")
}

// D4, S4-25, S4-26: no acknowledged approval lost, no unsafe effect repeated, one outcome each,
// every interrupted call accounted for.
#[test]
fn d4_fifty_kills_on_sqlite_lose_nothing_and_repeat_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let report = torture(&["--kills", "50", "--data", data]);
    let kills = number(&report, "/kills_at_boundaries") + number(&report, "/kills_at_random");
    assert!(kills >= 50);
    assert!(number(&report, "/findings/calls_reported_in_doubt") > 0, "some died inside a tool");
    for fault in ["calls_out_of_time", "calls_stopped", "connections_lost"] {
        assert!(number(&report, &format!("/findings/{fault}")) > 0, "no {fault}: {report}");
    }
    audit_finds_it_whole(&directory.path().join("store"));
}

fn audit_finds_it_whole(store: &Path) {
    let output = haft(&["audit", "verify", "--data", store.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stderr).contains("sessions verified"));
}

#[test]
fn d4_fifty_kills_on_postgresql_lose_nothing_and_repeat_nothing() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    torture(&["--kills", "50", "--database-url", &cluster.url()]);
}

// D6, D13: several nodes, killed and frozen past their leases: fenced, nothing run twice.
#[test]
fn d13_nodes_that_are_killed_or_frozen_are_taken_over_and_fenced() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let url = cluster.url();
    let args = ["--nodes", "3", "--kills", "20", "--database-url", &url];
    let report = torture(&args);
    assert!(number(&report, "/freezes") >= 2);
    assert!(
        number(&report, "/kills_at_boundaries") > 0,
        "some die at a boundary beside the others"
    );
}

#[test]
fn several_nodes_without_a_shared_database_are_refused() {
    let output = haft(&["torture", "--nodes", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--database-url"));
}

#[test]
fn a_store_that_is_none_is_said_to_be_none() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("haft.db"), "this is no database at all, not at all")
        .unwrap();
    let output = haft(&["audit", "verify", "--data", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("error[bad_store]: the store in"), "{told}");
}
