//! What becomes of a server that is asked to stop, and of clients that do not come to the point.

#![expect(clippy::disallowed_methods, reason = "sends a signal to the binary")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::serving::{PATIENCE, Serving};

pub(crate) fn terminate(server: &Serving) {
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
}

fn connect(server: &Serving, said: &str) -> TcpStream {
    let mut connection = TcpStream::connect(&server.address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(said.as_bytes()).unwrap();
    connection
}

/// Reads until the server closes the connection.
fn until_closed(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is reset is closed as well.
    drop(connection.read_to_end(&mut answer));
    String::from_utf8(answer).unwrap()
}

/// The kinds of a session's events.
fn log_of(server: &Serving, session: &str) -> Vec<String> {
    let log = server.get(&format!("/haft/v1/sessions/{session}/events"));
    let events = log["data"].as_array().unwrap().iter();
    events.map(|it| it["event"]["type"].as_str().unwrap().to_owned()).collect()
}

// What runs when the server is asked to stop ends, and is on record for the next process.
#[test]
fn a_call_that_runs_when_the_server_is_asked_to_stop_ends_and_is_recorded() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Serving::start(data.path(), None);
    let key = server.key.clone();
    let session = running(&server);
    let session = session.as_str();
    // A stream that is followed and half a request are no reason to wait.
    let headers = format!("x-api-key: {key}\r\n");
    let stream = format!("/haft/v1/sessions/{session}/stream");
    let _half = connect(&server, "GET /healthz HTTP/1.1\r\nhost: localh");
    let mut followed = server.connect("GET", &stream, &headers, "");
    // Connections are accepted in order: when this one is answered, the server has both.
    followed.read_exact(&mut [0; 12]).unwrap();
    terminate(&server);
    std::fs::write(data.path().join("workspaces").join(session).join("go"), "").unwrap();
    assert!(server.process.wait().unwrap().success());
    drop(server);
    let server = Serving::start(data.path(), Some(&key));
    let told = log_of(&server, session);
    assert!(told.contains(&"call.finished".to_owned()), "{told:?}");
    assert!(!told.contains(&"call.interrupted".to_owned()), "nothing is in doubt: {told:?}");
    let whole = server.get(&format!("/haft/v1/sessions/{session}/events")).to_string();
    assert!(whole.matches("it ended").count() > 1, "its output is kept too: {whole}");
}

/// Has a command under way that ends when there is a file `go` in its directory; returns its
/// session.
fn running(server: &Serving) -> String {
    let command = "until [ -e go ]; do sleep 0.05; done; echo it ended";
    let wanted = json!({ "arguments": { "command": command } });
    let asked = server.post("/haft/v1/tools/shell_run/call", &wanted);
    let (session, call) = (asked["session"].as_str().unwrap(), asked["call"].as_str().unwrap());
    let resolve = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    server.post(&resolve, &json!({ "type": "approve" }));
    let started = Instant::now();
    while !log_of(server, session).contains(&"call.started".to_owned()) {
        assert!(started.elapsed() < PATIENCE, "{:?}", log_of(server, session));
        thread::sleep(Duration::from_millis(20));
    }
    session.to_owned()
}

#[test]
fn a_call_may_go_on_for_as_long_as_the_stop_timeout_says() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Serving::command(data.path(), &[]);
    let process = command.env("HAFT_STOP_TIMEOUT", "10m").spawn().unwrap();
    let mut server = Serving::answering(process, None).unwrap();
    let (key, session) = (server.key.clone(), running(&server));
    terminate(&server);
    // Longer than a server waits that was not told otherwise; a shorter sleep can only let the
    // test pass.
    thread::sleep(Duration::from_secs(12));
    std::fs::write(data.path().join("workspaces").join(&session).join("go"), "").unwrap();
    assert!(server.process.wait().unwrap().success());
    drop(server);
    let server = Serving::start(data.path(), Some(&key));
    let told = log_of(&server, &session);
    assert!(told.contains(&"call.finished".to_owned()), "{told:?}");
    assert!(!told.contains(&"call.interrupted".to_owned()), "nothing is in doubt: {told:?}");
}

#[test]
fn a_call_that_outlasts_the_stop_timeout_is_in_doubt_after_the_restart() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Serving::start_with(data.path(), None, &["--stop-timeout", "1s"]);
    let (key, session) = (server.key.clone(), running(&server));
    terminate(&server);
    assert!(server.process.wait().unwrap().success(), "it ends although the call never does");
    drop(server);
    let server = Serving::start(data.path(), Some(&key));
    let started = Instant::now();
    while server.get("/haft/v1/pending")["data"][0]["kind"] != "settlement" {
        assert!(started.elapsed() < PATIENCE, "{:?}", log_of(&server, &session));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_whose_terminal_is_gone_serves_and_stops_when_it_is_asked_to() {
    let data = tempfile::tempdir().unwrap();
    let (gone, log) = std::io::pipe().unwrap();
    drop(gone);
    let more = ["--log-level", "debug"];
    let mut server = Serving::start_saying(data.path(), None, &more, Stdio::from(log));
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
    let session = server.session();
    assert!(!log_of(&server, &session).is_empty());
    terminate(&server);
    assert!(server.process.wait().unwrap().success());
}

#[test]
fn slow_and_silent_clients_hold_nobody_up_and_are_let_go() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let half = "POST /haft/v1/login HTTP/1.1\r\nhost: localhost\r\n";
    let silent: Vec<_> = (0..200).map(|_| connect(&server, half)).collect();
    let (key, n) = (&server.key, 1000);
    let slow = connect(
        &server,
        &format!("{half}x-api-key: {key}\r\ncontent-length: {n}\r\n\r\n{{\"key\": "),
    );
    let started = Instant::now();
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
    let others = started.elapsed();
    let answer = until_closed(slow);
    assert!(answer.starts_with("HTTP/1.1 4"), "the slow one is told: {answer:?}");
    for connection in silent {
        until_closed(connection);
    }
    // By the time that the silent are let go, the others were answered long since.
    assert!(others < started.elapsed() / 2, "{others:?} of {:?}", started.elapsed());
    assert_eq!(server.raw("GET", "/readyz", "", "").0, 200);
}
