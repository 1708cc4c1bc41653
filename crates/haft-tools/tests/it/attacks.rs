//! Every attack of `../shared/adversarial/` on paths, links, names, commands, variables and
//! shells, through a whole node in the real sandbox.

use crate::place::{CANARY, Place, Session};
use haft_runtime::testing::{object, user};
use haft_runtime::{Answer, Response};
use haft_tools::Classifier;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

struct Attack {
    id: String,
    input: Value,
    verdict: String,
}

fn attacks(area: &str) -> Vec<Attack> {
    let read = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let all = include_str!("../../../haft-sandbox/tests/corpus.jsonl").lines().map(read);
    let of_area = all.filter(|case| case["area"] == area);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found: Vec<_> = of_area
        .map(|case| Attack {
            id: text(&case["id"]),
            input: case["input"].clone(),
            verdict: text(&case["expect"]["verdict"]),
        })
        .collect();
    assert!(found.len() >= 10, "the corpus has attacks on {area}");
    found
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

/// Decided elsewhere: races and a swap after approval in `haft-sandbox` and `files.rs`; what
/// counts in the last two is how a name is shown.
const ELSEWHERE: &[&str] =
    &["symlink-010", "symlink-011", "symlink-025", "symlink-028", "symlink-022", "symlink-023"];

async fn attack_files(area: &str) {
    let mut tried = 0;
    for attack in attacks(area) {
        let tool = attack.input["call"]["tool"].as_str();
        if tool.is_none() || ELSEWHERE.contains(&attack.id.as_str()) {
            continue;
        }
        let place = Place::new();
        set_up(&place, &attack);
        let outcome = attempt(&mut place.node(), &attack).await;
        judge(&place, &attack, outcome.as_ref());
        if attack.id == "symlink-012" {
            std::fs::remove_file(place.host().join("hard")).unwrap();
        }
        place.assert_untouched(&attack.id);
        tried += 1;
    }
    println!("{area}: {tried} attacks");
    assert!(tried >= 5, "only {tried}");
}

// D8
#[tokio::test(flavor = "multi_thread")]
async fn d8_no_attack_by_path_link_or_name_leads_out() {
    for area in ["path", "symlink", "unicode"] {
        attack_files(area).await;
    }
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
    println!("bash_ro, {classifier:?}: {tried} attacks");
    assert!(tried >= 60, "only {tried}");
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

#[tokio::test(flavor = "multi_thread")]
async fn no_variable_that_changes_what_programs_run_is_set() {
    let place = Place::new();
    let mut session = place.node();
    for attack in attacks("env") {
        let outcome = attempt(&mut session, &attack).await;
        let asks = attack.input["call"]["tool"] == "shell_run";
        if !asks {
            judge(&place, &attack, outcome.as_ref());
        }
    }
    let described = session.call("shell_describe", json!({})).await.unwrap();
    assert_eq!(described["env"]["count"], 0, "{described}");
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
        let tool = attack.input["call"]["tool"].as_str().unwrap_or_default();
        if !tool.starts_with("shell_") {
            continue;
        }
        session = Session::of(session.node, None);
        let outcome = attempt(&mut session, &attack).await;
        judge_shell(&place, &attack, outcome.as_ref());
        let knock = json!({ "command": format!("echo x > /dev/tcp/127.0.0.1/{port}") });
        let knocked = session.agreed("shell_run", knock).await.unwrap();
        assert_ne!(knocked["output"]["exitCode"], 0, "{}: it reached the host", attack.id);
        place.assert_untouched(&attack.id);
        tried += 1;
    }
    let reached = listener.accept().map(|_| ()).unwrap_err();
    assert_eq!(reached.kind(), ErrorKind::WouldBlock);
    println!("{area}: {tried} attacks");
    assert!(tried >= 10, "only {tried}");
}

/// NUL and the like are refused before anything starts, which the corpus calls contained too.
fn judge_shell(place: &Place, attack: &Attack, outcome: Option<&Result<Value, String>>) {
    match attack.verdict.as_str() {
        "contained" => {
            let said = format!("{outcome:?}");
            assert!(outcome.is_some(), "{}: no end", attack.id);
            assert!(!said.contains(CANARY), "{}: outside bytes: {said}", attack.id);
        }
        _ => judge(place, attack, outcome),
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

// Two sessions of one node see nothing of each other's `/tmp`.
#[tokio::test(flavor = "multi_thread")]
async fn a_shell_has_a_tmp_of_its_own() {
    let place = Place::new();
    let node = place.node().node;
    let (one, two) = (node.session().await, node.session().await);
    let mut session = Session::of(node, Some(one));
    let put = json!({ "command": "echo A > /tmp/x" });
    session.agreed("shell_exec", put).await.unwrap();
    let mut other = Session::of(session.node, Some(two));
    let look = json!({ "command": "cat /tmp/x" });
    let looked = other.agreed("shell_exec", look).await.unwrap();
    assert_ne!(looked["output"]["exitCode"], 0, "{looked}");
}
