//! Files: reading, finding, changing with a preview, taking back.

use crate::place::{Place, Session};
use haft_core::permission::{Exposure, Level};
use haft_core::session::{Config, Driver};
use haft_runtime::testing::user;
use haft_runtime::{Answer, Response};
use serde_json::json;
use std::os::unix::fs::PermissionsExt as _;

async fn asking(place: &Place) -> Session {
    let node = place.node().node;
    let config = Config { driver: Driver::Caller, level: Level::Standard, ..Config::default() };
    let id = node.session_with(config).await;
    Session::of(node, Some(id))
}

// S2-T49, D12: counts are those of `wc -l`.
#[tokio::test]
async fn s2_t49_d12_read_counts_lines_as_wc_does() {
    let place = Place::new();
    let mut session = place.node();
    for (content, lines) in [("", 0), ("a\nb\nc\n", 3), ("a\nb\nc", 2), ("a\r\nb\r\n", 2)] {
        place.put("n.txt", content);
        let read = session.call("read", json!({ "path": "n.txt" })).await.unwrap();
        assert_eq!(read["output"]["totalLineCount"], lines, "{content:?}");
        assert_eq!(read["output"]["content"], content);
        assert_eq!(read["output"]["truncated"], false);
    }
    let window = json!({ "path": "a.txt", "startLine": 2, "lineCount": 1 });
    let read = session.call("read", window).await.unwrap();
    assert_eq!(read["output"]["content"], "two\n");
    let tail = session.call("read", json!({ "path": "a.txt", "tailLines": 1 })).await.unwrap();
    assert_eq!(tail["text"], "three\n");
    let both = json!({ "path": "a.txt", "tailLines": 1, "lineCount": 1 });
    assert!(session.call("read", both).await.unwrap_err().contains("not both"));
}

// S2-25: a preview says how many lines there are, and how many of them it shows.
#[tokio::test]
async fn s2_25_a_preview_counts_the_lines_that_it_shows() {
    let place = Place::new();
    let mut session = place.node();
    place.put("five.txt", "1\n2\n3\n4\n5\n");
    place.put("open.txt", "1\n2\n3");
    for (arguments, total, selected) in [
        (json!({ "path": "five.txt" }), 5, 5),
        (json!({ "path": "five.txt", "startLine": 2, "lineCount": 3 }), 5, 3),
        (json!({ "path": "five.txt", "startLine": 4, "lineCount": 9 }), 5, 2),
        (json!({ "path": "five.txt", "startLine": 9, "lineCount": 9 }), 5, 0),
        (json!({ "path": "five.txt", "tailLines": 2 }), 5, 2),
        (json!({ "path": "five.txt", "tailLines": 9 }), 5, 5),
        // As `wc -l` counts, a last line without an end is not in the total; it is shown.
        (json!({ "path": "open.txt", "tailLines": 1 }), 2, 1),
    ] {
        let read = session.call("read", arguments.clone()).await.unwrap();
        let output = &read["output"];
        assert_eq!(output["totalLineCount"], total, "{arguments}: {output}");
        assert_eq!(output["selectedLineCount"], selected, "{arguments}: {output}");
    }
    let cut = session.call("read", json!({ "path": "five.txt", "maxChars": 4 })).await.unwrap();
    assert_eq!(cut["output"]["selectedLineCount"], 2, "{cut}");
    assert_eq!(cut["output"]["truncated"], true);
}

// S2-T50, S2-67: written whole, with the directories above, keeping the mode; and taken back.
#[tokio::test]
async fn s2_t50_s2_67_a_write_keeps_the_mode_and_is_taken_back() {
    let place = Place::new();
    let mut session = place.node();
    let file = place.host().join("a.txt");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o750)).unwrap();
    let id = session.id().await;
    let call = session.propose("write", json!({ "path": "a.txt", "content": "new\n" })).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    assert_eq!(place.content("a.txt"), "new\n");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
    let undone = session.node.haft().undo(id, call, user("owner")).await.unwrap();
    assert!(matches!(&undone, Answer::Done(_)), "{undone:?}");
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");

    let made = json!({ "path": "deep/er/new.txt", "content": "x" });
    let call = session.propose("write", made).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    assert_eq!(place.content("deep/er/new.txt"), "x");
    session.node.haft().undo(id, call, user("owner")).await.unwrap();
    assert!(!place.host().join("deep/er/new.txt").exists());
}

// What someone changed since is not overwritten by taking back.
#[tokio::test]
async fn taking_back_refuses_when_the_file_changed_since() {
    let place = Place::new();
    let mut session = place.node();
    let id = session.id().await;
    let call = session.propose("write", json!({ "path": "a.txt", "content": "new\n" })).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    place.put("a.txt", "someone else's\n");
    let undone = session.node.haft().undo(id, call, user("owner")).await.unwrap();
    let Answer::Done(outcome) = undone else { panic!("waits") };
    assert!(crate::place::result(&outcome).unwrap_err().contains("changed"));
    assert_eq!(place.content("a.txt"), "someone else's\n");
}

// D3: a file is put back by undoing the call that changed it, and in no other way.
#[tokio::test]
async fn d3_restoring_is_only_the_undo_of_a_change_of_its_own_session() {
    let place = Place::new();
    let mut session = place.node();
    let id = session.id().await;
    let call = session.propose("write", json!({ "path": "a.txt", "content": "new\n" })).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    let advertised = session.node.haft().registry().advertise(&Exposure::default());
    assert!(advertised.find("file_restore").is_err(), "models are offered it");
    let restore = json!({ "sessionId": id, "callId": call });
    let other = session.node.session().await;
    for from in [id, other] {
        let args = haft_runtime::testing::object(restore.clone());
        let Ok(Answer::Done(outcome)) = session.node.haft().call(from, "file_restore", args).await
        else {
            panic!("waits")
        };
        assert!(crate::place::result(&outcome).unwrap_err().contains("only takes back"));
    }
    assert_eq!(place.content("a.txt"), "new\n");
    session.node.haft().undo(id, call, user("owner")).await.unwrap();
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");
}

// Who may write may have it taken back, although nothing else is exposed.
#[tokio::test]
async fn a_change_is_taken_back_where_only_writing_is_exposed() {
    let place = Place::new();
    let node = place.node().node;
    let exposure =
        Exposure { allow: Some(["write".parse().unwrap()].into()), ..Exposure::default() };
    let config = Config { driver: Driver::Caller, exposure, ..Config::default() };
    let id = node.session_with(config).await;
    let mut session = Session::of(node, Some(id));
    let call = session.propose("write", json!({ "path": "a.txt", "content": "new\n" })).await;
    let Ok(Answer::Done(_)) = session.node.haft().wait(id, call).await else { panic!("waits") };
    let undone = session.node.haft().undo(id, call, user("owner")).await.unwrap();
    let Answer::Done(outcome) = undone else { panic!("waits") };
    crate::place::result(&outcome).unwrap();
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");
}

// S2-T51, D11: literal; a second place is refused with the count; a near match is shown.
#[tokio::test]
async fn s2_t51_d11_an_edit_is_literal_and_refuses_ambiguity() {
    let place = Place::new();
    let mut session = place.node();
    place.put("e.txt", "A x A\r\nB\r\n");
    let edit = |old: &str, new: &str| json!({ "path": "e.txt", "oldText": old, "newText": new });
    let twice = session.call("edit", edit("A", "$&")).await.unwrap_err();
    assert!(twice.contains("2 times"), "{twice}");
    session.call("edit", edit("B", "$&\\1$1\nC")).await.unwrap();
    assert_eq!(place.content("e.txt"), "A x A\r\n$&\\1$1\r\nC\r\n");
    let all = json!({ "path": "e.txt", "oldText": "A", "newText": "Z", "replaceAll": true });
    let edited = session.call("edit", all).await.unwrap();
    assert_eq!(edited["output"]["replacements"], 2);
    let near = session.call("edit", edit("Z  x Z", "y")).await.unwrap_err();
    assert!(near.contains("line 1"), "{near}");
}

// What was shown is what is written: a file that changed meanwhile is shown again.
#[tokio::test]
async fn an_approver_sees_the_diff_and_sees_it_again_when_the_file_changed() {
    let place = Place::new();
    let mut session = asking(&place).await;
    let id = session.id().await;
    let edit = json!({ "path": "a.txt", "oldText": "two", "newText": "2" });
    let call = session.propose("edit", edit).await;
    let shown = session.waits(call).await.preview.unwrap();
    assert!(shown.diff.as_ref().unwrap().contains("-two\n+2\n"), "{shown:?}");
    place.put("a.txt", "one\ntwo\nfour\n");
    let yes = Response::Approve { arguments: None, note: None, grant: None };
    session.node.haft().resolve(id, call, user("approver"), yes).await.unwrap();
    let again = session.waits(call).await;
    assert!(again.preview.unwrap().diff.unwrap().contains("four"));
    assert_eq!(place.content("a.txt"), "one\ntwo\nfour\n");
    session.approve(call).await.unwrap();
    assert_eq!(place.content("a.txt"), "one\n2\nfour\n");
}

// S2-T52, S2-T53: names and lines, ignoring what git does, with numbers.
#[tokio::test]
async fn s2_t52_s2_t53_names_and_lines_are_found() {
    let place = Place::new();
    let mut session = place.node();
    place.put(".gitignore", "skipped.txt\n");
    place.put("skipped.txt", "two\n");
    place.put("sub/b.txt", "TWO two\n");
    let glob = session.call("glob", json!({ "path": ".", "pattern": "*.txt" })).await.unwrap();
    let names: Vec<_> = glob["output"]["entries"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let directories = json!({ "path": "/workspace", "pattern": "*", "kind": "directory" });
    let found = session.call("glob", directories).await.unwrap();
    assert!(found["text"].as_str().unwrap().contains("/workspace/sub"));
    let grep = session.call("grep", json!({ "path": ".", "query": "two" })).await.unwrap();
    assert_eq!(grep["output"]["totalCount"], 2);
    assert!(grep["text"].as_str().unwrap().contains("/workspace/a.txt:2:two"), "{grep}");
    let exact = json!({ "path": ".", "query": "^T.O", "regex": true, "caseSensitive": true });
    let grep = session.call("grep", exact).await.unwrap();
    assert_eq!(grep["output"]["matches"][0]["path"], "/workspace/sub/b.txt");
}

// S2-67, D8: a read-only root is one, and nothing leads out.
#[tokio::test]
async fn s2_67_d8_roots_hold() {
    let place = Place::new();
    let mut session = place.node();
    std::os::unix::fs::symlink(place.outside(), place.host().join("out")).unwrap();
    let write = |path: &str| json!({ "path": path, "content": "x" });
    for path in ["/workspace/agent/x", "../x", "/etc/x", "out/x", "/workspace-evil/secret"] {
        let refused = session.call("write", write(path)).await.unwrap_err();
        assert!(!refused.contains(place.host().to_str().unwrap()), "{refused}");
    }
    assert!(session.call("read", json!({ "path": "out/secret" })).await.is_err());
    place.assert_untouched("roots");
}

// A call that names what its schema does not is refused, and nothing is done.
#[tokio::test]
async fn unknown_arguments_are_refused() {
    let place = Place::new();
    let mut session = place.node();
    let extra = json!({ "path": "a.txt", "content": "x", "force": true });
    assert!(session.call("write", extra).await.is_err());
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");
}
