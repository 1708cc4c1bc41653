//! The shell that stays, and what outlives it.

use crate::place::{Place, Session};
use haft_core::{Millis, SessionId};
use haft_tools::Classifier;
use serde_json::{Value, json};

async fn exec(session: &mut Session, command: &str) -> Value {
    session.agreed("shell_exec", json!({ "command": command })).await.unwrap()
}

// S2-T44, S2-T47, S2-T48, S2-75, S2-77: directory, exports and functions survive until it is closed.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t44_s2_t47_s2_t48_s2_75_s2_77_a_shell_stays() {
    let place = Place::new();
    let mut session = place.node();
    let opened = session.call("shell_open", json!({})).await.unwrap();
    assert_eq!(opened["persistentShell"]["status"], "active");
    exec(&mut session, "cd sub; export GREETING=hello; greet() { echo \"$GREETING $1\"; }").await;
    let said = exec(&mut session, "greet you; pwd").await;
    assert_eq!(said["output"]["stdout"], "hello you\n/workspace/sub\n");
    // The session's directory and variables are the shell's.
    let listed = session.call("bash", json!({ "command": "pwd" })).await.unwrap();
    assert_eq!(listed["output"]["stdout"], "/workspace/sub\n");
    let closed = session.call("shell_close", json!({})).await.unwrap();
    assert_eq!(closed["closed"], true);
    let fresh = exec(&mut session, "echo $GREETING; type greet").await;
    assert_eq!(fresh["output"]["stdout"], "hello\n");
    assert_ne!(fresh["output"]["exitCode"], 0);
}

// S2-T40, S2-T38, S2-T36, S2-69, S2-71, S2-73: a long command runs on while others look.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t40_s2_t38_s2_t36_s2_69_s2_71_s2_73_a_long_command_runs_on() {
    let place = Place::new();
    let mut session = place.node();
    let long = "echo begun; until [ -e go ]; do sleep 0.05; done; echo over";
    let run = json!({ "command": long, "timeoutMs": 500 });
    let running = session.agreed("shell_exec", run).await.unwrap();
    assert_eq!(running["output"]["status"], "running");
    let looked = session.call("shell_read_last_output", json!({})).await.unwrap();
    assert_eq!(looked["liveCommand"]["stdoutPreview"], "begun\n");
    let described = session.call("shell_describe", json!({})).await.unwrap();
    assert_eq!(described["persistentShell"]["busy"], true);
    assert_eq!(described["busyPlan"]["tool"], "shell_wait");
    let busy = session.agreed("shell_exec", json!({ "command": "true" })).await.unwrap_err();
    assert!(busy.contains("shell_wait"), "{busy}");
    let still = session.call("shell_wait", json!({ "timeoutMs": 50 })).await.unwrap();
    assert_eq!(still["status"], "running");
    place.put("go", "");
    let over = session.call("shell_wait", json!({ "timeoutMs": 60000 })).await.unwrap();
    assert_eq!(over["status"], "completed");
    assert_eq!(over["result"]["stdoutPreview"], "begun\nover\n");
    let idle = session.call("shell_wait", json!({})).await.unwrap();
    assert_eq!(idle["status"], "idle");
}

// S2-T37, S2-T39, S2-70, S2-72, S2-78: history by durable id, and as files.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t37_s2_t39_s2_70_s2_72_s2_78_commands_are_remembered() {
    let place = Place::new();
    let mut session = place.node();
    session.agreed("shell_run", json!({ "command": "echo first" })).await.unwrap();
    exec(&mut session, "echo second").await;
    let history = session.call("shell_history", json!({})).await.unwrap();
    assert_eq!(history["count"], 2);
    assert_eq!(history["commands"][0]["command"], "echo second");
    let id = history["commands"][1]["commandId"].clone();
    let read = session.call("shell_read_command", json!({ "commandId": id })).await.unwrap();
    assert_eq!(read["command"]["stdoutPreview"], "first\n");
    let unknown = json!({ "commandId": "0000000000000000" });
    let none = session.call("shell_read_command", unknown).await.unwrap();
    assert_eq!(none["command"], Value::Null);
    let other = json!({ "sessionId": "ses_00000000000000000000000000" });
    assert!(session.call("shell_history", other).await.is_err());
    let own = json!({ "sessionId": session.id().await });
    assert!(session.call("shell_history", own).await.is_ok());
    for path in history["artifactPaths"].as_object().unwrap().values() {
        let read = session.call("read", json!({ "path": path })).await;
        assert!(read.is_ok(), "{path}: {read:?}");
    }
}

// S2-T41, S2-T42, S2-T43, S2-74: set for commands of every kind, also of an open shell.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t41_s2_t42_s2_t43_s2_74_what_is_set_applies_to_every_command() {
    let place = Place::new();
    let mut session = place.node();
    session.call("shell_open", json!({})).await.unwrap();
    session.call("shell_set_cwd", json!({ "path": "sub" })).await.unwrap();
    let set = session.call("shell_set_env", json!({ "key": "COLOUR", "value": "it's red" })).await;
    assert_eq!(set.unwrap()["env"]["keys"], json!(["COLOUR"]));
    let run = json!({ "command": "echo $COLOUR; pwd" });
    for tool in ["shell_run", "shell_exec"] {
        let said = session.agreed(tool, run.clone()).await.unwrap();
        assert_eq!(said["output"]["stdout"], "it's red\n/workspace/sub\n", "{tool}");
    }
    session.call("shell_unset_env", json!({ "key": "COLOUR" })).await.unwrap();
    for tool in ["shell_run", "shell_exec"] {
        let said = session.agreed(tool, run.clone()).await.unwrap();
        assert_eq!(said["output"]["stdout"], "\n/workspace/sub\n", "{tool}");
    }
    assert!(session.call("shell_set_cwd", json!({ "path": "a.txt" })).await.is_err());
}

// S2-T45: a shell that hangs is ended with all in it.
#[tokio::test(flavor = "multi_thread")]
async fn s2_t45_a_hanging_shell_is_restarted() {
    let place = Place::new();
    let mut session = place.node();
    let hang = json!({ "command": "trap '' INT TERM; sleep 1000", "timeoutMs": 300 });
    session.agreed("shell_exec", hang).await.unwrap();
    let fresh = session.call("shell_restart", json!({})).await.unwrap();
    assert_eq!(fresh["persistentShell"]["busy"], false);
    assert_eq!(exec(&mut session, "echo back").await["output"]["stdout"], "back\n");
    let died = exec(&mut session, "kill -9 $$").await;
    assert_eq!(died["output"]["recoveryPlan"]["tool"], "shell_restart");
}

/// The bytes of every file below a directory.
fn all_bytes(directory: &std::path::Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => bytes.extend(all_bytes(&path)),
            false => bytes.extend(std::fs::read(path).unwrap_or_default()),
        }
    }
    bytes
}

// After a restart the directory and the variables come back in a fresh shell, the model is told,
// and no value was ever written down.
#[test]
fn a_restarted_server_brings_back_directory_and_variables_and_says_so() {
    let place = Place::new();
    const SECRET: &str = "hunter2-very-secret";
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let id: SessionId = runtime().block_on(async {
        let mut session = place.node();
        let set = json!({ "key": "API_TOKEN", "value": SECRET });
        session.call("shell_set_env", set).await.unwrap();
        let said = exec(&mut session, "cd sub; export MODE=fast; echo token $API_TOKEN").await;
        assert_eq!(said["output"]["stdout"], "token [redacted]\n");
        session.id().await
    });
    let stored = String::from_utf8_lossy(&all_bytes(place.store().directory())).into_owned();
    assert!(stored.contains("API_TOKEN") && !stored.contains(SECRET), "in the store");
    place.store().advance(Millis::from_secs(3600));
    runtime().block_on(async {
        let node = place.store().start(place.builder(Classifier::Known));
        let mut session = Session::of(node, Some(id));
        let compare = format!("pwd; echo $MODE; [ \"$API_TOKEN\" = {SECRET} ] && echo same");
        let said = exec(&mut session, &compare).await;
        assert_eq!(said["output"]["stdout"], "/workspace/sub\nfast\nsame\n");
        assert!(said["text"].as_str().unwrap().contains("restarted"), "{said}");
    });
    let workspace = String::from_utf8_lossy(&all_bytes(&place.host())).into_owned();
    assert!(!workspace.contains(SECRET), "in the workspace");
}
