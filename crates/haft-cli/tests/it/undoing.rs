//! Calls that are taken back with `haft undo`, and one word for what a session is doing.

use std::path::Path;

use crate::commands::{Ended, haft};
use crate::serving::Serving;

fn write(data: &Path) -> (String, String) {
    let arguments = r#"{"path": "note.md", "content": "made"}"#;
    let written = haft(data, &["tools", "call", "write", "--args", arguments, "--json"]);
    let answer = written.json();
    let text = |member: &str| answer[member].as_str().unwrap().to_owned();
    assert_eq!(answer["state"], "done", "{answer}");
    (text("session"), text("call"))
}

fn is_there(data: &Path, session: &str) -> bool {
    data.join("workspaces").join(session).join("note.md").exists()
}

#[track_caller]
fn assert_refused(ended: &Ended, code: &str) {
    assert!(ended.stderr.starts_with(&format!("error[{code}]: ")), "{}", ended.stderr);
    assert!(ended.stderr.contains("\n  next: "), "{}", ended.stderr);
    assert_eq!(ended.code, 1);
}

#[test]
fn a_call_is_taken_back_once_from_the_terminal() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let (session, call) = write(data);
    assert!(is_there(data, &session));
    let undone = haft(data, &["undo", &call[..call.len() - 1], "--json"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    let undone = undone.json();
    assert_eq!((&undone["state"], &undone["call"]), (&"done".into(), &call.as_str().into()));
    assert!(!is_there(data, &session));
    // Asking again tells what became of it, and does nothing.
    let again = haft(data, &["undo", &call, "--session", &session]);
    assert_eq!((again.code, again.stdout), (0, format!("✓ {call} is taken back\n")));
    let by = |undone: &serde_json::Value| undone["by"]["call"].as_str().unwrap().to_owned();
    let same = haft(data, &["undo", &call, "--json"]).json();
    assert_eq!(by(&same), by(&undone));
}

#[test]
fn what_cannot_be_taken_back_says_why_and_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    let looked = haft(data, &["tools", "call", "sandbox_describe", "--json"]).json();
    assert_refused(&haft(data, &["undo", looked["call"].as_str().unwrap()]), "no_undo");
    let shell = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#, "--json"];
    let waits = haft(data, &shell).json();
    assert_refused(&haft(data, &["undo", waits["call"].as_str().unwrap()]), "nothing_done");
    assert_refused(&haft(data, &["undo", "call_0000"]), "no_call");
    // A change of a file can be taken back for a day; what was, is so after that day too.
    let ((session, call), (_, earlier)) = (write(data), write(data));
    assert_eq!(haft(data, &["undo", &earlier]).code, 0);
    let _later = Serving::start_with(data, Some("unknown"), &["--clock-ahead", "2d"]);
    assert_refused(&haft(data, &["undo", &call]), "undo_over");
    assert!(is_there(data, &session));
    let again = haft(data, &["undo", &earlier]);
    assert_eq!(again.stdout, format!("✓ {earlier} is taken back\n"), "{}", again.stderr);
}

#[test]
fn a_session_is_in_the_same_state_wherever_it_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let (session, _) = write(data.path());
    let listed = haft(data.path(), &["sessions", "list", "--json"]).json();
    let row = listed["data"].as_array().unwrap().iter().find(|row| row["id"] == *session);
    let shown = haft(data.path(), &["sessions", "show", &session, "--json"]).json();
    assert_eq!(shown["status"], row.unwrap()["status"], "{listed} {shown}");
}
