//! Disks that are full, syncs that fail, files that go missing, databases that do not write: what
//! the server says of itself, what it still acknowledges, and what the commands find out.

#![expect(clippy::disallowed_methods, reason = "runs the binary and what breaks its disk")]

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::breakage::{FailingSyncs, SmallDisk, psql};
use crate::cluster::{self, Cluster};
use crate::commands::{Ended, haft};
use crate::mcp::meta;
use crate::serving::{PATIENCE, Serving};

/// Asks a probe; returns its status and what it says is wrong.
fn probe(server: &Serving, path: &str) -> (u16, String) {
    let (status, body) = server.raw("GET", path, "", "");
    (status, body["error"]["message"].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn until(server: &Serving, path: &str, status: u16) -> String {
    let began = Instant::now();
    loop {
        let (found, said) = probe(server, path);
        if found == status {
            return said;
        }
        assert!(began.elapsed() < PATIENCE, "{path}: {found} {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Reads a gauge; the page itself must be there, whatever has become of the store.
fn gauge(server: &Serving, name: &str) -> Option<u64> {
    let mut page = String::new();
    server.connect("GET", "/metrics", "", "").read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK"), "{page}");
    let line = page.lines().find(|line| line.starts_with(&format!("{name} ")))?;
    line.rsplit_once(' ').unwrap().1.parse().ok()
}

/// Opens a session; returns its id if that was acknowledged.
fn open(server: &Serving) -> Option<String> {
    let wanted = json!({ "agent": "agent_demo", "environment_id": "env_demo" });
    let (status, body) = server.ask("POST", "/v1/sessions", &wanted);
    (status == 200).then(|| body["id"].as_str().unwrap().to_owned())
}

fn is_there(server: &Serving, session: &str) -> bool {
    server.ask("GET", &format!("/v1/sessions/{session}"), &Value::Null).0 == 200
}

fn kill(mut server: Serving) -> String {
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    server.key.clone()
}

/// Starts a server that must end by itself; returns what it said.
fn refused_start(data: &Path) -> String {
    let mut process = Serving::spawn(data, &[], Stdio::piped());
    let mut said = String::new();
    let status = process.wait().unwrap();
    process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(!status.success(), "{said}");
    said
}

fn remove(data: &Path, name: &str) {
    // What was moved into the database has no log any more.
    drop(std::fs::remove_file(data.join(name)));
}

// E11
#[test]
fn two_servers_never_have_one_directory_even_without_the_lock_file() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    remove(data.path(), "haft.lock");
    remove(data.path(), "server.json");
    let said = refused_start(data.path());
    assert!(said.contains("error[store_in_use]"), "{said}");
    let session = open(&server).expect("the first one goes on");
    let key = kill(server);
    let server = Serving::start(data.path(), Some(&key));
    assert!(is_there(&server, &session));
}

// E5: acknowledgements went on, and all of them were lost.
#[test]
fn a_server_whose_files_are_taken_away_acknowledges_nothing_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    open(&server).unwrap();
    assert_eq!(probe(&server, "/healthz").0, 200);
    for name in ["haft.db", "haft.db-wal", "haft.db-shm"] {
        remove(data.path(), name);
    }
    assert_eq!(open(&server), None, "what is written now is lost");
    let said = until(&server, "/healthz", 503);
    assert!(said.contains("started again") && said.contains("removed or replaced"), "{said}");
    assert_eq!(probe(&server, "/readyz").0, 503);
    assert_eq!(gauge(&server, "haft_store_writable"), Some(0));
    kill(server);
    let said = refused_start(data.path());
    assert!(said.contains("error[bad_store]") && said.contains("haft.db` is missing"), "{said}");
}

// E5: a missing or empty database beside the sealing key was a new, empty store.
#[test]
fn a_store_that_is_gone_is_not_begun_anew_beside_its_key() {
    let data = tempfile::tempdir().unwrap();
    kill(Serving::start(data.path(), None));
    for name in ["haft.db", "haft.db-wal", "haft.db-shm", "haft.mark", "haft.lock"] {
        remove(data.path(), name);
    }
    for _ in 0..2 {
        let said = refused_start(data.path());
        assert!(said.contains("sealing-key"), "{said}");
        assert!(said.contains("restore a backup"), "{said}");
        std::fs::write(data.path().join("haft.db"), "").unwrap();
    }
}

// E5: ten of ten acknowledged sessions were gone, and the audit said whole.
#[test]
fn a_log_of_changes_that_was_removed_after_a_kill_is_noticed_and_may_be_accepted() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    for _ in 0..10 {
        open(&server).unwrap();
    }
    let key = kill(server);
    remove(data.path(), "haft.db-wal");
    let said = refused_start(data.path());
    assert!(said.contains("writes that were acknowledged are missing"), "{said}");
    assert!(said.contains("haft repair --accept-loss"), "{said}");
    let audit = haft(data.path(), &["audit", "verify"]);
    assert_eq!(audit.code, 1, "{audit:?}");
    assert!(audit.stdout.contains("acknowledged are missing"), "{audit:?}");
    let repair = haft(data.path(), &["repair"]);
    assert_eq!(repair.code, 1, "{repair:?}");
    let repair = haft(data.path(), &["repair", "--accept-loss"]);
    assert_eq!(repair.code, 0, "{repair:?}");
    assert!(repair.stdout.contains("accepted: "), "{repair:?}");
    drop(Serving::start(data.path(), Some(&key)));
}

fn created_key(data: &Path, tenant: &str) -> String {
    let args = [
        "keys", "create", "--actor", "bob", "--tenant", tenant, "--scope", "read", "--scope",
        "write",
    ];
    let made = haft(data, &args);
    assert_eq!(made.code, 0, "{made:?}");
    let words = made.stdout.split_whitespace();
    words.into_iter().find(|word| word.starts_with("haft_")).unwrap().to_owned()
}

/// Opens a session with an agent of the key's own tenant.
fn open_as(server: &Serving, key: &str) {
    let headers = format!("x-api-key: {key}\r\n");
    let post = |path: &str, body: &Value| {
        let (status, body) = server.raw("POST", path, &headers, &body.to_string());
        assert_eq!(status, 200, "{path}: {body}");
        body["id"].clone()
    };
    let agent = post("/v1/agents", &json!({ "name": "Tour", "model": "scripted/demo" }));
    let environment = post("/v1/environments", &json!({ "name": "here" }));
    post("/v1/sessions", &json!({ "agent": agent, "environment_id": environment }));
}

// E6: "0 verified, 0 broken", exit 0, over a store with sessions.
#[test]
fn an_audit_beside_a_server_covers_every_tenant_and_says_what_it_covered() {
    let data = tempfile::tempdir().unwrap();
    let (bob, eve) = (created_key(data.path(), "globex"), created_key(data.path(), "initech"));
    let admin = "haft_key_of_this_test_alone_0123456789";
    let process = Serving::command(data.path(), &[]).env("HAFT_API_KEY", admin).spawn().unwrap();
    let server = Serving::answering(process, Some(admin)).unwrap();
    open(&server).unwrap();
    open_as(&server, &bob);
    let audit = haft(data.path(), &["audit", "verify"]);
    assert_eq!(audit.code, 0, "{audit:?}");
    assert!(audit.stderr.starts_with("2 sessions verified, 0 broken"), "{audit:?}");
    assert!(audit.stderr.contains("the whole store was covered"), "{audit:?}");
    let shown = haft(data.path(), &["audit", "verify", "--json"]).json();
    assert_eq!((shown["data"].as_array().unwrap().len(), &shown["covered"]), (2, &json!("store")));

    let address = format!("http://{}", server.address);
    let served = |key: &str| served_audit(data.path(), &address, key);
    let audit = served(&bob);
    assert_eq!(audit.code, 0, "{audit:?}");
    assert!(audit.stderr.starts_with("1 sessions verified"), "{audit:?}");
    assert!(audit.stderr.contains("only the logs of the sessions that this key may see"));
    let audit = served(&eve);
    assert_eq!(audit.code, 1, "nothing was verified: {audit:?}");
}

fn served_audit(data: &Path, server: &str, key: &str) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(["audit", "verify", "--server", server])
        .env("HAFT_API_KEY", key)
        .env("HAFT_DATA", data)
        .current_dir(data)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ended { stdout: text(output.stdout), stderr: text(output.stderr), code }
}

fn tamper(data: &Path, sql: &str) {
    let database = rusqlite::Connection::open(data.join("haft.db")).unwrap();
    database.execute_batch(sql).unwrap();
}

// E5: calls and waits that were removed were noticed by nobody, and nothing made them anew.
#[test]
fn rows_that_were_removed_are_found_and_made_anew_from_the_log() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    server.say(&session);
    server.until_idle(&session, "requires_action");
    let waits = |server: &Serving| {
        let listed = server.get("/haft/v1/pending");
        let waits = listed["data"].as_array().unwrap().iter();
        waits.map(|wait| wait["call"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let waiting = waits(&server);
    assert_eq!(waiting.len(), 1);
    let key = kill(server);
    tamper(data.path(), "DELETE FROM calls");
    let audit = haft(data.path(), &["audit", "verify"]);
    assert_eq!(audit.code, 1, "{audit:?}");
    assert!(audit.stdout.contains("its row is missing"), "{audit:?}");
    assert!(audit.stderr.contains("`haft repair`"), "{audit:?}");
    let repair = haft(data.path(), &["repair"]);
    assert_eq!(repair.code, 0, "{repair:?}");
    assert!(repair.stdout.contains("its row is missing"), "{repair:?}");
    assert_eq!(haft(data.path(), &["audit", "verify"]).code, 0);
    let server = Serving::start(data.path(), Some(&key));
    assert_eq!(waits(&server), waiting, "the approval is asked for again");
    let used = haft(data.path(), &["repair"]);
    assert_eq!(used.code, 5, "a store in use is left alone: {used:?}");
    kill(server);
    tamper(data.path(), "UPDATE events SET body = replace(body, 'session', 'sessian')");
    let repair = haft(data.path(), &["repair"]);
    assert_eq!(repair.code, 1, "{repair:?}");
    assert!(repair.stderr.contains("restore a backup"), "{repair:?}");
}

/// What does something at each surface: its path, headers and body.
fn surfaces(session: &str) -> Vec<(String, String, Value)> {
    let said = json!({ "type": "user.message", "content": [{ "type": "text", "text": "go" }] });
    let run = json!({
        "threadId": "t", "runId": "r", "tools": [], "context": [], "state": null,
        "messages": [{ "id": "m", "role": "user", "content": "go" }],
    });
    let parts = json!([{ "type": "text", "text": "go" }]);
    let chat = json!({ "id": "c", "messages": [{ "id": "m", "role": "user", "parts": parts }] });
    let arguments = json!({ "command": "echo hello" });
    let params = json!({ "name": "shell_run", "arguments": arguments, "_meta": meta() });
    let over_mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mcp_headers = "content-type: application/json\r\n\
        accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
        mcp-method: tools/call\r\nmcp-name: shell_run\r\n";
    let demo = json!({ "agent": "agent_demo", "environment_id": "env_demo" });
    let plain = [
        ("/v1/sessions".to_owned(), demo),
        (format!("/v1/sessions/{session}/events"), json!({ "events": [said] })),
        ("/haft/v1/sessions".to_owned(), json!({ "agent": "agent_demo" })),
        (format!("/haft/v1/sessions/{session}/messages"), json!({ "text": "go" })),
        ("/haft/v1/tools/shell_run/call".to_owned(), json!({ "arguments": arguments })),
        ("/ag-ui/agent_demo".to_owned(), run),
        ("/chat/agent_demo".to_owned(), chat),
    ];
    let plain = plain.map(|(path, body)| (path, String::new(), body));
    let over_mcp = ("/mcp".to_owned(), mcp_headers.to_owned(), over_mcp);
    plain.into_iter().chain([over_mcp]).collect()
}

/// Asks for something at each surface, with a key and without, while the store does not write.
#[track_caller]
fn are_unavailable(server: &Serving, session: &str) {
    for (path, headers, body) in surfaces(session) {
        for key in ["", "idempotency-key: in-trouble\r\n"] {
            let headers = format!("x-api-key: {}\r\n{headers}{key}", server.key);
            let body = body.to_string();
            let answer = server.attempt(("POST", &path), &headers, &body, PATIENCE);
            let (status, head, body) = answer.unwrap_or_else(|| panic!("{path}: no answer"));
            // An MCP call within a transport session is answered in JSON-RPC's own words.
            if path == "/mcp" && status == 200 {
                let told = &body["error"]["data"];
                assert_eq!(told["code"], "unavailable", "{path} {key}: {body}");
                assert!(told["retryAfterMs"].is_u64(), "{path} {key}: {body}");
                continue;
            }
            assert_eq!(status, 503, "{path} {key}: {body}");
            assert!(head.to_lowercase().contains("retry-after: "), "{path} {key}: {head}");
        }
    }
}

#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
fn left_out(what: &str) {
    println!("left out: {what} needs what this machine does not have or allow");
}

// E4, U8: a full disk read as ready.
#[test]
fn a_server_on_a_full_disk_is_not_ready_and_is_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(24) else { return left_out("a full disk") };
    let server = Serving::start(disk.path(), None);
    let acknowledged: Vec<_> = (0..5).map(|_| open(&server).unwrap()).collect();
    assert_eq!(probe(&server, "/readyz").0, 200);
    assert_eq!(gauge(&server, "haft_store_writable"), Some(1));
    disk.fill();
    let said = until(&server, "/readyz", 503);
    assert!(said.contains("the disk is full"), "{said}");
    assert_eq!(gauge(&server, "haft_store_writable"), Some(0));
    assert_eq!(gauge(&server, "haft_store_reachable"), Some(1));
    assert_eq!(probe(&server, "/healthz").0, 200, "no restart is needed");
    are_unavailable(&server, &acknowledged[0]);
    disk.clear();
    until(&server, "/readyz", 200);
    open(&server).unwrap();
    assert!(acknowledged.iter().all(|session| is_there(&server, session)));
}

// E4: after a failed sync it was ready for ever, and nothing started it again.
#[test]
fn after_a_failed_sync_only_a_restart_helps_and_the_server_says_so() {
    if cluster::is_left_out() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let Some(failing) = FailingSyncs::of(&server) else { return left_out("a failing sync") };
    let began = Instant::now();
    let mut acknowledged = Vec::new();
    while let Some(session) = open(&server) {
        acknowledged.push(session);
        assert!(began.elapsed() < PATIENCE, "syncs do not fail");
    }
    let said = until(&server, "/healthz", 503);
    assert!(said.contains("could not be made durable"), "{said}");
    drop(failing);
    assert_eq!(probe(&server, "/readyz").0, 503, "a disk that works again changes nothing");
    assert_eq!(probe(&server, "/healthz").0, 503);
    let key = kill(server);
    let server = Serving::start(data.path(), Some(&key));
    assert_eq!(probe(&server, "/healthz").0, 200);
    assert!(acknowledged.iter().all(|session| is_there(&server, session)));
}

// E4: ready over a read-only database and while commits hang; no metrics during an outage.
#[test]
fn a_server_says_that_its_database_is_away_or_does_not_write() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let (data, url) = (tempfile::tempdir().unwrap(), cluster.url());
    let server = Serving::start_with(data.path(), None, &["--database-url", &url]);
    assert_eq!(probe(&server, "/readyz").0, 200);
    let session = open(&server).unwrap();
    assert_eq!(gauge(&server, "haft_calls_in_doubt"), Some(0));
    assert!(gauge(&server, "haft_node_lease_age_seconds").is_some());

    cluster.stop();
    let said = until(&server, "/readyz", 503);
    assert!(said.contains("the database does not answer"), "{said}");
    // What was read of the store a moment ago is shown for a moment.
    let began = Instant::now();
    while gauge(&server, "haft_store_reachable") != Some(0) {
        assert!(began.elapsed() < PATIENCE, "the store seems reachable");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(gauge(&server, "haft_store_writable"), Some(0));
    assert_eq!(gauge(&server, "haft_calls_in_doubt"), Some(0), "as it was read last");
    assert_eq!(probe(&server, "/healthz").0, 200, "no restart is needed");
    are_unavailable(&server, &session);
    cluster.start_again();
    until(&server, "/readyz", 200);

    psql(&cluster, "ALTER SYSTEM SET default_transaction_read_only = on");
    let said = until(&server, "/readyz", 503);
    assert!(said.contains("read-only"), "{said}");
    are_unavailable(&server, &session);
    psql(&cluster, "ALTER SYSTEM SET default_transaction_read_only = off");
    until(&server, "/readyz", 200);

    psql(&cluster, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    let said = until(&server, "/readyz", 503);
    assert!(said.contains("synchronous standby"), "{said}");
    psql(&cluster, "ALTER SYSTEM SET synchronous_standby_names = ''");
    until(&server, "/readyz", 200);
    open(&server).unwrap();
    assert_eq!(probe(&server, "/healthz").0, 200);
}
