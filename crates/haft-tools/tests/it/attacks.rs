//! Every attack of `../shared/adversarial/` on paths, links, names, commands, variables and
//! shells, through a whole node in the real sandbox.

use crate::place::{CANARY, LAUNCHER, Place, Session};
use haft_core::permission::Level;
use haft_core::session::{Config, Driver};
use haft_runtime::testing::{object, user};
use haft_runtime::{Answer, Response};
use haft_tools::Classifier;
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Attack {
    id: String,
    input: Value,
    verdict: String,
}

fn attacks(area: &str) -> Vec<Attack> {
    let found = attacks_of(area);
    assert!(found.len() >= 10, "the corpus has attacks on {area}");
    found
}

fn attacks_of(area: &str) -> Vec<Attack> {
    let read = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let all = include_str!("../../../haft-sandbox/tests/corpus.jsonl").lines().map(read);
    let of_area = all.filter(|case| case["area"] == area);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    of_area
        .map(|case| Attack {
            id: text(&case["id"]),
            input: case["input"].clone(),
            verdict: text(&case["expect"]["verdict"]),
        })
        .collect()
}

/// A value of the corpus, written out where it is abbreviated.
fn written_out(value: &Value) -> Value {
    match value.get("$repeat").and_then(Value::as_array).map(Vec::as_slice) {
        Some([piece, count]) => {
            let count = usize::try_from(count.as_u64().unwrap()).unwrap();
            json!(piece.as_str().unwrap().repeat(count))
        }
        _ => value.clone(),
    }
}

/// The corpus's names of arguments, in the catalogue's.
fn arguments(tool: &str, given: &Value) -> Value {
    let mut arguments: Map<String, Value> = Map::new();
    for (name, value) in given.as_object().unwrap() {
        let value = written_out(value);
        match (tool, name.as_str()) {
            ("bash", "argv") => {
                let mut words = value.as_array().unwrap().iter().cloned();
                arguments.insert("command".to_owned(), words.next().unwrap_or_else(|| json!("")));
                arguments.insert("args".to_owned(), words.collect());
            }
            ("edit", "old") => drop(arguments.insert("oldText".to_owned(), value)),
            ("edit", "new") => drop(arguments.insert("newText".to_owned(), value)),
            ("grep", "pattern") => drop(arguments.insert("query".to_owned(), value)),
            ("shell_set_env", "name") => drop(arguments.insert("key".to_owned(), value)),
            _ => drop(arguments.insert(name.clone(), value)),
        }
    }
    if matches!(tool, "glob" | "grep") {
        arguments.entry("path").or_insert(json!("."));
    }
    if matches!(tool, "shell_run" | "shell_exec") {
        arguments.insert("timeoutMs".to_owned(), json!(700));
    }
    Value::Object(arguments)
}

/// Makes the call of an attack, agreeing where `approved`; `None` when it waits for someone.
async fn attempt(session: &mut Session, attack: &Attack) -> Option<Result<Value, String>> {
    let call = &attack.input["call"];
    let tool = call["tool"].as_str().unwrap();
    let arguments = arguments(tool, &call["args"]);
    let id = session.id().await;
    let haft = session.node.haft().clone();
    let proposed = match haft.propose(id, tool, object(arguments)).await {
        Ok(proposed) => proposed,
        Err(refused) => return Some(Err(refused.to_string())),
    };
    if attack.input["approved"] == true
        && let Ok(Answer::Waiting(_)) = haft.wait(id, proposed).await
    {
        let yes = Response::Approve { arguments: None, note: None, grant: None };
        haft.resolve(id, proposed, user("approver"), yes).await.unwrap();
    }
    match haft.wait(id, proposed).await {
        Ok(Answer::Done(outcome)) => Some(crate::place::result(&outcome)),
        Ok(_) => None,
        Err(refused) => Some(Err(refused.to_string())),
    }
}

/// The same files in less time: what counts is that there are many, or much.
#[expect(clippy::disallowed_methods, reason = "the corpus prepares its traps on the host")]
fn set_up(place: &Place, attack: &Attack) {
    place.put("f", "");
    for command in attack.input["setup"].as_array().into_iter().flatten() {
        let cheaper = command.as_str().unwrap();
        let cheaper = cheaper
            .replace("head -c 3000000000 /dev/zero > big", "truncate -s 3G big")
            .replace("200000", "5000");
        let mut bash = Command::new("bash");
        let status = bash.args(["-c", &cheaper]).current_dir(place.host()).status().unwrap();
        assert!(status.success(), "{}: {cheaper}", attack.id);
    }
}

/// Judges an attempt; `said` is what anyone could read of it.
fn judge(place: &Place, attack: &Attack, outcome: Option<&Result<Value, String>>) {
    let id = &attack.id;
    let said = outcome.map_or_else(String::new, |outcome| format!("{outcome:?}"));
    assert!(!said.contains(CANARY), "{id}: outside bytes: {said}");
    assert!(!said.contains(place.host().to_str().unwrap()), "{id}: a host path: {said}");
    match attack.verdict.as_str() {
        "ask" => assert!(outcome.is_none(), "{id}: ran unasked: {said}"),
        "deny" | "invalid" => {
            assert!(matches!(outcome, Some(Err(_))), "{id}: not refused: {said}");
            assert!(!said.contains("root:x:"), "{id}: outside bytes: {said}");
        }
        _ => assert!(outcome.is_some(), "{id}: no end"),
    }
}

/// Of this crate's areas, but about a description that an MCP server gives.
const OF_OTHERS: &[&str] = &["unicode-018"];

/// Says how many attacks of an area were tried: all of them.
fn counted(area: &str, tried: usize) {
    let cases = attacks(area).into_iter().filter(|case| !OF_OTHERS.contains(&case.id.as_str()));
    let cases = cases.count();
    println!("{area}: {tried} of {cases} attacks");
    assert_eq!(tried, cases, "{area}");
}

async fn attack_files(area: &str) {
    let mut tried = 0;
    for attack in attacks(area) {
        let place = Place::new();
        match attack.id.as_str() {
            "symlink-010" | "symlink-011" => race(&place, &attack).await,
            "symlink-022" | "symlink-023" => names_are_shown_and_read_back(&place, &attack).await,
            "symlink-025" => swapped_after_approval(&place).await,
            "symlink-028" => on_a_full_disk(&place),
            "unicode-015" | "unicode-017" => shown_to_the_approver(&place, &attack).await,
            id if OF_OTHERS.contains(&id) => continue,
            _ => {
                set_up(&place, &attack);
                let outcome = attempt(&mut place.node(), &attack).await;
                judge(&place, &attack, outcome.as_ref());
            }
        }
        if attack.id == "symlink-012" {
            std::fs::remove_file(place.host().join("hard")).unwrap();
        }
        place.assert_untouched(&attack.id);
        tried += 1;
    }
    counted(area, tried);
}

/// Calls while a directory and a link that leads out are exchanged all the time.
async fn race(place: &Place, attack: &Attack) {
    std::fs::create_dir(place.host().join("d")).unwrap();
    place.put("d/f", "inside");
    std::os::unix::fs::symlink(place.outside(), place.host().join("link")).unwrap();
    let (directory, link) = (place.host().join("d"), place.host().join("link"));
    let done = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let swapping = std::thread::spawn(move || {
        let mut swaps = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            rustix::fs::renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            swaps += 1;
        }
        swaps
    });
    let mut session = place.node();
    let mut taken = 0;
    let mut tries = 0;
    while tries < 150 || (taken == 0 && tries < 3000) {
        let outcome = attempt(&mut session, attack).await.unwrap();
        let said = format!("{outcome:?}");
        assert!(!said.contains(CANARY), "{}: outside bytes: {said}", attack.id);
        taken += u32::from(outcome.is_ok());
        tries += 1;
    }
    done.store(true, Ordering::Relaxed);
    assert!(swapping.join().unwrap() > 100, "the names were swapped under way");
    assert!(taken > 0, "{}: none of {tries} was taken", attack.id);
}

/// Nothing in a name reaches a terminal, and every name that is shown is read back.
async fn names_are_shown_and_read_back(place: &Place, attack: &Attack) {
    set_up(place, attack);
    let mut session = place.node();
    let listed = attempt(&mut session, attack).await.unwrap().unwrap();
    let entries = listed["output"]["entries"].as_array().unwrap();
    let odd = |entry: &&Value| entry["path"].as_str().unwrap().contains("\\x");
    let path = entries.iter().find(odd).unwrap_or_else(|| panic!("{listed}"))["path"].clone();
    assert!(!listed.to_string().contains('\u{1b}') && !listed.to_string().contains("\\u001b"));
    let read = session.call("read", json!({ "path": path })).await.unwrap();
    assert_eq!(read["output"]["byteCount"], 0, "{}", attack.id);
}

/// The file that an approver saw is another one when it is to be changed.
async fn swapped_after_approval(place: &Place) {
    place.put("f", "a");
    let node = place.node().node;
    let config = Config { driver: Driver::Caller, level: Level::Standard, ..Config::default() };
    let id = node.session_with(config).await;
    let mut session = Session::of(node, Some(id));
    let edit = json!({ "path": "f", "oldText": "a", "newText": "b" });
    let call = session.propose("edit", edit).await;
    session.waits(call).await;
    std::fs::remove_file(place.host().join("f")).unwrap();
    std::os::unix::fs::symlink(place.outside().join("secret"), place.host().join("f")).unwrap();
    let haft = session.node.haft().clone();
    let yes = Response::Approve { arguments: None, note: None, grant: None };
    haft.resolve(id, call, user("approver"), yes).await.unwrap();
    match haft.wait(id, call).await.unwrap() {
        Answer::Done(outcome) => assert!(crate::place::result(&outcome).is_err(), "{outcome:?}"),
        // Asked again about what is there now: nobody is shown what the link leads to.
        Answer::Waiting(waiting) => {
            assert!(!format!("{:?}", waiting.preview).contains(CANARY), "{waiting:?}");
        }
        in_doubt @ Answer::InDoubt(_) => panic!("{in_doubt:?}"),
    }
}

const FULL: &str = "HAFT_TEST_FULL_DISK";

/// In a process of its own, whose workspace lies on a file system of one MiB.
#[expect(clippy::disallowed_methods, reason = "the test is started again elsewhere")]
fn on_a_full_disk(place: &Place) {
    let told = json!([place.directory(), place.store().directory()]).to_string();
    let tests = std::env::current_exe().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {} && exec \"$@\"", place.host().display());
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "--map-root-user", "sh", "-c", &mount, "sh"]).arg(tests);
    unshared.args(["attacks::a_write_that_does_not_fit_leaves_the_old_file", "--exact"]);
    let output = unshared.env(FULL, told).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

// symlink-028
#[test]
fn a_write_that_does_not_fit_leaves_the_old_file() {
    let Ok(told) = std::env::var(FULL) else { return on_a_full_disk(&Place::new()) };
    let [directory, store] = serde_json::from_str::<[String; 2]>(&told).unwrap();
    let place = Place::at(directory.as_ref(), store.as_ref());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut session = place.node();
        let write = |content: String| json!({ "path": "f", "content": content });
        session.call("write", write("old".to_owned())).await.unwrap();
        let full = session.call("write", write("x".repeat(2_000_000))).await;
        assert!(full.unwrap_err().contains("f"), "it says which");
        assert_eq!(place.content("f"), "old");
        let names = std::fs::read_dir(place.host()).unwrap().filter_map(Result::ok);
        let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        assert!(names.iter().all(|name| name == "f" || name == ".haft-runtime"), "{names:?}");
    });
}

/// An approver sees every character of a command, in the order in which it is read.
async fn shown_to_the_approver(place: &Place, attack: &Attack) {
    let asked = &attack.input["approval_render"];
    let mut session = place.node();
    let call = session.propose(asked["tool"].as_str().unwrap(), asked["args"].clone()).await;
    let shown = session.waits(call).await.preview.unwrap().diff.unwrap();
    let command = asked["args"]["command"].as_str().unwrap();
    let hidden = |char: char| haft_sandbox::virtual_path::is_hidden(char) && char != '\n';
    assert!(!shown.contains(hidden), "{}: {shown:?}", attack.id);
    for char in command.chars().filter(|char| hidden(*char)) {
        assert!(shown.contains(&char.escape_unicode().to_string()), "{}: {shown}", attack.id);
    }
}

// D8
#[tokio::test(flavor = "multi_thread")]
async fn d8_no_attack_by_path_leads_out() {
    attack_files("path").await;
}

// D8
#[tokio::test(flavor = "multi_thread")]
async fn d8_no_attack_by_link_leads_out() {
    attack_files("symlink").await;
}

// D8
#[tokio::test(flavor = "multi_thread")]
async fn d8_no_attack_by_name_leads_out() {
    attack_files("unicode").await;
}

/// What a directory holds, without the files in which the shell's state is shown.
pub(crate) fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(".haft-runtime") {
            continue;
        }
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => drop(
                found.insert(path.display().to_string(), std::fs::read(&path).unwrap_or_default()),
            ),
        }
    }
    found
}

/// The programs that only look, attacked; nothing may change, whether or not the classifier helps.
async fn attack_bash(classifier: Classifier) {
    let place = Place::new();
    place.put("f", "");
    let mut session = place.node_with(classifier);
    let before = tree(&place.host());
    let mut tried = 0;
    for attack in attacks("bash_ro") {
        if attack.input["call"]["tool"] != "bash" {
            continue;
        }
        let outcome = attempt(&mut session, &attack).await;
        match classifier {
            Classifier::Known => judge(&place, &attack, outcome.as_ref()),
            Classifier::Open => {
                let said = format!("{outcome:?}");
                assert!(!said.contains(CANARY), "{}: outside bytes: {said}", attack.id);
            }
        }
        assert_eq!(tree(&place.host()), before, "{}: the workspace changed", attack.id);
        place.assert_untouched(&attack.id);
        tried += 1;
    }
    println!("with the classifier {classifier:?}");
    counted("bash_ro", tried);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_on_the_read_only_hand_is_taken() {
    attack_bash(Classifier::Known).await;
}

// The mount alone holds.
#[tokio::test(flavor = "multi_thread")]
async fn no_attack_on_the_read_only_hand_changes_anything_without_the_classifier() {
    attack_bash(Classifier::Open).await;
}

const SERVER_ENV: &str = "OPENAI_API_KEY";

#[tokio::test(flavor = "multi_thread")]
async fn no_variable_that_changes_what_programs_run_is_set() {
    let place = Place::new();
    let mut session = place.node();
    let mut tried = 0;
    for attack in attacks("env") {
        match &attack.input["server_env"] {
            Value::Null => {
                let outcome = attempt(&mut session, &attack).await;
                judge(&place, &attack, outcome.as_ref());
            }
            server => started_with(server, "attacks::no_variable_of_the_server_is_seen"),
        }
        tried += 1;
    }
    let described = session.call("shell_describe", json!({})).await.unwrap();
    assert_eq!(described["env"]["count"], 0, "{described}");
    let env = session.call("bash", json!({ "command": "env" })).await.unwrap();
    let names = ["HOME", "LANG", "PATH", "TERM", "TMPDIR"];
    for line in env["output"]["stdout"].as_str().unwrap().lines() {
        let (name, _) = line.split_once('=').unwrap();
        assert!(names.contains(&name) || ["PWD", "SHLVL", "_", "OLDPWD"].contains(&name), "{line}");
    }
    counted("env", tried);
}

/// Runs a test once more, as a process with these variables.
#[expect(clippy::disallowed_methods, reason = "the test is started again elsewhere")]
fn started_with(variables: &Value, test: &str) {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact"]);
    for (name, value) in variables.as_object().unwrap() {
        again.env(name, value.as_str().unwrap());
    }
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

// env-046
#[tokio::test(flavor = "multi_thread")]
async fn no_variable_of_the_server_is_seen() {
    let attack = attacks("env").into_iter().find(|attack| attack.id == "env-046").unwrap();
    let Ok(canary) = std::env::var(SERVER_ENV) else {
        return started_with(
            &attack.input["server_env"],
            "attacks::no_variable_of_the_server_is_seen",
        );
    };
    let place = Place::new();
    let mut session = place.node();
    let command = attack.input["call"]["args"].clone();
    let ran = session.agreed("shell_run", command.clone()).await.unwrap();
    assert!(ran["output"]["stdout"].as_str().unwrap().contains("PATH="), "{ran}");
    assert!(!ran.to_string().contains(&canary), "{ran}");
    let ran = session.agreed("shell_exec", command).await.unwrap();
    assert!(!ran.to_string().contains(&canary), "{ran}");
    for directory in [place.store().directory(), place.host().as_path()] {
        let stored = crate::shells::all_bytes(directory);
        assert!(!String::from_utf8_lossy(&stored).contains(&canary), "it is written down");
    }
}

/// Shell texts that someone agreed to, and a listener that nobody may reach.
async fn attack_shells(area: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = Place::new();
    let mut session = place.node();
    let mut tried = 0;
    for attack in attacks(area) {
        session = Session::of(session.node, None);
        match attack.id.as_str() {
            "shell-045" => an_approval_is_of_its_arguments(&mut session, &attack).await,
            "shell-046" | "shell-049" => amounts_to_nothing_else(&place, &attack),
            "persistent_shell-027" => {
                let texts = ["session_a", "session_b"].map(|of| attack.input[of]["call"].clone());
                session = two_sessions(session, texts).await;
            }
            _ => {
                let outcome = attempt(&mut session, &attack).await;
                judge_shell(&place, &attack, outcome.as_ref());
            }
        }
        let knock = json!({ "command": format!("echo x > /dev/tcp/127.0.0.1/{port}") });
        let knocked = session.agreed("shell_run", knock).await.unwrap();
        assert_ne!(knocked["output"]["exitCode"], 0, "{}: it reached the host", attack.id);
        if area == "persistent_shell" {
            session.call("shell_restart", json!({})).await.unwrap();
            let next = json!({ "command": "echo in step" });
            let next = session.agreed("shell_exec", next).await.unwrap();
            assert_eq!(next["output"]["stdout"], "in step\n", "after {}", attack.id);
        }
        place.assert_untouched(&attack.id);
        tried += 1;
    }
    let reached = listener.accept().map(|_| ()).unwrap_err();
    assert_eq!(reached.kind(), ErrorKind::WouldBlock);
    counted(area, tried);
}

/// What was agreed to is one call with its arguments, and no other.
async fn an_approval_is_of_its_arguments(session: &mut Session, attack: &Attack) {
    session.agreed("shell_run", attack.input["approved_args"].clone()).await.unwrap();
    let other = session.propose("shell_run", attack.input["executed_args"].clone()).await;
    session.waits(other).await;
}

fn amounts_to_nothing_else(place: &Place, attack: &Attack) {
    let (cwd, mounts) = crate::preflight::workspace(place);
    let command = attack.input["call"]["args"]["toolArgs"]["command"].as_str().unwrap();
    let found = haft_tools::read_only_alternative(command, &cwd, &mounts);
    assert_eq!(found, None, "{}", attack.id);
}

/// What one session leaves in its `/tmp`, another does not find.
async fn two_sessions(session: Session, [first, second]: [Value; 2]) -> Session {
    let (one, two) = (session.node.session().await, session.node.session().await);
    let mut session = Session::of(session.node, Some(one));
    session.agreed("shell_exec", first["args"].clone()).await.unwrap();
    let mut other = Session::of(session.node, Some(two));
    let looked = other.agreed("shell_exec", second["args"].clone()).await.unwrap();
    assert_ne!(looked["output"]["exitCode"], 0, "{looked}");
    other
}

/// NUL and the like are refused before anything starts, which the corpus calls contained too.
fn judge_shell(place: &Place, attack: &Attack, outcome: Option<&Result<Value, String>>) {
    if attack.verdict != "contained" {
        return judge(place, attack, outcome);
    }
    let id = attack.id.as_str();
    let said = format!("{outcome:?}");
    assert!(!said.contains(CANARY), "{id}: outside bytes: {said}");
    let outcome = outcome.unwrap_or_else(|| panic!("{id}: no end"));
    let Ok(ran) = outcome else { return assert_eq!(id, "shell-041", "not run: {said}") };
    let output = &ran["output"];
    let stdout = output["stdout"].as_str().unwrap_or_default();
    match id {
        "shell-002" => assert_eq!(output["timedOut"], true),
        "shell-003" | "shell-013" | "shell-018" | "shell-022" | "shell-024" | "shell-026"
        | "shell-040" => assert_ne!(output["exitCode"], 0, "{id}: {said}"),
        "shell-004" => {
            let size = std::fs::metadata(place.host().join("f")).unwrap().len();
            assert!(size <= 64 << 20, "{id}: {size} bytes");
        }
        "shell-006" => assert_eq!(stdout, "ok\n"),
        "shell-035" => assert_eq!(output["exitCode"], 44),
        "shell-036" => assert_eq!(output["signal"], 11),
        "shell-037" => assert_eq!(stdout, "NoNewPrivs:\t1\n"),
        // The fourth is the directory that `ls` reads.
        "shell-038" => assert_eq!(stdout.matches(" -> ").count(), 4, "{stdout}"),
        "shell-039" => assert!(stdout.lines().count() <= 4, "{stdout}"),
        "persistent_shell-008" | "persistent_shell-011" => {
            assert_eq!(output["recoveryPlan"]["tool"], "shell_restart", "{id}: {said}");
        }
        "persistent_shell-010" | "persistent_shell-013" | "persistent_shell-014" => {
            assert_eq!(output["status"], "running", "{id}: {said}");
        }
        "persistent_shell-024" => assert!(stdout.len() < 50_000, "{id}: {}", stdout.len()),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_by_a_shell_text_leaves_the_sandbox() {
    attack_shells("shell").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attack_on_the_persistent_shell_leaves_the_sandbox() {
    attack_shells("persistent_shell").await;
}

// Secrets that a command says: masked for the model, in the log, and in what is kept.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_that_a_command_says_is_recorded() {
    let place = Place::new();
    let mut session = place.node();
    let mut tried = 0;
    let all = attacks_of("redaction");
    for attack in all.iter().filter(|attack| attack.input["printed_by"] == "shell_run") {
        let secret = attack.input["secret"].as_str().unwrap();
        // Not as it is: who types a secret has told it already.
        std::fs::write(place.host().join("sealed"), secret).unwrap();
        let say = json!({ "command": "cat sealed; cat sealed >&2" });
        let ran = session.agreed("shell_run", say).await.unwrap();
        std::fs::remove_file(place.host().join("sealed")).unwrap();
        assert!(!ran.to_string().contains("CANARY"), "{}: {ran}", attack.id);
        for directory in [place.store().directory(), place.host().as_path()] {
            let stored = crate::shells::all_bytes(directory);
            let stored = String::from_utf8_lossy(&stored).replace(CANARY, "");
            assert!(!stored.contains("CANARY"), "{}: it is written down", attack.id);
        }
        tried += 1;
    }
    println!("redaction: {tried} of {} attacks", all.len());
    assert!(tried >= 3, "only {tried}");
}

/// The user whom nothing belongs to.
const NOBODY: u32 = 65534;

// The corpus as an ordinary user: the sandbox is then built in a user namespace, by other steps than
// for root. Where the tests are not run by root, all the others are that already.
#[test]
#[expect(clippy::disallowed_methods, reason = "the tests are started again by another user")]
fn no_attack_succeeds_for_an_ordinary_user_either() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let open = || std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(), open()).unwrap();
    let (tests, launcher) = (place.path().join("tests"), place.path().join("launcher"));
    let built = Path::new(env!("CARGO_BIN_EXE_haft-tools-launcher"));
    for (from, to) in [(std::env::current_exe().unwrap().as_path(), &tests), (built, &launcher)] {
        std::fs::copy(from, to).unwrap();
        std::fs::set_permissions(to, open()).unwrap();
    }
    let own = place.path().join("own");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
    let mut again = Command::new("setpriv");
    let limits = [user.as_str(), group.as_str(), "--clear-groups", "--pdeathsig=KILL"];
    again.args(limits).arg(&tests);
    again.args(["attacks::", "--skip", "an_ordinary_user"]).current_dir(&own);
    again.env(LAUNCHER, &launcher).env("TMPDIR", &own).env("HOME", &own);
    let output = again.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("; 0 failed"), "{said}\n{complained}");
}
