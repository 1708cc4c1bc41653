//! `haft serve` with a certificate of its own: HTTPS for browsers, programs and our own commands.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::commands::haft;
use crate::serving::{PATIENCE, Serving};
use crate::stopping::terminate;

/// A certificate and its key in files.
struct Pair {
    directory: tempfile::TempDir,
}

impl Pair {
    /// Returns a new pair in files, and its certificate.
    fn made() -> (Self, CertificateDer<'static>) {
        let pair = Self { directory: tempfile::tempdir().unwrap() };
        let certificate = pair.renew();
        (pair, certificate)
    }

    /// Replaces both files, and returns the new certificate.
    fn renew(&self) -> CertificateDer<'static> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
        std::fs::write(self.certificate(), made.cert.pem()).unwrap();
        made.cert.der().clone()
    }

    fn certificate(&self) -> PathBuf {
        self.directory.path().join("fullchain.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("privkey.pem")
    }

    fn flags(&self) -> [String; 4] {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (certificate, key) = (text(self.certificate()), text(self.key()));
        ["--tls-cert".to_owned(), certificate, "--tls-key".to_owned(), key]
    }

    fn serve(&self, data: &Path, key: Option<&str>) -> Serving {
        Serving::start_with(data, key, &self.flags().each_ref().map(String::as_str))
    }
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Connects and shakes hands, trusting this certificate only.
fn connected(address: &str, trusted: &CertificateDer<'static>) -> io::Result<Encrypted> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    tls.complete_io(&mut stream)?;
    Ok(StreamOwned::new(tls, stream))
}

/// Sends a request and returns what the answer is read from.
fn sent(
    server: &Serving,
    trusted: &CertificateDer<'static>,
    (method, path): (&str, &str),
    headers: &str,
    body: &str,
) -> Encrypted {
    let mut connection = connected(&server.address, trusted).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\
         x-api-key: {}\r\n{headers}\r\n{body}",
        server.address,
        body.len(),
        server.key
    );
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

fn asked(
    server: &Serving,
    trusted: &CertificateDer<'static>,
    what: (&str, &str),
    headers: &str,
    body: &str,
) -> (u16, String) {
    let mut answer = String::new();
    sent(server, trusted, what, headers, body).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn is_ready(server: &Serving, trusted: &CertificateDer<'static>) -> bool {
    asked(server, trusted, ("GET", "/readyz"), "", "").0 == 200
}

#[test]
fn commands_and_programs_reach_a_server_of_https() {
    let (pair, certificate) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let server = pair.serve(data.path(), None);
    assert!(is_ready(&server, &certificate));
    let call = ["tools", "call", "shell_run", "--args", r#"{"command": "true"}"#, "--json"];
    let called = haft(data.path(), &call);
    assert_eq!(called.code, 3, "{}{}", called.stdout, called.stderr);
    let note = std::fs::read_to_string(data.path().join("server.json")).unwrap();
    let note: Value = serde_json::from_str(&note).unwrap();
    assert_eq!(note["address"], format!("https://{}", server.address));
    // From elsewhere: an authority that is named, and a key.
    let (elsewhere, ca) = (tempfile::tempdir().unwrap(), pair.certificate());
    let at = format!("https://{}", server.address);
    let named = ["pending", "--json", "--server", &at, "--api-key", &server.key, "--ca-file"];
    let named: Vec<&str> = named.into_iter().chain(ca.to_str()).collect();
    let pending = haft(elsewhere.path(), &named);
    assert_eq!(pending.json()["data"][0]["call"], called.json()["call"], "{}", pending.stderr);
    let untrusted = haft(elsewhere.path(), &named[..named.len() - 2]);
    assert_ne!(untrusted.code, 0, "nobody vouches for it: {}", untrusted.stdout);
    // The directory's own commands trust the certificate in the note and no other.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut changed = note;
    changed["certificate"] = json!(other.cert.pem());
    std::fs::write(data.path().join("server.json"), changed.to_string()).unwrap();
    let refused = haft(data.path(), &["pending"]);
    assert_eq!(refused.code, 5, "{}{}", refused.stdout, refused.stderr);
}

#[test]
fn the_console_streams_and_mcp_are_served_over_https_to_pages_of_https() {
    let (pair, certificate) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let server = pair.serve(data.path(), None);
    let ask = |what, headers: &str, body: &str| asked(&server, &certificate, what, headers, body);
    let (status, page) = ask(("GET", "/"), "", "");
    assert!(status == 200 && page.contains("<html"), "{page}");
    let own = format!("origin: https://{}\r\n", server.address);
    assert_eq!(ask(("GET", "/v1/agents"), &own, "").0, 200);
    let plain = format!("origin: http://{}\r\n", server.address);
    assert_eq!(ask(("GET", "/v1/agents"), &plain, "").0, 403, "not one of our pages");
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    });
    let headers = "content-type: application/json\r\n\
                   accept: application/json, text/event-stream\r\n";
    let (status, said) = ask(("POST", "/mcp"), headers, &hello.to_string());
    assert!(status == 200 && said.contains("serverInfo"), "{status} {said}");
    let wanted = json!({ "agent": "agent_demo", "environment_id": "env_demo" }).to_string();
    let session = ask(("POST", "/v1/sessions"), "", &wanted).1;
    let session: Value = serde_json::from_str(&session).unwrap();
    let session = session["id"].as_str().unwrap();
    let said = json!({ "type": "user.message", "content": [{ "type": "text", "text": "go" }] });
    let events = format!("/v1/sessions/{session}/events");
    let (status, said) = ask(("POST", &events), "", &json!({ "events": [said] }).to_string());
    assert_eq!(status, 200, "{said}");
    let path = format!("/haft/v1/sessions/{session}/stream");
    let stream = sent(&server, &certificate, ("GET", &path), "", "");
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("id: ")), "an event arrives while it is open");
}

#[test]
fn what_does_not_speak_tls_is_let_go_and_holds_nobody_up() {
    let (pair, certificate) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let server = pair.serve(data.path(), None);
    let connect = || {
        let connection = TcpStream::connect(&server.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    };
    let mut silent: Vec<TcpStream> = (0..50).map(|_| connect()).collect();
    assert!(is_ready(&server, &certificate), "the silent ones hold nobody up");
    let mut plain = connect();
    plain.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // A connection that is reset is closed as well.
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"), "nothing is answered unencrypted");
    let mut untrusting = connected(&server.address, &Pair::made().1);
    assert!(untrusting.is_err(), "{:?}", untrusting.as_mut().map(|it| it.sock.peer_addr()));
    assert!(is_ready(&server, &certificate));
    // A handshake that does not come is given up.
    let mut nothing = Vec::new();
    silent.remove(0).read_to_end(&mut nothing).unwrap();
    assert!(is_ready(&server, &certificate));
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_at_the_start() {
    let (pair, _) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let [certificate, key] = [pair.certificate(), pair.key()].map(|it| it.display().to_string());
    let refused = |flags: &[&str], expected: &[&str]| {
        let args: Vec<&str> =
            ["serve", "--listen", "127.0.0.1:0"].iter().chain(flags).copied().collect();
        let ended = haft(data.path(), &args);
        assert_eq!(ended.code, 1, "{}", ended.stderr);
        assert!(ended.stderr.starts_with("error[bad_config]: "), "{}", ended.stderr);
        for text in expected {
            assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
        }
        assert!(ended.stdout.is_empty(), "{}", ended.stdout);
        assert!(!data.path().join("haft.db").exists(), "nothing was made");
    };
    refused(&["--tls-cert", &certificate], &["--tls-cert is given without --tls-key", "next: "]);
    refused(&["--tls-key", &key], &["--tls-key is given without --tls-cert"]);
    let (other, _) = Pair::made();
    let others = other.key().display().to_string();
    let mismatch = ["--tls-cert", &certificate, "--tls-key", &others];
    refused(&mismatch, &["does not belong to the first certificate", "next: "]);
    let swapped = ["--tls-cert", key.as_str(), "--tls-key", certificate.as_str()];
    refused(&swapped, &["expected a PEM file that begins with", "found `PRIVATE KEY`"]);
    let absent = ["--tls-cert", "nowhere.pem", "--tls-key", key.as_str()];
    refused(&absent, &["`nowhere.pem`", "no such file"]);
}

#[test]
fn a_renewed_certificate_is_served_without_a_restart() {
    let (pair, first) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let flags = pair.flags();
    let flags = flags.each_ref().map(String::as_str);
    let mut server = Serving::start_saying(data.path(), None, &flags, Stdio::piped());
    let mut log = BufReader::new(server.process.stderr.take().unwrap()).lines();
    std::fs::write(pair.certificate(), "nonsense").unwrap();
    let stays = "the certificate has changed and cannot be used: the one before stays";
    assert!(log.by_ref().map(Result::unwrap).any(|line| line.contains(stays)));
    assert!(is_ready(&server, &first));
    let renewed = pair.renew();
    let started = Instant::now();
    while connected(&server.address, &renewed).is_err() {
        assert!(started.elapsed() < PATIENCE, "the old certificate is still shown");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(connected(&server.address, &first).is_err());
    let listed = haft(data.path(), &["pending", "--json"]);
    assert_eq!(listed.code, 0, "the note has the new certificate: {}", listed.stderr);
    terminate(&server);
    // Its log is read to the end, so that it is not stopped by a full pipe.
    log.for_each(drop);
    assert!(server.process.wait().unwrap().success());
}

#[test]
fn a_server_of_https_that_is_asked_to_stop_ends_its_streams_and_handshakes() {
    let (pair, certificate) = Pair::made();
    let data = tempfile::tempdir().unwrap();
    let mut server = pair.serve(data.path(), None);
    let wanted = json!({ "agent": "agent_demo", "environment_id": "env_demo" }).to_string();
    let session = asked(&server, &certificate, ("POST", "/v1/sessions"), "", &wanted).1;
    let session: Value = serde_json::from_str(&session).unwrap();
    let path = format!("/haft/v1/sessions/{}/stream", session["id"].as_str().unwrap());
    let mut followed = BufReader::new(sent(&server, &certificate, ("GET", &path), "", "")).lines();
    assert_eq!(followed.next().unwrap().unwrap(), "HTTP/1.1 200 OK");
    let _half = TcpStream::connect(&server.address).unwrap();
    terminate(&server);
    assert!(server.process.wait().unwrap().success());
    assert!(followed.all(|line| line.is_ok()), "the stream ends as TLS has it, and does not break");
    assert!(!data.path().join("server.json").exists());
}
