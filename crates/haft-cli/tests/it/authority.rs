//! Keys with an end, and what somebody does to keys and grants behind the program's back.

use std::path::Path;

use haft_core::Digest;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::commands::haft;
use crate::serving::Serving;

fn database(data: &Path) -> Connection {
    Connection::open(data.join("haft.db")).unwrap()
}

/// Stops a server and returns the key that it was started with.
fn stopped(mut server: Serving) -> String {
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    server.key.clone()
}

fn status_with(server: &Serving, key: &str) -> (u16, Value) {
    server.raw("GET", "/haft/v1/me", &format!("x-api-key: {key}\r\n"), "")
}

// X13: a key may have an end, which is listed.
#[test]
fn x13_a_key_is_made_with_an_end_and_listed_with_it() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let made = haft(
        data.path(),
        &["keys", "create", "--actor", "ann", "--scope", "read", "--expires", "30d"],
    );
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(status_with(&server, made.stdout.trim()).0, 200);
    let listed = haft(data.path(), &["keys", "list"]);
    assert!(listed.stdout.contains("good until "), "{listed:?}");
    let refused = haft(
        data.path(),
        &["keys", "create", "--actor", "bob", "--scope", "read", "--expires", "soon"],
    );
    assert_ne!(refused.code, 0, "{refused:?}");
}

/// Puts an API key into the database that nobody made, as whoever has the file could.
fn forge_key(data: &Path, key: &str) {
    let digest = Digest::of_bytes(key.as_bytes());
    let name: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let record = json!({
        "digest": digest, "tenant": "default", "actor": {"kind": "user", "id": "eve"},
        "scopes": ["admin"], "created_at": 1,
    });
    let body = record.to_string().into_bytes();
    let content = Digest::of_bytes(&body);
    let database = database(data);
    database
        .execute(
            "INSERT INTO blobs (digest, body) VALUES (?1, ?2)",
            params![content.as_bytes(), body],
        )
        .unwrap();
    database
        .execute(
            "INSERT INTO versions (tenant, space, key, number, digest, author, at)
             VALUES ('haft:server', 'keys', ?1, 1, ?2, ?3, 1)",
            params![name, content.as_bytes(), r#"{"kind":"user","id":"eve"}"#],
        )
        .unwrap();
}

// Issue 19: a key that was put into the database is found, and opens nothing.
#[test]
fn a_key_that_nobody_made_opens_nothing_and_is_found() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    server.session();
    let key = stopped(server);
    let whole = haft(data.path(), &["audit", "verify"]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert!(whole.stderr.contains("their record is whole"), "{whole:?}");
    forge_key(data.path(), "haft_forged");
    let found = haft(data.path(), &["audit", "verify"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains("is not in the record of authority"), "{found:?}");
    let server = Serving::start(data.path(), Some(&key));
    assert_eq!(status_with(&server, "haft_forged").0, 401);
    assert_eq!(status_with(&server, &key).0, 200, "who has a key goes on");
}

// Issue 19: whoever cuts off the end of the record with what it tells of is found by a session that
// was opened since, and by a checkpoint in any case.
#[test]
fn what_is_cut_off_is_found_by_sessions_and_by_a_checkpoint() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let made = haft(data.path(), &["keys", "create", "--actor", "ann", "--scope", "read"]);
    assert_eq!(made.code, 0, "{made:?}");
    server.session();
    stopped(server);
    let checkpoint = data.path().join("checkpoint.json");
    let written = haft(data.path(), &["audit", "checkpoint"]);
    assert_eq!(written.code, 0, "{written:?}");
    std::fs::write(&checkpoint, &written.stdout).unwrap();
    let checkpoint = checkpoint.to_str().unwrap();
    let holds = haft(data.path(), &["audit", "verify", "--checkpoint", checkpoint]);
    assert_eq!(holds.code, 0, "{holds:?}");
    let database = database(data.path());
    database
        .execute_batch(
            "DELETE FROM versions WHERE (tenant, space, key, number) IN (SELECT tenant, space, key,
               version FROM authority ORDER BY number DESC LIMIT 1);
             DELETE FROM authority WHERE number = (SELECT max(number) FROM authority);",
        )
        .unwrap();
    drop(database);
    let found = haft(data.path(), &["audit", "verify"]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains("as it was when the session was opened"), "{found:?}");
    let found = haft(data.path(), &["audit", "verify", "--checkpoint", checkpoint]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains("as the checkpoint of"), "{found:?}");
    let none = haft(data.path(), &["audit", "checkpoint"]);
    assert_eq!(none.code, 1, "there is none of a store that is not whole: {none:?}");
}
