//! Calls that were running when their server was killed, settled by a person with `haft settle`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::commands::haft;
use crate::serving::{PATIENCE, Serving};

fn made(data: &Path, name: &str) -> usize {
    let workspaces = std::fs::read_dir(data.join("workspaces")).into_iter().flatten();
    workspaces.filter(|found| found.as_ref().unwrap().path().join(name).exists()).count()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "not yet: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has a command under way, and returns its call.
fn running(data: &Path, n_running: usize) -> String {
    let command = "test -e started && touch again || { touch started; sleep 100; }";
    let arguments = json!({ "command": command }).to_string();
    let called = haft(data, &["tools", "call", "shell_run", "--args", &arguments, "--json"]).json();
    let call = called["call"].as_str().unwrap().to_owned();
    let approved = haft(data, &["approve", &call, "--no-wait"]);
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    until("it runs", || made(data, "started") == n_running);
    call
}

#[test]
fn a_call_in_doubt_is_settled_as_a_person_says() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let server = Serving::start(data, None);
    let [happened, again, left] = [1, 2, 3].map(|n| running(data, n));
    let key = server.key.clone();
    drop(server);
    let _server = Serving::start(data, Some(&key));
    let waits = || haft(data, &["pending", "--json"]).json()["data"].as_array().unwrap().clone();
    until("all are in doubt", || waits().len() == 3);
    assert!(waits().iter().all(|wait| wait["kind"] == "settlement"), "{:#?}", waits());
    let shown = haft(data, &["pending", &happened]).stdout;
    assert!(shown.contains("why: its process died while it ran"), "{shown}");
    assert!(shown.contains("haft settle"), "{shown}");
    let approved = haft(data, &["approve", &happened]);
    assert_eq!(approved.code, 4, "it was approved before it ran: {}", approved.stderr);
    assert!(approved.stderr.starts_with("error[stale]: "), "{}", approved.stderr);
    let odd = haft(data, &["settle", &left, "give-up", "--value", "1"]);
    assert!(odd.stderr.starts_with("error[bad_arguments]: "), "{}", odd.stderr);

    let settle = |call: &str, verdict: &str| {
        let settled = haft(data, &["settle", call, verdict, "--json"]);
        assert_eq!(settled.code, 0, "{}", settled.stderr);
        settled.json()
    };
    let settled: Value = settle(&happened, "happened");
    assert_eq!(settled["decision"], "happened");
    assert!(settled["outcome"]["result"]["ok"].is_object(), "{settled}");
    let settled = settle(&left, "give-up");
    assert_eq!(settled["decision"], "give_up");
    assert!(settled["outcome"]["result"]["err"].is_object(), "{settled}");
    assert_eq!(made(data, "again"), 0, "nothing runs that nobody said should");
    let settled = settle(&again, "run-again");
    assert_eq!(settled["decision"], "run_again");
    assert_eq!(made(data, "again"), 1);
    let late = haft(data, &["settle", &happened, "run-again"]);
    assert!(late.stderr.contains("shell_run was settled: it happened"), "{}", late.stderr);
    assert_eq!(late.code, 4);
}
