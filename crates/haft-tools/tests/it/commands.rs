//! Commands of which nothing stays, and the sandbox's actions.

use crate::place::{CANARY, Place, Sleeper};
use haft_core::permission::{Exposure, Level};
use haft_core::session::{Config, Driver};
use haft_runtime::testing::{object, user};
use haft_runtime::{Answer, CallError};
use serde_json::{Value, json};

// S2-T54, S2-68: one known program with known arguments, without a shell, nothing writable.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t54_s2_68_bash_runs_what_only_looks() {
    let place = Place::new();
    let mut session = place.node();
    let head = json!({ "command": "head", "args": ["-n", "2", "a.txt"] });
    let looked = session.call("bash", head).await.unwrap();
    assert_eq!(looked["output"]["stdout"], "one\ntwo\n");
    assert_eq!(looked["output"]["exitCode"], 0);
    let outside = place.outside().join("secret");
    let flag = format!("--files0-from={}", outside.display());
    for (command, args) in [
        ("touch", vec!["x"]),
        ("wc", vec![flag.as_str()]),
        ("cat", vec!["/etc/passwd"]),
        ("/bin/sh", vec!["-c", "id"]),
    ] {
        let refused = session.call("bash", json!({ "command": command, "args": args })).await;
        let refused = refused.unwrap_err();
        assert!(!refused.contains(CANARY) && !refused.contains("root:x"), "{refused}");
    }
    let told = session.call("bash", json!({ "command": "touch" })).await.unwrap_err();
    assert!(told.contains("shell_run"), "{told}");
    place.assert_untouched("bash");
}

// S2-T46, S2-76: asked about, then run once with a directory of its own.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t46_s2_76_shell_run_asks_and_writes() {
    let place = Place::new();
    let mut session = place.node();
    let run = json!({ "command": "echo hi | tr a-z A-Z > made.txt; pwd", "cwd": "sub" });
    let ran = session.agreed("shell_run", run).await.unwrap();
    assert_eq!(ran["output"]["stdout"], "/workspace/sub\n");
    assert_eq!(place.content("sub/made.txt"), "HI\n");
}

// D9: the time limit ends the whole tree: children, their children, and those that left it.
#[tokio::test(flavor = "multi_thread")]
async fn d9_a_timeout_ends_everything_that_was_started() {
    let place = Place::new();
    let mut session = place.node();
    let sleeper = Sleeper::new();
    let sleep = sleeper.command();
    let tree = format!(
        "trap '' TERM; {sleep} & setsid {sleep} & (setsid bash -c '{sleep} & wait' &); \
         touch started; {sleep}"
    );
    let mut limit = 2000;
    // Where the machine is too busy to start it within the limit, a longer one is tried.
    while !place.host().join("started").exists() {
        let run = json!({ "command": tree, "timeoutMs": limit });
        let ran = session.agreed("shell_run", run).await.unwrap();
        assert_eq!(ran["output"]["timedOut"], true);
        assert_eq!(sleeper.alive(), 0, "what it started lives on");
        limit *= 2;
    }
}

// D10: more output than any cap: the command completes, the ends are shown, the whole is kept.
#[tokio::test(flavor = "multi_thread")]
async fn d10_output_above_every_cap_is_kept_whole() {
    let place = Place::new();
    let mut session = place.node();
    let run = json!({ "command": "seq 1 200000; echo done >&2", "maxOutputChars": 1000 });
    let ran = session.agreed("shell_run", run).await.unwrap();
    assert_eq!(ran["output"]["exitCode"], 0);
    let shown = ran["output"]["stdout"].as_str().unwrap();
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("200000\n") && shown.len() < 1200);
    let artifact = ran["artifacts"][0]["id"].as_str().unwrap().parse().unwrap();
    let id = session.id().await;
    let kept = session.node.haft().artifacts().read(id, artifact).await.unwrap();
    let text = String::from_utf8(kept.body).unwrap();
    assert!(text.contains("\n100000\n") && text.lines().count() == 200_001, "{}", text.len());
}

// D9: a call that is stopped ends the command with all it started.
#[tokio::test(flavor = "multi_thread")]
async fn d9_a_stopped_call_ends_its_command_and_all_it_started() {
    let place = Place::new();
    let mut session = place.node();
    let id = session.id().await;
    let sleeper = Sleeper::new();
    let sleep = sleeper.command();
    let run = json!({ "command": format!("setsid {sleep} & {sleep}"), "timeoutMs": 60000 });
    let call = session.propose("shell_run", run).await;
    session.waits(call).await;
    let haft = session.node.haft().clone();
    let yes = haft_runtime::Response::Approve { arguments: None, note: None, grant: None };
    haft.resolve(id, call, user("approver"), yes).await.unwrap();
    sleeper.until(2).await;
    haft.cancel(id, call, user("owner"), None).await.unwrap();
    let answer = haft.wait(id, call).await.unwrap();
    assert!(matches!(answer, Answer::InDoubt(_)), "what it had done by then: {answer:?}");
    sleeper.until(0).await;
}

// S2-T55, S2-79: what is mounted, and what really holds.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t55_s2_79_the_sandbox_describes_itself() {
    let place = Place::new();
    let mut session = place.node();
    let said = session.call("sandbox_describe", json!({})).await.unwrap();
    assert_eq!(said["resources"][1]["access"], "read_only");
    let vault = &said["resources"][2];
    assert_eq!(
        (&vault["vaultName"], &vault["references"][0]),
        (&json!("deploy"), &json!("vault://deploy/token"))
    );
    assert!(!said.to_string().contains(crate::place::VAULTED));
    assert_eq!(said["actions"].as_array().unwrap().len(), 18);
    assert!(said["layers"].as_array().unwrap().len() >= 8, "{said}");
    let run_shell = said["actions"].as_array().unwrap().iter().find(|a| a["name"] == "run_shell");
    assert_eq!(run_shell.unwrap()["asks"], true);
}

// S2-T56, S2-80, D3: an action is permitted, recorded and run as the tool that it is.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t56_s2_80_d3_an_action_asks_where_its_tool_asks() {
    let place = Place::new();
    let mut session = place.node();
    let act = |name: &str, input| json!({ "name": name, "input": input });
    for name in ["run_shell", "exec_persistent_shell"] {
        let run = act(name, json!({ "command": "echo x > by_action.txt" }));
        let call = session.propose("sandbox_execute", run).await;
        let waiting = session.waits(call).await;
        assert!(["shell_run", "shell_exec"].contains(&waiting.tool.as_str()));
        assert!(!place.host().join("by_action.txt").exists(), "{name} ran unasked");
        session.approve(call).await.unwrap();
        assert_eq!(place.content("by_action.txt"), "x\n");
        std::fs::remove_file(place.host().join("by_action.txt")).unwrap();
    }
    for (name, input) in [
        ("inspect", json!({})),
        ("list_dir", json!({ "path": "." })),
        ("read_text", json!({ "path": "a.txt" })),
        ("write_text", json!({ "path": "w.txt", "content": "a" })),
        ("append_text", json!({ "path": "w.txt", "content": "b" })),
        ("replace_text", json!({ "path": "w.txt", "oldText": "ab", "newText": "c" })),
        ("mkdir", json!({ "path": "x/y" })),
        ("stat", json!({ "path": "x/y" })),
        ("find_entries", json!({ "path": "." })),
        ("glob_entries", json!({ "path": ".", "pattern": "*.txt" })),
        ("grep_text", json!({ "path": ".", "query": "two" })),
        ("run_command", json!({ "command": "ls" })),
        ("inspect_persistent_shell", json!({})),
        ("open_persistent_shell", json!({})),
        ("wait_persistent_shell", json!({})),
        ("close_persistent_shell", json!({})),
    ] {
        let done = session.call("sandbox_execute", act(name, input)).await;
        assert!(done.is_ok(), "{name}: {done:?}");
    }
    assert_eq!(place.content("w.txt"), "c");
}

/// Every action of the sandbox, with the tool that it is and arguments with which it works.
fn actions() -> [(&'static str, &'static str, Value); 18] {
    let run = json!({ "command": "echo x > ran.txt" });
    [
        ("inspect", "sandbox_describe", json!({})),
        ("list_dir", "glob", json!({ "path": "." })),
        ("read_text", "read", json!({ "path": "a.txt" })),
        ("write_text", "write", json!({ "path": "w.txt", "content": "a" })),
        ("append_text", "write", json!({ "path": "w.txt", "content": "b", "mode": "replace" })),
        ("replace_text", "edit", json!({ "path": "a.txt", "oldText": "two", "newText": "2" })),
        ("mkdir", "write", json!({ "path": "made/deep" })),
        ("stat", "read", json!({ "path": "sub" })),
        ("find_entries", "glob", json!({ "path": "." })),
        ("glob_entries", "glob", json!({ "path": ".", "pattern": "*.txt" })),
        ("grep_text", "grep", json!({ "path": ".", "query": "two" })),
        ("run_command", "bash", json!({ "command": "ls" })),
        ("run_shell", "shell_run", run.clone()),
        ("inspect_persistent_shell", "shell_describe", json!({})),
        ("open_persistent_shell", "shell_open", json!({})),
        ("exec_persistent_shell", "shell_exec", run),
        ("wait_persistent_shell", "shell_wait", json!({})),
        ("close_persistent_shell", "shell_close", json!({})),
    ]
}

// D3: what a session may not use, it may not use by another name either.
#[tokio::test(flavor = "multi_thread")]
async fn d3_no_action_is_open_to_a_session_whose_tool_is_closed() {
    let place = Place::new();
    let node = place.node().node;
    let before = crate::attacks::tree(&place.host());
    for (name, tool, input) in actions() {
        let deny = [tool.parse().unwrap()].into();
        let exposure = Exposure { deny, ..Exposure::default() };
        let config = Config { driver: Driver::Caller, exposure, ..Config::default() };
        let id = node.session_with(config).await;
        let call = json!({ "name": name, "input": input });
        match node.haft().call(id, "sandbox_execute", object(call)).await {
            Err(CallError::Rejected(_)) => {}
            other => panic!("{name} is open although `{tool}` is closed: {other:?}"),
        }
    }
    assert_eq!(crate::attacks::tree(&place.host()), before);
}

// D3, S2-80: every action waits exactly where its tool waits, and is shown as that tool.
#[tokio::test(flavor = "multi_thread")]
async fn d3_s2_80_every_action_is_asked_about_as_its_tool_is() {
    let place = Place::new();
    let node = place.node().node;
    let before = crate::attacks::tree(&place.host());
    let config = Config { driver: Driver::Caller, level: Level::Paranoid, ..Config::default() };
    let id = node.session_with(config).await;
    for (name, tool, input) in actions() {
        let call = object(json!({ "name": name, "input": input }));
        match node.haft().call(id, "sandbox_execute", call).await {
            Ok(Answer::Waiting(waiting)) => assert_eq!(waiting.tool.as_str(), tool, "{name}"),
            other => panic!("{name} ran unasked: {other:?}"),
        }
    }
    assert_eq!(crate::attacks::tree(&place.host()), before);
}

// An action keeps its meaning whatever it is given: appending cannot be told to replace.
#[tokio::test]
async fn an_action_cannot_be_given_another_meaning() {
    let place = Place::new();
    let mut session = place.node();
    place.put("w.txt", "a");
    let act = |name: &str, input| json!({ "name": name, "input": input });
    let append = json!({ "path": "w.txt", "content": "b", "mode": "replace" });
    session.call("sandbox_execute", act("append_text", append)).await.unwrap();
    assert_eq!(place.content("w.txt"), "ab");
    let stat = json!({ "path": "w.txt", "metadataOnly": false });
    let stat = session.call("sandbox_execute", act("stat", stat)).await.unwrap();
    assert_eq!((&stat["name"], &stat["output"]["size"]), (&json!("stat"), &json!(2)));
    let shallow = json!({ "path": "no/where", "recursive": false });
    assert!(session.call("sandbox_execute", act("mkdir", shallow)).await.is_err());
    let made = json!({ "path": "no/where" });
    session.call("sandbox_execute", act("mkdir", made)).await.unwrap();
    assert!(place.host().join("no/where").is_dir());
}
