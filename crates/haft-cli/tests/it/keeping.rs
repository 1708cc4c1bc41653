//! Backups, what is in doubt after one was put back, deletion and retention, as an operator has them.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::commands::{Ended, haft};
use crate::serving::Serving;
use crate::settling::until;
use crate::stopping::terminate;

/// How often any file below a directory holds a text.
fn holds(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holds(&path, text));
            if path.to_string_lossy().contains(text) {
                found.push(path.display().to_string());
            }
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[track_caller]
fn succeeds(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
}

/// Has a command wait for approval that leaves a mark outside of every data directory when it
/// runs; returns the call.
fn asked(data: &Path, name: &str) -> String {
    let arguments = json!({ "command": format!("echo ran >> {name}") }).to_string();
    let called = haft(data, &["tools", "call", "shell_run", "--args", &arguments, "--json"]);
    assert_eq!(called.code, 3, "{}{}", called.stdout, called.stderr);
    called.json()["call"].as_str().unwrap().to_owned()
}

/// How often a command ran, over all workspaces.
fn ran(data: &Path, name: &str) -> usize {
    let workspaces = fs::read_dir(data.join("workspaces")).into_iter().flatten();
    let lines = workspaces.map(|workspace| {
        let text = fs::read_to_string(workspace.unwrap().path().join(name)).unwrap_or_default();
        text.lines().count()
    });
    lines.sum()
}

fn pending(data: &Path) -> Vec<Value> {
    haft(data, &["pending", "--json"]).json()["data"].as_array().unwrap().clone()
}

// An approval that was given after the backup is not asked for again as if nothing had happened,
// and what it let run is not repeated by itself.
#[test]
fn what_was_approved_and_ran_after_the_backup_is_in_doubt_when_it_is_put_back() {
    let place = tempfile::tempdir().unwrap();
    let (data, again) = (place.path().join("data"), place.path().join("again"));
    fs::create_dir(&data).unwrap();
    let server = Serving::start(&data, None);
    let key = server.key.clone();
    let call = asked(&data, "mark");
    let file = place.path().join("haft.tar");
    let shown = file.to_str().unwrap();
    succeeds(&haft(&data, &["backup", shown]));
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it holds the sealing key");
    succeeds(&haft(&data, &["approve", &call]));
    assert_eq!(ran(&data, "mark"), 1);
    drop(server);

    fs::create_dir(&again).unwrap();
    let restored = haft(&again, &["restore", shown, "--json"]);
    succeeds(&restored);
    assert_eq!(restored.json()["calls_in_doubt"], 1, "{}", restored.stdout);
    let audit = haft(&again, &["audit", "verify"]);
    succeeds(&audit);
    let sealing = |data: &Path| fs::read(data.join("sealing-key")).unwrap();
    assert_eq!(sealing(&again), sealing(&data));

    let _server = Serving::start(&again, Some(&key));
    let waits = pending(&again);
    assert_eq!(waits.len(), 1, "{waits:#?}");
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["reason"]),
        (&json!("settlement"), &json!("restored"))
    );
    assert_eq!(waits[0]["call"], call.as_str());
    let told = haft(&again, &["pending", &call]).stdout;
    assert!(told.contains("restored from a backup, and the call may have run since"), "{told}");
    let approved = haft(&again, &["approve", &call]);
    assert_ne!(approved.code, 0, "it is not asked for as if nothing had happened");
    assert_eq!(ran(&again, "mark"), 0, "nothing runs by itself");
    // Whoever says that it did not happen is asked before it runs.
    let settled = haft(&again, &["settle", &call, "run-again"]);
    assert_eq!(settled.code, 3, "{}{}", settled.stdout, settled.stderr);
    assert_eq!(ran(&again, "mark"), 0);
    succeeds(&haft(&again, &["approve", &call]));
    assert_eq!(ran(&again, "mark"), 1);
}

// While sessions are being written, a backup is as of one moment; without a server as well.
#[test]
fn a_backup_under_load_is_put_back_whole() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::create_dir_all(data.join("notes/deep")).unwrap();
    let long = "n".repeat(150);
    fs::write(data.join("notes/deep").join(&long), "kept").unwrap();
    std::os::unix::fs::symlink("deep", data.join("notes/link")).unwrap();
    let server = Serving::start(&data, None);
    let stop = AtomicBool::new(false);
    let files = [1, 2].map(|n| place.path().join(format!("{n}.tar")));
    let acknowledged: Vec<String> = (0..10).map(|_| server.session()).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let session = server.session();
                    server.say(&session);
                }
            });
        }
        succeeds(&haft(&data, &["backup", files[0].to_str().unwrap()]));
        stop.store(true, Ordering::Relaxed);
    });
    let inside = haft(&data, &["backup", data.join("in.tar").to_str().unwrap()]);
    assert_ne!(inside.code, 0, "it would be a part of itself");
    let there = haft(&data, &["backup", files[0].to_str().unwrap()]);
    assert_ne!(there.code, 0, "nothing is written over");
    drop(server);
    succeeds(&haft(&data, &["backup", files[1].to_str().unwrap()]));
    for (n, file) in files.iter().enumerate() {
        let again = place.path().join(format!("again{n}"));
        fs::create_dir(&again).unwrap();
        succeeds(&haft(&again, &["restore", file.to_str().unwrap()]));
        succeeds(&haft(&again, &["audit", "verify"]));
        for session in &acknowledged {
            succeeds(&haft(&again, &["sessions", "show", session, "--json"]));
        }
        assert_eq!(fs::read_to_string(again.join("notes/deep").join(&long)).unwrap(), "kept");
        assert_eq!(fs::read_link(again.join("notes/link")).unwrap(), Path::new("deep"));
        let refused = haft(&again, &["restore", file.to_str().unwrap()]);
        assert!(refused.stderr.contains("it is not empty"), "{}", refused.stderr);
    }
}

#[test]
fn a_backup_that_was_cut_off_or_changed_is_refused_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    asked(&data, "mark");
    let file = place.path().join("haft.tar");
    succeeds(&haft(&data, &["backup", file.to_str().unwrap()]));
    let whole = fs::read(&file).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    let bad = [whole[..whole.len() - 2_000].to_vec(), whole[..700].to_vec(), changed, Vec::new()];
    for (n, bytes) in bad.into_iter().enumerate() {
        let (file, again) =
            (place.path().join(format!("{n}.tar")), place.path().join(n.to_string()));
        fs::write(&file, bytes).unwrap();
        fs::create_dir(&again).unwrap();
        let refused = haft(&again, &["restore", file.to_str().unwrap()]);
        assert!(refused.stderr.contains("not a whole backup"), "{n}: {}", refused.stderr);
        assert_eq!(fs::read_dir(&again).unwrap().count(), 0, "{n}");
    }
}

/// A session in which a text was said, written to a file, and answered.
fn said(data: &Path, text: &str) -> String {
    let arguments =
        json!({ "command": format!("echo {text} | tee note; seq 1 30000; echo {text}") });
    let arguments = arguments.to_string();
    let called = haft(data, &["tools", "call", "shell_run", "--args", &arguments, "--json"]);
    assert_eq!(called.code, 3, "{}{}", called.stdout, called.stderr);
    let call = called.json()["call"].as_str().unwrap().to_owned();
    succeeds(&haft(data, &["approve", &call]));
    called.json()["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_deleted_session_is_in_no_list_and_in_no_file_and_the_record_of_it_is_verified() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let server = Serving::start(&data, None);
    let (gone, stays) = (said(&data, "CANARY-gone"), said(&data, "CANARY-stays"));
    let wanted = json!({
        "agent": "agent_demo", "environment_id": "env_demo", "title": "CANARY-gone title",
        "metadata": { "of": "CANARY-gone" },
    });
    let wire = server.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned();
    let content = json!([{ "type": "text", "text": "CANARY-gone said" }]);
    server.send(&wire, &json!({ "type": "user.message", "content": content }));
    server.until_idle(&wire, "requires_action");
    assert!(!holds(&data, "CANARY-gone").is_empty());
    let export = haft(&data, &["sessions", "export", &gone]);
    succeeds(&export);
    let file = place.path().join("gone.jsonl");
    fs::write(&file, &export.stdout).unwrap();
    succeeds(&haft(&data, &["audit", "verify", "--file", file.to_str().unwrap()]));
    assert!(export.stdout.contains("\"type\":\"artifact\""), "what was large is in it");

    let deleted = haft(&data, &["sessions", "delete", &gone, "--json"]);
    succeeds(&deleted);
    assert_eq!(deleted.json()["state"], "erased", "{}", deleted.stdout);
    let (status, body) = server.ask("DELETE", &format!("/v1/sessions/{wire}"), &Value::Null);
    assert_eq!((status, &body["type"]), (200, &json!("session_deleted")), "{body}");
    assert_eq!(holds(&data, "CANARY-gone"), Vec::<String>::new());
    let listed = haft(&data, &["sessions", "list", "--json"]).stdout;
    for session in [&gone, &wire] {
        assert!(!listed.contains(session.as_str()), "{listed}");
        for path in ["", "/events", "/stream", "/events/stream", "/export"] {
            let (status, _) =
                server.ask("GET", &format!("/haft/v1/sessions/{session}{path}"), &Value::Null);
            assert_eq!(status, 404, "{path}");
        }
        assert_eq!(server.ask("GET", &format!("/v1/sessions/{session}"), &Value::Null).0, 404);
        assert_ne!(haft(&data, &["sessions", "show", session]).code, 0);
        for directory in ["workspaces", "uploads", "skills"] {
            assert!(!data.join(directory).join(session).exists(), "{directory}");
        }
    }
    let again = haft(&data, &["sessions", "delete", &gone]);
    assert_ne!(again.code, 0, "there is nothing to delete any more");
    let audit = haft(&data, &["audit", "verify"]);
    succeeds(&audit);
    assert!(audit.stderr.contains("2 sessions erased; their record is whole"), "{}", audit.stderr);
    let kept = server.get("/haft/v1/erasures");
    let end: Value = serde_json::from_str(export.stdout.lines().last().unwrap()).unwrap();
    let record = &kept["data"][0];
    assert_eq!((&record["session"], &kept["chain"]["state"]), (&json!(gone), &json!("whole")));
    // Deleting ends the session, which is told by two entries more.
    let n_exported = end["entries"].as_u64().unwrap();
    assert_eq!(record["entries"].as_u64().unwrap(), n_exported + 2, "{record}");
    let changed = export.stdout.replace("CANARY-gone", "canary-gone");
    fs::write(&file, changed).unwrap();
    assert_eq!(haft(&data, &["audit", "verify", "--file", file.to_str().unwrap()]).code, 1);
    assert!(haft(&data, &["sessions", "events", &stays]).stdout.contains("CANARY-stays"));
    drop(server);
    succeeds(&haft(&data, &["audit", "verify"]));
    assert_eq!(holds(&data, "CANARY-gone"), Vec::<String>::new(), "nor after a stop");
}

#[test]
fn what_is_older_than_retain_is_erased_and_what_waits_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    let (old, waits) = (said(&data, "CANARY-old"), asked(&data, "mark"));
    let _server = Serving::start_with(&data, None, &["--retain", "1s"]);
    until("the old session is erased", || holds(&data, "CANARY-old").is_empty());
    assert_ne!(haft(&data, &["sessions", "show", &old]).code, 0);
    let left = pending(&data);
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!(left[0]["call"], waits.as_str());
    let audit = haft(&data, &["audit", "verify"]);
    assert!(audit.stderr.contains("1 sessions erased"), "{}", audit.stderr);
}

// PostgreSQL is backed up by its own tools; what was put back is marked, and sessions are erased.
#[test]
fn on_postgresql_sessions_are_erased_and_a_database_that_was_put_back_is_marked() {
    if cluster::is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let place = tempfile::tempdir().unwrap();
    let (data, url) = (place.path(), cluster.url());
    let over = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        let output = command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HAFT_DATA", data)
            .env("HAFT_DATABASE_URL", &url)
            .current_dir(data)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Ended { stdout: text(output.stdout), stderr: text(output.stderr), code }
    };
    let refused = over(&["backup", "there.tar"]);
    assert!(refused.stderr.contains("pg_dump"), "{}", refused.stderr);
    let server = Serving::start_with(data, None, &["--database-url", &url]);
    let arguments = json!({ "command": "echo ran >> mark" }).to_string();
    let call = |over: &dyn Fn(&[&str]) -> Ended| {
        over(&["tools", "call", "shell_run", "--args", &arguments, "--json"]).json()
    };
    let (gone, waits) = (call(&over), call(&over));
    let busy = over(&["restore", "--mark-only"]);
    assert_eq!(busy.code, 5, "a node is alive: {}", busy.stderr);
    let deleted = over(&["sessions", "delete", gone["session"].as_str().unwrap()]);
    succeeds(&deleted);
    let key = server.key.clone();
    stop(server);
    let marked = over(&["restore", "--mark-only", "--json"]);
    succeeds(&marked);
    assert_eq!(marked.json()["calls_in_doubt"], 1, "{}", marked.stdout);
    let audit = over(&["audit", "verify"]);
    succeeds(&audit);
    assert!(audit.stderr.contains("1 sessions erased; their record is whole"), "{}", audit.stderr);
    let _server = Serving::start_with(data, Some(&key), &["--database-url", &url]);
    let left = over(&["pending", "--json"]).json()["data"].as_array().unwrap().clone();
    assert_eq!(left.len(), 1, "{left:#?}");
    assert_eq!((&left[0]["kind"], &left[0]["call"]), (&json!("settlement"), &waits["call"]));
}

/// Stops a server as an operator does, so that its node is known to be gone.
fn stop(mut server: Serving) {
    terminate(&server);
    assert!(server.process.wait().unwrap().success());
}
