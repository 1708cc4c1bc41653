//! The official conformance suite: against its fixture's tools run as Haft tools, and with the
//! servers of its scenarios mounted by Haft.

use std::process::Command;

use crate::fixture::Server;
use crate::peers;

/// Runs what a revision requires, and returns what the suite printed.
fn suite(revision: &str) -> String {
    let npm = peers::npm();
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let output = Command::new(peers::node(&npm))
        .arg(npm.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--url", &server.url, "--requirements", revision])
        // A loaded machine is slow, and not wrong.
        .args(["--timeout", "120000"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Has the servers of a revision's scenarios mounted, and returns what the suite printed.
fn client_suite(revision: &str) -> String {
    let npm = peers::npm();
    let output = Command::new(peers::node(&npm))
        .arg(npm.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--command", env!("CARGO_BIN_EXE_haft-mcp-conformance-client")])
        .args(["--requirements", revision, "--timeout", "120000"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the scenarios of the summary that passed and failed; those that are not scored are
/// named again below it.
fn scenarios(said: &str) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let summary = said.split("SUMMARY ===").nth(1).expect("the suite sums up");
    let (scored, unscored) = summary.split_once("Not scored").unwrap_or((summary, ""));
    let unscored: Vec<&str> = marked(unscored, '✓').collect();
    let passed = marked(scored, '✓').filter(|name| !unscored.contains(name)).collect();
    (passed, marked(summary, '✗').collect(), unscored)
}

fn marked(text: &str, mark: char) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter_map(move |line| line.trim().strip_prefix(mark));
    lines.filter_map(|line| line.trim().split([':', ' ']).next())
}

// Issue 8: both eras and the Tasks extension, as the suite scores them.
#[test]
fn the_suite_of_2025_11_25_passes_30_of_30() {
    if peers::left_out("the conformance suite") {
        return;
    }
    let said = suite("2025-11-25");
    let (passed, failed, _) = scenarios(&said);
    assert_eq!((passed.len(), failed), (30, vec![]), "{said}");
}

#[test]
fn the_suite_of_2026_07_28_passes_37_of_37_and_tasks_10_of_10() {
    if peers::left_out("the conformance suite") {
        return;
    }
    let said = suite("2026-07-28");
    let (passed, failed, unscored) = scenarios(&said);
    assert_eq!((passed.len(), failed), (37, vec![]), "{said}");
    let tasks = unscored.iter().filter(|name| name.starts_with("tasks-")).count();
    assert_eq!(tasks, 10, "{said}");
}

/// What is never scored and passes all the same; the rest of it are extensions that need keys of
/// another kind (JWT, DPoP) or an identity provider's token.
const CLIENT_EXTRAS: [&str; 2] =
    ["auth/client-credentials-basic", "json-schema-2020-12-preservation"];

/// Returns how many of the scenarios that count passed, and which did not.
fn scored(said: &str) -> (usize, Vec<&str>) {
    let summary = said.split("SUMMARY ===").nth(1).expect("the suite sums up");
    let (scored, unscored) = summary.split_once("Not scored").unwrap_or((summary, ""));
    let unscored_fails: Vec<&str> = marked(unscored, '✗').collect();
    let extras: Vec<&str> = marked(unscored, '✓').collect();
    assert_eq!(extras, CLIENT_EXTRAS, "{said}");
    assert!(!scored.contains(": 0 passed, 0 failed"), "nothing was looked at: {said}");
    let passed = marked(scored, '✓').filter(|name| !extras.contains(name)).count();
    let failed = marked(scored, '✗').filter(|name| !unscored_fails.contains(name)).collect();
    (passed, failed)
}

// Issue 8: Haft as a client, authorization included.
#[test]
fn the_client_suite_of_2025_11_25_passes_18_of_18() {
    if peers::left_out("the conformance suite") {
        return;
    }
    let said = client_suite("2025-11-25");
    assert_eq!(scored(&said), (18, vec![]), "{said}");
}

#[test]
fn the_client_suite_of_2026_07_28_passes_32_of_32() {
    if peers::left_out("the conformance suite") {
        return;
    }
    let said = client_suite("2026-07-28");
    assert_eq!(scored(&said), (32, vec![]), "{said}");
}
