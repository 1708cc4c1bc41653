//! The shell that stays, and what outlives it.

use crate::place::{PATIENCE, Place, Session, Sleeper, VAULTED};
use haft_core::permission::Level;
use haft_core::session::{Config, Driver};
use haft_core::{Millis, SessionId};
use haft_tools::Classifier;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

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
    let began = Instant::now();
    loop {
        let looked = session.call("shell_read_last_output", json!({})).await.unwrap();
        if looked["liveCommand"]["stdoutPreview"] == "begun\n" {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{looked}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
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

// S2-A28, S2-A29, S2-A30, S2-A31, S2-A32: what the tools answer stands in files, without secrets.
#[tokio::test(flavor = "multi_thread")]
async fn s2_a28_s2_a29_s2_a30_s2_a31_s2_a32_the_shells_answers_are_files_too() {
    let place = Place::new();
    let mut session = place.node();
    let secret = "hunter2-of-the-shell";
    session.call("shell_set_env", json!({ "key": "API_TOKEN", "value": secret })).await.unwrap();
    session.agreed("shell_run", json!({ "command": "echo once" })).await.unwrap();
    exec(&mut session, "cd sub; echo twice; echo \"$API_TOKEN\" >&2").await;
    let file = |name: &str| place.content(&format!(".haft-runtime/{name}"));
    let json = |name: &str| serde_json::from_str::<Value>(&file(name)).unwrap();

    let described = session.call("shell_describe", json!({})).await.unwrap();
    assert_eq!(json("shell-state.json"), described["shellState"]);
    assert_eq!(json("shell-state.json")["cwd"], "/workspace/sub");
    assert_eq!(json("shell-state.json")["env"]["keys"], json!(["API_TOKEN"]));

    let history = session.call("shell_history", json!({ "limit": 50 })).await.unwrap();
    assert_eq!(history["count"], 2);
    assert_eq!(json("shell-history.json")["commands"], history["commands"]);
    assert_eq!(json("shell-history.json")["sessionId"], history["sessionId"]);
    let told = file("shell-history.md");
    assert_eq!(told.lines().count(), 2, "{told}");
    for (line, command) in told.lines().zip(history["commands"].as_array().unwrap()) {
        let said = |name: &str| command[name].as_str().unwrap().to_owned();
        let (id, ending, text) = (said("commandId"), said("ending"), said("command"));
        assert!(line.contains(&id) && line.contains(&ending) && line.contains(&text), "{line}");
    }

    let last = session.call("shell_read_last_output", json!({})).await.unwrap();
    assert_eq!(json("shell-last-output.json"), last["lastCommand"]);
    let said = file("shell-last-output.md");
    assert!(said.starts_with("$ cd sub; ") && said.contains("\ntwice\n"), "{said}");
    for name in ["shell-state.json", "shell-history.json", "shell-history.md"] {
        assert!(!file(name).contains(secret), "{name}");
    }
    for name in ["shell-last-output.json", "shell-last-output.md"] {
        assert!(!file(name).contains(secret), "{name}");
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
    let sleeper = Sleeper::new();
    let sleep = sleeper.command();
    let hang = format!("trap '' INT TERM; setsid {sleep} & {sleep}");
    session.agreed("shell_exec", json!({ "command": hang, "timeoutMs": 300 })).await.unwrap();
    sleeper.until(2).await;
    let fresh = session.call("shell_restart", json!({})).await.unwrap();
    assert_eq!(sleeper.alive(), 0, "what ran in the old shell lives on");
    assert_eq!(fresh["persistentShell"]["busy"], false);
    assert_eq!(exec(&mut session, "echo back").await["output"]["stdout"], "back\n");
    let died = exec(&mut session, "kill -9 $$").await;
    assert_eq!(died["output"]["recoveryPlan"]["tool"], "shell_restart");
}

// A session that nobody uses any more loses its shell, although nobody calls.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_shell_is_closed_without_anyone_calling() {
    let place = Place::new();
    let builder = place.builder_with(|settings| settings.idle = Duration::from_millis(400));
    let mut session = Session::of(place.store().start(builder), None);
    let sleeper = Sleeper::new();
    // It is there before the command ends, so that it is the idle shell that takes it along.
    let there = "until grep -q sleep /proc/$!/cmdline; do sleep 0.01; done";
    exec(&mut session, &format!("cd sub; {} & {there}", sleeper.command())).await;
    sleeper.until(0).await;
    let described = session.call("shell_describe", json!({})).await.unwrap();
    assert_eq!(described["persistentShell"]["status"], "lost", "{described}");
    assert_eq!(described["recoveryPlan"]["tool"], "shell_restart");
    assert_eq!(exec(&mut session, "pwd").await["output"]["stdout"], "/workspace/sub\n");
}

const SERVED: &str = "HAFT_TEST_SERVED";

/// Serves one session of a place in a process of its own, with a shell in which `sleeper` runs.
async fn serve_and_wait(place: &Path, store: &Path, sleep: &str) {
    let place = Place::at(place, store);
    let mut session = place.node();
    exec(&mut session, "cd sub; export MODE=fast").await;
    let long = json!({ "command": format!("setsid {sleep} & {sleep}"), "timeoutMs": 1 });
    session.agreed("shell_exec", long).await.unwrap();
    println!("session {}", session.id().await);
    std::future::pending::<()>().await;
}

// durability-027: a server that is killed takes its sandboxes along; the next one goes on from
// the directory and the variables.
#[test]
#[expect(clippy::disallowed_methods, reason = "this test is also the server that it kills")]
fn a_killed_server_leaves_no_process_and_its_sessions_go_on() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Ok(served) = std::env::var(SERVED) {
        let [place, store, sleep] = serde_json::from_str::<[String; 3]>(&served).unwrap();
        return runtime().block_on(serve_and_wait(place.as_ref(), store.as_ref(), &sleep));
    }
    let (place, sleeper) = (Place::new(), Sleeper::new());
    let served = json!([place.directory(), place.store().directory(), sleeper.command()]);
    let name = "shells::a_killed_server_leaves_no_process_and_its_sessions_go_on";
    let mut server = std::process::Command::new("setpriv")
        // The kernel kills it when this test's thread ends, however it ends.
        .args(["--pdeathsig", "KILL"])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(SERVED, served.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(server.stdout.take().unwrap());
    let said = said.lines().map_while(Result::ok);
    let mut told = said.filter_map(|line| line.split_once("session ")?.1.parse().ok());
    let id: SessionId = told.next().unwrap();
    runtime().block_on(sleeper.until(2));
    server.kill().unwrap();
    server.wait().unwrap();
    runtime().block_on(sleeper.until(0));
    place.store().advance(Millis::from_secs(3600));
    runtime().block_on(async {
        let mut session =
            Session::of(place.store().start(place.builder(Classifier::Known)), Some(id));
        let said = exec(&mut session, "pwd; echo $MODE").await;
        assert_eq!(said["output"]["stdout"], "/workspace/sub\nfast\n");
        assert!(said["text"].as_str().unwrap().contains("restarted"), "{said}");
    });
}

// What is typed as a secret is in no record of commands: not in the history, not in the files.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_typed_in_commands_are_masked_in_the_record() {
    let place = Place::new();
    let mut session = place.node();
    for tool in ["shell_run", "shell_exec"] {
        let login = "DB_PASSWORD=hunter2-typed bash -c 'echo pw $DB_PASSWORD'; \
                     echo sk-proj-CANARY000000000000000000";
        let ran = session.agreed(tool, json!({ "command": login })).await.unwrap();
        assert!(ran["output"]["stdout"].as_str().unwrap().starts_with("pw [redacted]"), "{ran}");
        let known = session.call("shell_history", json!({})).await.unwrap();
        let last = &known["commands"][0];
        assert!(last["command"].as_str().unwrap().starts_with("DB_PASSWORD=[redacted] "), "{last}");
    }
    let files = String::from_utf8_lossy(&all_bytes(&place.host())).into_owned();
    for secret in ["hunter2-typed", "sk-proj-CANARY"] {
        assert!(!files.contains(secret), "{secret} is in the workspace");
    }
}

// Commands use what a vault holds by reference; nobody is shown it, and no tool reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_vaults_secret_is_used_and_never_shown() {
    let place = Place::new();
    let mut session = place.node();
    let set = json!({ "key": "DEPLOY", "value": "vault://deploy/token" });
    let set = session.call("shell_set_env", set).await.unwrap();
    assert_eq!(set["env"]["keys"], json!(["DEPLOY"]));
    let look = format!("echo $DEPLOY; [ \"$DEPLOY\" = {VAULTED} ] && echo same");
    for tool in ["shell_run", "shell_exec", "shell_exec"] {
        let said = session.agreed(tool, json!({ "command": look })).await.unwrap();
        assert_eq!(said["output"]["stdout"], "[redacted]\nsame\n", "{tool}");
    }
    // A copy is masked too, and the variable goes on to be a reference.
    let copied = exec(&mut session, "export COPY=$DEPLOY; echo x$COPY").await;
    assert_eq!(copied["output"]["stdout"], "x[redacted]\n");
    for path in ["/vaults/deploy/token", "/vaults/deploy"] {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("grep", json!({ "path": path, "query": "vaulted" })),
            ("glob", json!({ "path": path, "pattern": "*" })),
        ] {
            let refused = session.call(tool, arguments).await.unwrap_err();
            assert!(!refused.contains(VAULTED), "{tool}: {refused}");
        }
    }
    let peek = json!({ "command": "cat /vaults/deploy/token; ls /vaults" });
    let peeked = session.agreed("shell_run", peek).await.unwrap();
    assert_ne!(peeked["output"]["exitCode"], 0);
    for value in ["vault://deploy/none", "vault://none/token"] {
        let set = json!({ "key": "X", "value": value });
        assert!(session.call("shell_set_env", set).await.unwrap_err().contains("not there"));
    }
    let stored = [all_bytes(place.store().directory()), all_bytes(&place.host())].concat();
    let stored = String::from_utf8_lossy(&stored).into_owned();
    // The comparison above names it; nothing else does.
    let elsewhere = stored.replace(&look, "").replace(&look.replace('"', "\\\""), "");
    assert!(!elsewhere.contains(VAULTED), "the secret is written down");
}

// S2-81: the session's tools and permissions are shown in its workspace, and never read back.
#[tokio::test(flavor = "multi_thread")]
async fn s2_81_the_live_contract_is_shown_in_the_workspace() {
    let place = Place::new();
    let mut session = place.node();
    session.call("read", json!({ "path": "a.txt" })).await.unwrap();
    let shown = |name: &str| -> Value {
        serde_json::from_str(&place.content(&format!(".haft-runtime/{name}"))).unwrap()
    };
    let tools = shown("managed-tools.json");
    let names: Vec<_> =
        tools["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("shell_run")) && !names.contains(&&json!("file_restore")));
    let run = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "shell_run");
    assert_eq!(run.unwrap()["permissionPolicy"], "always_ask");
    let asks = |of: &Value| -> Vec<Value> {
        let asks = of["alwaysAskTools"].as_array().unwrap();
        asks.iter().map(|tool| tool["toolName"].clone()).collect()
    };
    let shared =
        ["memory_promote_note", "resources_promote_to_substrate", "resources_restore_version"];
    let expected = [&["shell_run", "shell_exec"], &shared[..]].concat();
    assert_eq!(asks(&shown("permissions.json")), expected);
    // approval-004: what is written there changes nothing, and file tools do not even write.
    let forged = r#"{"shell_run":"always_allow"}"#;
    for path in
        ["/workspace/.haft-runtime/permissions.json", "sub/../.haft-runtime/permissions.json"]
    {
        let write = json!({ "path": path, "content": forged });
        assert!(session.call("write", write).await.unwrap_err().contains("the runtime"), "{path}");
        let mkdir = json!({ "path": ".haft-runtime/x", "content": "", "mode": "directory" });
        assert!(session.call("write", mkdir).await.is_err());
    }
    place.put(".haft-runtime/permissions.json", forged);
    let call = session.propose("shell_run", json!({ "command": "true" })).await;
    session.waits(call).await;
    // A session under stricter oversight is shown that.
    let config = Config { driver: Driver::Caller, level: Level::Standard, ..Config::default() };
    let id = session.node.session_with(config).await;
    let mut strict = Session::of(session.node, Some(id));
    strict.call("read", json!({ "path": "a.txt" })).await.unwrap();
    assert!(asks(&shown("permissions.json")).contains(&json!("write")));
}

/// The bytes of every file below a directory.
pub(crate) fn all_bytes(directory: &Path) -> Vec<u8> {
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
