//! The tools of the wire API's agent toolset, on the same hands.

use crate::place::{CANARY, PATIENCE, Place, Session};
use haft_core::permission::{Exposure, Level};
use haft_core::session::{Config, Driver};
use haft_core::{CallResult, ContentBlock};
use haft_runtime::Answer;
use haft_runtime::testing::{object, user};
use haft_tools::{agent_tool_name, agent_toolset, agent_wire_name, catalogue};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read as _;

/// A session of an agent with the toolset, of which nothing is asked about.
async fn agent(place: &Place) -> Session {
    let node = place.node().node;
    let allow = agent_toolset().into_iter().map(|definition| definition.name).collect();
    let exposure = Exposure { allow: Some(allow), ..Exposure::default() };
    let level = Level::Autonomous;
    let config = Config { driver: Driver::Caller, exposure, level, ..Config::default() };
    let id = node.session_with(config).await;
    Session::of(node, Some(id))
}

/// Calls a tool by its name on the wire; what the model reads of it.
async fn said(session: &mut Session, wire: &str, arguments: Value) -> Result<String, String> {
    let id = session.id().await;
    let tool = agent_tool_name(wire).unwrap();
    let answer = session.node.haft().call(id, tool.as_str(), object(arguments)).await.unwrap();
    let Answer::Done(outcome) = answer else { panic!("{wire} waits") };
    match &outcome.result {
        CallResult::Ok(output) => Ok(output.first_text().unwrap_or_default().to_owned()),
        CallResult::Err(failure) => Err(failure.message.clone()),
    }
}

// The arguments are those of the official SDKs, and the names lead there and back.
#[test]
fn the_toolset_is_the_official_one() {
    let declared = |name: &str| -> BTreeSet<String> {
        let name = agent_tool_name(name).unwrap();
        let all = agent_toolset();
        let found = all.iter().find(|definition| definition.name == name).unwrap();
        let value = found.input_schema.value();
        value["properties"].as_object().unwrap().keys().cloned().collect()
    };
    for (wire, arguments) in [
        ("bash", &["command", "restart", "timeout_ms"][..]),
        ("read", &["file_path", "view_range"]),
        ("write", &["file_path", "content"]),
        ("edit", &["file_path", "old_string", "new_string", "replace_all"]),
        ("glob", &["pattern", "path"]),
        ("grep", &["pattern", "path"]),
    ] {
        let arguments: BTreeSet<_> = arguments.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(declared(wire), arguments, "{wire}");
        assert_eq!(agent_wire_name(&agent_tool_name(wire).unwrap()), Some(wire));
    }
    assert_eq!(agent_tool_name("web_search"), None);
    assert!(catalogue().iter().all(|managed| agent_wire_name(&managed.name).is_none()));
}

// One name, two tools: an agent is offered one set or the other.
#[tokio::test]
async fn the_toolset_is_offered_only_where_it_is_named() {
    let place = Place::new();
    let node = place.node().node;
    let names = |exposure: &Exposure| -> Vec<String> {
        let advertised = node.haft().registry().advertise(exposure);
        advertised.tools().iter().map(|tool| tool.name().to_string()).collect()
    };
    let own: Vec<_> = agent_toolset().into_iter().map(|definition| definition.name).collect();
    let usual = names(&Exposure::default());
    assert!(own.iter().all(|name| !usual.iter().any(|usual| usual == name.as_str())));
    let allow = own.into_iter().collect();
    let toolset = Exposure { allow: Some(allow), ..Exposure::default() };
    assert_eq!(names(&toolset).len(), 6);
}

// D3: the toolset's shell is no way around being asked.
#[tokio::test]
async fn d3_the_toolsets_shell_asks_where_nobody_said_otherwise() {
    let place = Place::new();
    let mut session = place.node();
    let call = session.propose("agent_bash", json!({ "command": "echo x > x.txt" })).await;
    session.waits(call).await;
    assert!(!place.host().join("x.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_toolsets_shell_stays_and_can_write() {
    let place = Place::new();
    let mut session = agent(&place).await;
    let run = |command: &str| json!({ "command": command });
    let made = said(&mut session, "bash", run("cd sub; export A=1; echo hi > made.txt")).await;
    assert_eq!(made, Ok(String::new()));
    assert_eq!(place.content("sub/made.txt"), "hi\n");
    let shown = said(&mut session, "bash", run("echo $A; pwd")).await.unwrap();
    assert_eq!(shown, "1\n/workspace/sub\n");
    let failed = said(&mut session, "bash", run("echo why >&2; false")).await.unwrap_err();
    assert!(failed.contains("why") && failed.contains("exited with 1"), "{failed}");
    let late = json!({ "command": "sleep 1000", "timeout_ms": 300 });
    let late = said(&mut session, "bash", late).await.unwrap_err();
    assert!(late.contains("its time was up"), "{late}");
    assert_eq!(said(&mut session, "bash", run("echo on")).await.unwrap(), "on\n");
    let fresh = said(&mut session, "bash", json!({ "restart": true })).await.unwrap();
    assert_eq!(fresh, "bash session restarted");
    assert!(said(&mut session, "bash", json!({})).await.is_err());
}

// Nothing of the old shell is left, neither its processes nor its state.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_shell_is_a_new_process_with_nothing_of_the_old_one() {
    let place = Place::new();
    let mut session = agent(&place).await;
    let run = |command: &str| json!({ "command": command });
    let set = "cd sub; export A=1; B=2; f() { echo f; }; mkfifo held; \
               { echo up; sleep 100000; } > held &";
    said(&mut session, "bash", run(set)).await.unwrap();
    // What a background process holds open comes to its end when that process does.
    let mut held = std::fs::File::open(place.host().join("sub/held")).unwrap();
    held.read_exact(&mut [0; 3]).unwrap();
    let ended = tokio::task::spawn_blocking(move || held.read_to_end(&mut Vec::new()).unwrap());
    let both = json!({ "restart": true, "command": "pwd" });
    let refused = said(&mut session, "bash", both).await.unwrap_err();
    assert!(refused.contains("runs no command"), "{refused}");
    let look = "echo ${A-no A} ${B-no B}; pwd; type f 2>/dev/null || echo no f";
    let before = said(&mut session, "bash", run(look)).await.unwrap();
    assert!(before.starts_with("1 2\n/workspace/sub\nf is a function"), "{before}");
    assert!(!ended.is_finished(), "a call that was refused ends nothing");
    let fresh = said(&mut session, "bash", json!({ "restart": true })).await.unwrap();
    assert_eq!(fresh, "bash session restarted");
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap();
    let after = said(&mut session, "bash", run(look)).await.unwrap();
    assert_eq!(after, "no A no B\n/workspace\nno f\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_toolsets_file_tools_work_on_the_same_workspace() {
    let place = Place::new();
    let mut session = agent(&place).await;
    let wrote = json!({ "file_path": "new/b.txt", "content": "x\ny\n" });
    let wrote = said(&mut session, "write", wrote).await.unwrap();
    assert_eq!(wrote, "wrote 4 bytes to new/b.txt");
    let edit = json!({ "file_path": "new/b.txt", "old_string": "y", "new_string": "z" });
    let edited = said(&mut session, "edit", edit.clone()).await.unwrap();
    assert_eq!(edited, "edited new/b.txt (1 replacement(s))");
    assert!(said(&mut session, "edit", edit).await.is_err(), "it is no longer there");
    let read = |range: Value| json!({ "file_path": "a.txt", "view_range": range });
    for (range, lines) in [([2, 3], "two\nthree\n"), ([2, 0], "two\nthree\n"), ([1, 1], "one\n")] {
        let shown = said(&mut session, "read", read(json!(range))).await.unwrap();
        assert_eq!(shown, lines, "{range:?}");
    }
    assert!(said(&mut session, "read", read(json!([3, 2]))).await.is_err());
    let newest = said(&mut session, "glob", json!({ "pattern": "**/*.txt" })).await.unwrap();
    assert_eq!(newest, "/workspace/new/b.txt\n/workspace/a.txt");
    let top = said(&mut session, "glob", json!({ "pattern": "*.txt" })).await.unwrap();
    assert_eq!(top, "/workspace/a.txt");
    let lines = said(&mut session, "grep", json!({ "pattern": "^t" })).await.unwrap();
    assert_eq!(lines, "/workspace/a.txt:2:two\n/workspace/a.txt:3:three\n");
    let none = said(&mut session, "grep", json!({ "pattern": "T" })).await.unwrap();
    assert_eq!(none, "no matches");
    for path in ["../outside/secret", "/etc/passwd", "/workspace/agent/../../outside/secret"] {
        let refused = said(&mut session, "read", json!({ "file_path": path })).await.unwrap_err();
        assert!(!refused.contains(CANARY), "{path}");
    }
    place.assert_untouched("toolset");
}

// An image is an artifact in the result, for whoever shows it to the model.
#[tokio::test]
async fn the_toolset_reads_images_whole() {
    let place = Place::new();
    let mut session = agent(&place).await;
    let bytes = [0x89, b'P', b'N', b'G', 0, 1, 2, 255];
    std::fs::write(place.host().join("p.png"), bytes).unwrap();
    let id = session.id().await;
    let read = object(json!({ "file_path": "p.png" }));
    let Ok(Answer::Done(outcome)) = session.node.haft().call(id, "agent_read", read).await else {
        panic!("waits")
    };
    let CallResult::Ok(output) = &outcome.result else { panic!("{outcome:?}") };
    let [ContentBlock::Artifact { artifact }] = &output.content[..] else { panic!("{output:?}") };
    assert_eq!(artifact.media_type, "image/png");
    let kept = session.node.haft().artifacts().read(id, artifact.id).await.unwrap();
    assert_eq!(kept.body, bytes);
}

// A change by the toolset is taken back like any other.
#[tokio::test]
async fn a_change_by_the_toolset_is_taken_back() {
    let place = Place::new();
    let mut session = agent(&place).await;
    let id = session.id().await;
    let write = json!({ "file_path": "a.txt", "content": "new" });
    let call = session.propose("agent_write", write).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    session.node.haft().undo(id, call, user("owner")).await.unwrap();
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");
}
