//! The official conformance suite, against its fixture's tools run as Haft tools.

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

/// Returns the scenarios of the summary that passed and failed; those that are not scored are
/// named again below it.
fn scenarios(said: &str) -> (Vec<&str>, Vec<&str>, Vec<&str>) {
    let summary = said.split("=== SUMMARY ===").nth(1).expect("the suite sums up");
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
