//! Requests that nobody should send: too large, too slow, never ended, for what is someone else's.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::serving::{PATIENCE, Serving};
use crate::settling::until;

const KEY: &str = "the-admin-key-of-a-test";

fn serving(data: &Path, options: &[&str]) -> Serving {
    let chosen = ["--api-key", KEY];
    Serving::start_with(data, Some(KEY), &[&chosen, options].concat())
}

/// Makes a key where the store is, before a server has it.
fn key_of(data: &Path, tenant: &str, scope: &str) -> String {
    let options = ["--tenant", tenant, "--actor", "ann", "--scope", scope];
    let made = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(["keys", "create", "--data"])
        .arg(data)
        .args(options)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

fn with_key(key: &str) -> String {
    format!("x-api-key: {key}\r\n")
}

/// Sends bytes as they are; returns the status of the answer, if one comes.
fn sent(server: &Serving, bytes: &[u8]) -> Option<u16> {
    let mut connection = TcpStream::connect(&server.address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    // Whoever is refused before all was sent may find the connection closed.
    drop(connection.write_all(bytes));
    let mut answer = Vec::new();
    drop(connection.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1)?.parse().ok()
}

fn head(server: &Serving, method: &str, path: &str, headers: &str) -> String {
    let address = &server.address;
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {KEY}\r\n\
         connection: close\r\n{headers}\r\n"
    )
}

// One byte more than is read, so that nothing is left unread: a connection that is closed with
// something unread may lose the answer.
#[test]
fn a_body_that_is_too_large_is_refused_however_it_is_sent() {
    const LIMIT: usize = 8 << 20;
    let data = tempfile::tempdir().unwrap();
    let server = serving(data.path(), &[]);
    let frame = "{\"name\":\"\"}".len();
    let body = format!("{{\"name\":\"{}\"}}", "a".repeat(LIMIT + 1 - frame));
    let (status, answer) = server.raw("POST", "/v1/agents", &with_key(KEY), &body);
    assert_eq!((status, &answer["error"]["type"]), (413, &json!("request_too_large")));
    let mut chunked =
        head(&server, "POST", "/v1/agents", "transfer-encoding: chunked\r\n").into_bytes();
    for piece in body.as_bytes().chunks(1 << 16) {
        chunked.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        chunked.extend(piece);
        chunked.extend(b"\r\n");
    }
    assert_eq!(sent(&server, &chunked), Some(413));
    assert_eq!(server.get("/v1/agents")["data"].as_array().unwrap().len(), 1, "the demo's");
}

#[test]
fn streams_that_nobody_reads_are_given_up_and_hold_nobody_up() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(data.path(), &[]);
    let session = server.session();
    let open_files = || {
        let held = format!("/proc/{}/fd", server.process.id());
        std::fs::read_dir(held).unwrap().count()
    };
    let before = open_files();
    let path = format!("/haft/v1/sessions/{session}/stream");
    let streams: Vec<TcpStream> =
        (0..100).map(|_| server.connect("GET", &path, &with_key(KEY), "")).collect();
    server.say(&session);
    server.until_idle(&session, "requires_action");
    // What else was open before may have been closed meanwhile.
    until("the streams are open", || open_files() >= before + 80);
    for (at, stream) in streams.into_iter().enumerate() {
        if at % 2 == 0 {
            // Half open: the client says that it sends nothing more, then is gone.
            stream.shutdown(Shutdown::Write).unwrap();
        }
    }
    until("the streams are given up", || open_files() <= before + 50);
}

#[test]
fn an_id_that_was_made_up_names_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(data.path(), &[]);
    let long = "a".repeat(4000);
    let forged = [
        "sesn_00000000000000000000000000",
        "sesn_",
        "%00",
        "%ff%fe",
        "..%2f..%2fetc%2fpasswd",
        "%F0%9F%92%A9",
        "a%20b",
        "-1",
        "null",
        long.as_str(),
    ];
    for (path, methods) in described(&server) {
        for method in methods {
            for id in forged {
                let path = filled(&path, |_| id.to_owned());
                let (status, answer) = server.raw(&method, &path, &with_key(KEY), "{}");
                let is_told = answer["error"]["message"].is_string();
                assert!((400..500).contains(&status) && is_told, "{method} {path}: {status}");
            }
        }
    }
}

/// The paths that name something, with their methods, as the server describes them.
fn described(server: &Serving) -> Vec<(String, Vec<String>)> {
    let document = server.get("/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    let named = paths.iter().filter(|(path, _)| path.contains('{'));
    named
        .map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            (path.clone(), methods.map(|method| method.to_uppercase()).collect())
        })
        .collect()
}

fn filled(path: &str, id: impl Fn(&str) -> String) -> String {
    let segments = path.split('/').map(|segment| {
        let name = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}'));
        name.map_or_else(|| segment.to_owned(), &id)
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Something of every kind that a path can name.
fn made(server: &Serving) -> Vec<(&'static str, String)> {
    let id = |path: &str, body: Value| server.post(path, &body)["id"].as_str().unwrap().to_owned();
    let agent = id("/v1/agents", json!({ "name": "a", "model": "scripted/demo" }));
    let environment = id("/v1/environments", json!({ "name": "e" }));
    let session = id("/v1/sessions", json!({ "agent": agent, "environment_id": environment }));
    let store = id("/v1/memory_stores", json!({ "name": "m" }));
    let memories = format!("/v1/memory_stores/{store}/memories");
    let memory = id(&memories, json!({ "path": "/a", "content": "b" }));
    let listed = server.get(&format!("/v1/memory_stores/{store}/memory_versions"));
    let version = listed["data"][0]["id"].as_str().unwrap().to_owned();
    let vault = id("/v1/vaults", json!({ "display_name": "v" }));
    let secret = json!({
        "type": "static_bearer", "mcp_server_url": "https://mcp.example.org", "token": "t",
    });
    let credential = id(&format!("/v1/vaults/{vault}/credentials"), json!({ "auth": secret }));
    let listed = server.get(&format!("/v1/sessions/{session}/threads"));
    let thread = listed["data"][0]["id"].as_str().unwrap().to_owned();
    vec![
        ("agent", agent),
        ("environment", environment),
        ("session", session),
        ("store", store),
        ("memory", memory),
        ("version", version),
        ("vault", vault),
        ("credential", credential),
        ("thread", thread),
    ]
}

// Another tenant's id is answered with the words for one that never was: nobody learns what there
// is. The paths are those of the description, so that a path that is added is tried too.
#[test]
fn what_another_tenant_has_is_not_there() {
    let data = tempfile::tempdir().unwrap();
    let stranger = key_of(data.path(), "other", "admin");
    let server = serving(data.path(), &[]);
    let made = made(&server);
    let known = |name: &str| made.iter().find(|(known, _)| *known == name);
    let unknown = |name: &str| {
        known(name).map_or_else(
            || "no".to_owned(),
            |(_, id)| {
                let (kept, last) = id.split_at(id.len() - 1);
                format!("{kept}{}", if last == "0" { "1" } else { "0" })
            },
        )
    };
    for (path, methods) in described(&server) {
        for method in methods {
            let theirs =
                |name: &str| known(name).map_or_else(|| "no".to_owned(), |(_, id)| id.clone());
            let told = |path: &str| {
                let (status, answer) = server.raw(&method, path, &with_key(&stranger), "{}");
                let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
                (status, message)
            };
            let (there, nowhere) = (filled(&path, theirs), filled(&path, unknown));
            let ((status, message), (other, expected)) = (told(&there), told(&nowhere));
            assert!((400..500).contains(&status), "{method} {there}: {status}");
            let mut message = message;
            for (name, id) in &made {
                message = message.replace(id, &unknown(name));
            }
            assert_eq!((status, message), (other, expected), "{method} {there}");
        }
    }
    for (name, id) in &made {
        if let "agent" | "environment" | "session" | "vault" = *name {
            server.get(&format!("/v1/{name}s/{id}"));
        }
    }
}

#[test]
fn a_key_is_listed_by_its_name_and_opens_nothing_once_it_is_revoked() {
    let data = tempfile::tempdir().unwrap();
    let stranger = key_of(data.path(), "other", "admin");
    let server = serving(data.path(), &[]);
    let made = server.post("/haft/v1/keys", &json!({ "actor": "bob", "scopes": ["read"] }));
    let key = made["key"].as_str().unwrap();
    let listed = || server.get("/haft/v1/keys")["data"].as_array().unwrap().clone();
    let before = listed();
    assert_eq!(before.len(), 1, "another tenant's keys are not listed: {before:?}");
    assert_eq!(
        (&before[0]["scopes"], &before[0]["last_used_at"]),
        (&json!(["read"]), &Value::Null)
    );
    assert!(!Value::from(before).to_string().contains(key));
    let agents = |key: &str| server.raw("GET", "/v1/agents", &with_key(key), "").0;
    assert_eq!(agents(key), 200);
    let used = listed();
    assert!(used[0]["last_used_at"].is_u64(), "{used:?}");
    let path = format!("/haft/v1/keys/{}", used[0]["id"].as_str().unwrap());
    assert_eq!(server.raw("DELETE", &path, &with_key(key), "").0, 403);
    assert_eq!(server.raw("DELETE", &path, &with_key(&stranger), "").0, 404);
    assert_eq!(agents(key), 200);
    let (status, revoked) = server.ask("DELETE", &path, &Value::Null);
    assert_eq!(status, 200, "{revoked}");
    assert!(revoked["revoked_at"].is_u64());
    assert_eq!(agents(key), 401);
    assert_eq!(server.ask("DELETE", &path, &Value::Null), (200, revoked), "again");
}
