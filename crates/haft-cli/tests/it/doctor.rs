//! `haft doctor`: what it says of installations that are well, and of those that are not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::cluster::{self, Cluster};
use crate::commands::{Ended, haft};
use crate::serving::Serving;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A data directory with a store in which one call waits.
fn used() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    set_mode(data.path(), 0o700);
    let call = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#];
    assert_eq!(haft(data.path(), &call).code, 3);
    data
}

fn examined(data: &Path, more: &[&str]) -> Ended {
    haft(data, &[&["doctor", "--json"], more].concat())
}

/// The finding of a name.
#[track_caller]
fn of<'a>(report: &'a Value, name: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {report:#}"))
}

#[track_caller]
fn status<'a>(report: &'a Value, name: &str) -> &'a str {
    of(report, name)["status"].as_str().unwrap()
}

/// All files of a directory with what is in them, but for SQLite's index of its log.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file() && !path.ends_with("haft.db-shm"));
    files.map(|path| (path.display().to_string(), std::fs::read(&path).unwrap())).collect()
}

#[test]
fn a_healthy_directory_has_no_problems_and_is_left_as_it_is() {
    let data = used();
    let before = files(data.path());
    let ended = examined(data.path(), &[]);
    let report = ended.json();
    assert_eq!(ended.code, 0, "{report:#}");
    assert_eq!((&report["ok"], &report["problems"]), (&json!(true), &json!(0)), "{report:#}");
    let well = ["data.directory", "data.permissions", "data.sealing_key"];
    for name in well.iter().chain(&["store", "store.check", "configuration", "server", "sandbox"]) {
        assert_eq!(status(&report, name), "ok", "{report:#}");
    }
    assert_ne!(status(&report, "disk.write"), "problem", "a slow disk is a warning");
    let waiting = of(&report, "waiting")["message"].as_str().unwrap();
    assert_eq!(waiting, "calls that wait for someone: 1, in doubt: 0");
    assert_eq!(files(data.path()), before, "nothing was made or changed");
    let said = haft(data.path(), &["doctor"]);
    assert_eq!(said.code, 0, "{}", said.stdout);
    assert!(said.stdout.contains("nothing has to be fixed"), "{}", said.stdout);
}

// Programs look for names and members: these stay.
#[test]
fn the_report_is_json_with_members_that_stay() {
    let data = used();
    let report = examined(data.path(), &[]).json();
    let members =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(members(&report), ["ok", "version", "problems", "warnings", "findings"]);
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        assert_eq!(members(finding), ["name", "status", "message", "fix"], "{finding}");
        let is_well = finding["status"] == "ok";
        assert_eq!(finding["fix"].is_null(), is_well, "what is not well has a fix: {finding}");
    }
    let names: Vec<&str> = findings.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let expected = [
        "version",
        "configuration",
        "data.directory",
        "data.permissions",
        "disk.space",
        "disk.file_system",
        "disk.write",
        "data.sealing_key",
        "store",
        "store.check",
        "waiting",
        "server",
        "listener",
        "sandbox",
        "sandbox.user_namespace",
        "sandbox.mounts",
        "sandbox.processes",
        "sandbox.ipc",
        "sandbox.privileges",
        "sandbox.seccomp",
        "sandbox.limits",
        "sandbox.network",
        "sandbox.landlock",
        "sandbox.total_memory",
        "provider",
        "clock",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_directory_that_is_not_there_is_told_and_not_made() {
    let data = tempfile::tempdir().unwrap();
    let absent = data.path().join("none");
    let ended = examined(data.path(), &["--data", absent.to_str().unwrap()]);
    assert_eq!(status(&ended.json(), "data.directory"), "warning");
    assert_eq!(ended.code, 0, "a fresh machine is no problem: {}", ended.stdout);
    assert!(!absent.exists());
    let file = data.path().join("file");
    std::fs::write(&file, "").unwrap();
    let ended = examined(data.path(), &["--data", file.to_str().unwrap()]);
    assert_eq!((status(&ended.json(), "data.directory"), ended.code), ("problem", 1));
}

#[test]
fn a_damaged_store_is_a_problem() {
    let data = used();
    let path = data.path().join("haft.db");
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    // The header stays, so that it is a database, and what the pages hold does not.
    damaged[8192..].fill(0xa5);
    std::fs::write(&path, &damaged).unwrap();
    let ended = examined(data.path(), &[]);
    let report = ended.json();
    assert_eq!((status(&report, "store"), ended.code), ("problem", 1), "{report:#}");
    assert!(of(&report, "store")["message"].as_str().unwrap().contains("malformed"), "{report:#}");
    std::fs::write(&path, vec![0x5a; whole.len()]).unwrap();
    let ended = examined(data.path(), &[]);
    assert_eq!((status(&ended.json(), "store"), ended.code), ("problem", 1));
    assert_eq!(std::fs::read(&path).unwrap(), vec![0x5a; whole.len()], "it is left as it is");
}

#[test]
fn files_that_others_may_use_are_problems() {
    let data = used();
    set_mode(data.path(), 0o777);
    let key = data.path().join("sealing-key");
    set_mode(&key, 0o644);
    let ended = examined(data.path(), &[]);
    let report = ended.json();
    assert_eq!(ended.code, 1);
    assert_eq!(status(&report, "data.permissions"), "problem");
    assert!(of(&report, "data.permissions")["fix"].as_str().unwrap().contains("chmod 700"));
    assert_eq!(status(&report, "data.sealing_key"), "problem");
    set_mode(data.path(), 0o755);
    set_mode(&key, 0o600);
    let ended = examined(data.path(), &[]);
    assert_eq!((status(&ended.json(), "data.permissions"), ended.code), ("warning", 0));
    std::fs::write(&key, "short").unwrap();
    assert_eq!(status(&examined(data.path(), &[]).json(), "data.sealing_key"), "problem");
}

#[test]
fn a_running_server_is_found_and_one_that_was_killed_leaves_no_problem() {
    let data = used();
    let server = Serving::start(data.path(), None);
    let ended = examined(data.path(), &[]);
    let report = ended.json();
    assert_eq!(ended.code, 0, "{report:#}");
    let said = of(&report, "server")["message"].as_str().unwrap();
    let process = server.process.id();
    assert_eq!(said, format!("it answers at http://{} (process {process})", server.address));
    for name in ["server.version", "store", "store.check", "listener"] {
        assert_eq!(status(&report, name), "ok", "{report:#}");
    }
    let at = format!("http://{}", server.address);
    let remote = examined(data.path(), &["--server", &at, "--api-key", &server.key]).json();
    assert_eq!(status(&remote, "server"), "ok");
    assert!(of(&remote, "waiting")["message"].as_str().unwrap().contains("someone: 1"));
    assert!(!remote.to_string().contains(&server.key), "no key is printed");
    drop(server);
    let before = files(data.path());
    let ended = examined(data.path(), &[]);
    let report = ended.json();
    assert_eq!((ended.code, status(&report, "server")), (0, "ok"), "{report:#}");
    assert!(of(&report, "server")["message"].as_str().unwrap().contains("was killed"));
    assert_eq!(status(&report, "store.check"), "ok");
    assert_eq!(files(data.path()), before, "what the log holds is read and left there");
    let gone = examined(data.path(), &["--server", &at, "--api-key", "unknown"]);
    assert_eq!((status(&gone.json(), "server"), gone.code), ("problem", 1));
}

#[test]
fn settings_that_nothing_takes_are_named_together() {
    let data = used();
    let file = data.path().join("haft.toml");
    std::fs::write(&file, "lisen = \"x\"\n[serve]\nlimit = 3\n").unwrap();
    let ended = examined(data.path(), &[]);
    assert_eq!(ended.code, 1);
    let report = ended.json();
    let said = of(&report, "configuration")["message"].as_str().unwrap();
    assert!(said.contains("`lisen`") && said.contains("`limit`"), "{said}");
    std::fs::write(&file, "[serve]\nlisten = \"nonsense\"\n").unwrap();
    assert_eq!(status(&examined(data.path(), &[]).json(), "configuration"), "problem");
    std::fs::write(&file, "[serve]\nlisten = \"0.0.0.0:7800\"\n").unwrap();
    let open = examined(data.path(), &[]);
    assert_eq!((status(&open.json(), "listener"), open.code), ("warning", 0), "{}", open.stdout);
    let half = "[serve]\nlisten = \"0.0.0.0:7800\"\ntls_cert = \"nowhere.pem\"\n";
    std::fs::write(&file, half).unwrap();
    let half = examined(data.path(), &[]);
    assert_eq!((status(&half.json(), "listener.tls"), half.code), ("problem", 1));
    std::fs::write(&file, "this is no TOML").unwrap();
    assert_eq!(status(&examined(data.path(), &[]).json(), "configuration"), "problem");
}

#[test]
fn a_provider_that_cannot_be_reached_is_told_without_its_key() {
    let data = used();
    let there = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", there.local_addr().unwrap());
    let flags = ["--openai-api-key", "s3cret", "--openai-base-url"];
    let reached = examined(data.path(), &[&flags[..], &[&base]].concat());
    assert_eq!(status(&reached.json(), "provider.openai"), "ok", "{}", reached.stdout);
    drop(there);
    let gone = examined(data.path(), &[&flags[..], &[&base]].concat());
    assert_eq!((status(&gone.json(), "provider.openai"), gone.code), ("problem", 1));
    assert!(!gone.stdout.contains("s3cret") && !gone.stderr.contains("s3cret"));
}

#[test]
fn a_database_is_looked_at_and_left_as_it_is() {
    if cluster::is_left_out() {
        println!("left out: PostgreSQL (HAFT_TEST_FAST=1)");
        return;
    }
    let cluster = Cluster::private();
    let (data, url) = (tempfile::tempdir().unwrap(), cluster.url());
    let flags = ["--database-url", url.as_str()];
    let ended = examined(data.path(), &flags);
    let report = ended.json();
    for name in ["database", "database.schema", "database.writable", "database.clock"] {
        assert_eq!(status(&report, name), "ok", "{report:#}");
    }
    let schema = of(&report, "database.schema")["message"].as_str().unwrap();
    assert_eq!(schema, "it holds no store yet; `haft serve` makes it");
    let again = examined(data.path(), &flags).json();
    assert_eq!(of(&again, "database.schema"), of(&report, "database.schema"), "nothing was made");
    let server = Serving::start_with(data.path(), None, &flags);
    let report = examined(data.path(), &flags).json();
    assert!(of(&report, "database.schema")["message"].as_str().unwrap().starts_with("format "));
    assert_eq!(status(&report, "waiting"), "ok");
    drop(server);
    let gone = "postgres://nobody@127.0.0.1:9/none";
    let ended = examined(data.path(), &["--database-url", gone]);
    assert_eq!((status(&ended.json(), "database"), ended.code), ("problem", 1));
}
