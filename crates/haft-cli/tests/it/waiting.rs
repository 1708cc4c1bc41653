//! How long calls wait for someone: `--suspend-ttl` of every command that opens a session.

use std::path::Path;

use serde_json::Value;

use crate::commands::{Ended, haft};
use crate::serving::Serving;

const HOUR_MS: i64 = 3_600_000;

/// Returns for how many hours a call was let wait: from its session's log, so that it does not
/// depend on when somebody looks.
#[track_caller]
fn hours(data: &Path, session: &str) -> i64 {
    let events = haft(data, &["sessions", "events", session, "--json"]).stdout;
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let suspended: Vec<Value> =
        events.filter(|entry| entry["event"]["type"] == "call.suspended").collect();
    let [entry] = suspended.as_slice() else { panic!("expected one wait: {suspended:#?}") };
    let ms = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("no time: {entry:#}"));
    (ms(&entry["event"]["expires_at"]) - ms(&entry["at"]) + HOUR_MS / 2) / HOUR_MS
}

/// Calls a tool that declares that it waits a day, and returns the session.
fn called(data: &Path, more: &[&str]) -> String {
    let call = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#, "--json"];
    let called = haft(data, &[&call, more].concat());
    called.json()["session"].as_str().unwrap().to_owned()
}

/// Has the demo ask its first question, and returns the session.
fn ran(data: &Path, more: &[&str]) -> String {
    let before = sessions(data);
    let Ended { code, stderr, .. } = haft(data, &[&["run", "Show me"], more].concat());
    assert_eq!(code, 3, "{stderr}");
    sessions(data).into_iter().find(|session| !before.contains(session)).unwrap()
}

fn sessions(data: &Path) -> Vec<String> {
    let listed = haft(data, &["sessions", "list", "--json"]);
    if listed.code == 5 {
        return Vec::new();
    }
    let rows = listed.json()["data"].as_array().unwrap().clone();
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn suspend_ttl_of_the_server_and_of_each_command_that_opens_a_session_is_honoured() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    assert_eq!(hours(data, &called(data, &[])), 24, "what the tool declares");
    assert_eq!(hours(data, &called(data, &["--suspend-ttl", "2h"])), 2, "without a server");
    assert_eq!(hours(data, &ran(data, &["--suspend-ttl", "3h"])), 3, "without a server");
    let server = Serving::start_with(data, Some("unknown"), &["--suspend-ttl", "5h"]);
    assert_eq!(hours(data, &called(data, &[])), 5, "the server's, for a direct call");
    assert_eq!(hours(data, &ran(data, &[])), 5, "the server's, for an agent's call");
    assert_eq!(hours(data, &called(data, &["--suspend-ttl", "2h"])), 2, "the command's");
    assert_eq!(hours(data, &ran(data, &["--suspend-ttl", "3h"])), 3, "the command's");
    let session = called(data, &[]);
    let again = ["tools", "call", "shell_run", "--session", &session, "--suspend-ttl", "2h"];
    assert_eq!(haft(data, &again).code, 2, "an open session keeps what it was opened with");
    drop(server);
}

#[test]
fn suspend_ttl_of_haft_toml_holds_for_the_commands_too() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    std::fs::write(data.join("haft.toml"), "suspend_ttl = \"6h\"\n").unwrap();
    assert_eq!(haft(data, &["trust", "--yes"]).code, 0);
    assert_eq!(hours(data, &called(data, &[])), 6);
    let session = called(data, &[]);
    let again = haft(data, &["tools", "call", "shell_run", "--session", &session, "--json"]);
    assert_ne!(again.code, 2, "a setting of the file is no flag: {}", again.stderr);
}
