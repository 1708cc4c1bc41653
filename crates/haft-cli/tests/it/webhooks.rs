//! Webhooks of a real server, to a real receiver (S1-16, S4-23).

#![expect(clippy::disallowed_methods, reason = "runs the binary, and what the docs tell to run")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster;
use crate::commands::haft;
use crate::serve::walk;
use crate::serving::{PATIENCE, Serving};

/// A request as the receiver got it.
#[derive(Debug, Clone)]
struct Received {
    path: String,
    headers: HashMap<String, String>,
    body: String,
}

impl Received {
    fn says(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Someone who listens, and answers as it is told.
struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Arc<AtomicU16>,
}

impl Receiver {
    fn start(answer: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::new(Mutex::new(Vec::new()));
        let answer = Arc::new(AtomicU16::new(answer));
        let (heard, say) = (Arc::clone(&received), Arc::clone(&answer));
        // Ends with the test's process.
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                take(connection.unwrap(), &heard, say.load(Ordering::SeqCst));
            }
        });
        Self { address, received, answer }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?from=haft", self.address)
    }

    fn answers(&self, status: u16) {
        self.answer.store(status, Ordering::SeqCst);
    }

    fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    fn until(&self, what: &str, n: usize) -> Vec<Received> {
        let started = Instant::now();
        loop {
            let all = self.all();
            let found: Vec<_> = all.into_iter().filter(|one| one.says()["type"] == what).collect();
            if found.len() >= n {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{what}: {found:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn take(connection: TcpStream, heard: &Mutex<Vec<Received>>, status: u16) {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    heard.lock().unwrap().push(Received { path, headers, body });
    let answer =
        format!("HTTP/1.1 {status} X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes()).unwrap();
}

fn serving(data: &std::path::Path, key: Option<&str>, more: &[&str]) -> Serving {
    let more: Vec<_> = more.iter().copied().chain(["--webhook-allow-private"]).collect();
    Serving::start_with(data, key, &more)
}

fn webhook(server: &Serving, url: &str, events: &[&str]) -> Value {
    server.post("/haft/v1/webhooks", &json!({ "url": url, "events": events }))
}

fn until_delivery(server: &Serving, webhook: &Value, state: &str) -> Value {
    let path = format!("/haft/v1/webhooks/{}/deliveries", webhook["id"].as_str().unwrap());
    let started = Instant::now();
    loop {
        let listed = server.get(&path);
        if let Some(first) = listed["data"].as_array().unwrap().last()
            && first["state"] == state
        {
            return first.clone();
        }
        assert!(started.elapsed() < PATIENCE, "{listed:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the code that docs/webhooks.md tells receivers to run takes a delivery; nothing is
/// said where Python may be missing.
fn verified(secret: &str, received: &Received, change: impl Fn(&mut Received)) -> Option<bool> {
    if cluster::is_left_out() {
        return None;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/webhooks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let code = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let mut received = received.clone();
    change(&mut received);
    let given = json!({
        "secret": secret, "headers": received.headers, "body": received.body,
    });
    let run = "import json, sys\ngiven = json.load(sys.stdin)\n\
               verify(given['secret'], given['headers'], given['body'].encode())\n";
    let mut python = Command::new("python3")
        .args(["-c", &format!("{code}\n{run}")])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() || said.contains("ValueError"), "{said}");
    Some(output.status.success())
}

// S1-16: who is asked is told so, by whoever they can verify.
#[test]
fn a_call_that_waits_is_told_and_the_docs_code_verifies_it() {
    let data = tempfile::tempdir().unwrap();
    let (server, receiver) = (serving(data.path(), None, &[]), Receiver::start(204));
    let told = ["call.waiting.approval", "call.resolved", "session.idle"];
    let webhook = webhook(&server, &receiver.url(), &told);
    let secret = webhook["secret"].as_str().unwrap();
    let session = server.session();
    server.say(&session);
    let asked = server.until_asked(&session);
    let waiting = receiver.until("call.waiting.approval", 1).remove(0);
    assert_eq!(waiting.path, "/hook?from=haft");
    let says = waiting.says();
    let call = asked.last().unwrap()["stop_reason"]["event_ids"][0].clone();
    assert_eq!(says["data"]["session_id"], session);
    assert!(says["data"]["call_id"].as_str().unwrap().starts_with("call_"), "{says}");
    assert!(says["data"].get("arguments").is_none(), "what is asked for is not sent: {says}");

    assert_ne!(verified(secret, &waiting, |_| {}), Some(false));
    assert_ne!(verified("whsec_AAAA", &waiting, |_| {}), Some(true), "another secret");
    assert_ne!(verified(secret, &waiting, |it| it.body.push(' ')), Some(true), "another body");
    let old = |changed: &mut Received| {
        changed.headers.insert("webhook-timestamp".to_owned(), "1600000000".to_owned());
    };
    assert_ne!(verified(secret, &waiting, old), Some(true), "another time");

    let allowed =
        json!({ "type": "user.tool_confirmation", "tool_use_id": call, "result": "allow" });
    assert_eq!(server.send(&session, &allowed).0, 200);
    server.until_idle(&session, "end_turn");
    receiver.until("session.idle", 1);
    let approved = |one: &Received| one.says()["data"]["decision"] == "approve";
    let started = Instant::now();
    while !receiver.until("call.resolved", 1).iter().any(approved) {
        assert!(started.elapsed() < PATIENCE, "{:#?}", receiver.all());
        std::thread::sleep(Duration::from_millis(20));
    }

    let listed = server.get("/haft/v1/webhooks").to_string();
    assert!(!listed.contains("secret") && listed.contains(&receiver.address), "{listed}");
    let raw = secret.trim_start_matches("whsec_").as_bytes();
    let holds = |file: &Vec<u8>| file.windows(raw.len()).any(|window| window == raw);
    assert!(!walk(data.path()).iter().any(holds), "the secret is kept sealed only");
    let ids: Vec<_> = receiver.all().iter().map(|one| one.headers["webhook-id"].clone()).collect();
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "what was taken is not sent again");
}

// S1-16: a service that was told calls back and polls, somebody types a command: the wait is one.
#[test]
fn who_is_told_and_who_types_decide_one_wait_once() {
    let data = tempfile::tempdir().unwrap();
    let (server, receiver) = (serving(data.path(), None, &[]), Receiver::start(204));
    webhook(&server, &receiver.url(), &["call.waiting.approval"]);
    let called = |n: usize| {
        let arguments = json!({ "command": format!("echo {n} >> ran") }).to_string();
        let ended = haft(data.path(), &["tools", "call", "shell_run", "--args", &arguments]);
        assert_eq!(ended.code, 3, "{}", ended.stderr);
        let told = receiver.until("call.waiting.approval", n).remove(n - 1).says();
        let of = |member: &str| told["data"][member].as_str().unwrap().to_owned();
        (format!("/haft/v1/sessions/{}/calls/{}", of("session_id"), of("call_id")), of("call_id"))
    };
    let (told, call) = called(1);
    assert_eq!(haft(data.path(), &["approve", &call]).code, 0);
    let (status, late) = server.ask("POST", &format!("{told}/resolve"), &json!({ "type": "deny" }));
    let decided = &late["error"]["details"]["decided"]["decision"];
    assert_eq!((status, decided), (409, &json!("approve")), "{late}");

    let (told, call) = called(2);
    server.post(&format!("{told}/resolve"), &json!({ "type": "deny" }));
    assert_eq!(server.get(&told)["decided"]["decision"], "deny");
    assert_ne!(haft(data.path(), &["approve", &call]).code, 0);
    let ran: Vec<_> = walk(data.path()).into_iter().filter(|file| file == b"1\n").collect();
    assert_eq!(ran.len(), 1, "what was approved ran, what was denied did not");
}

#[test]
fn what_a_receiver_refuses_is_sent_again_in_the_next_process_too() {
    let data = tempfile::tempdir().unwrap();
    let (server, receiver) = (serving(data.path(), None, &[]), Receiver::start(500));
    let kept = webhook(&server, &receiver.url(), &["call.waiting.approval"]);
    let session = server.session();
    server.say(&session);
    server.until_asked(&session);
    let refused = receiver.until("call.waiting.approval", 2);
    let key = server.key.clone();
    drop(server);
    let before = receiver.all().len();
    receiver.answers(200);
    let server = serving(data.path(), Some(&key), &[]);
    let delivery = until_delivery(&server, &kept, "delivered");
    assert!(delivery["attempts"].as_u64().unwrap() >= 3, "{delivery}");
    assert_eq!(delivery["last_status"], 200);
    let all = receiver.all();
    assert_eq!(all.len(), before + 1, "one attempt was enough");
    assert!(all.iter().all(|one| one.headers["webhook-id"] == delivery["id"].as_str().unwrap()));
    let last = all.last().unwrap();
    assert_eq!(last.body, refused[0].body, "every attempt says the same");
    let signed = verified(kept["secret"].as_str().unwrap(), last, |_| {});
    assert_ne!(signed, Some(false), "signed for its own time");
}

#[test]
fn what_is_never_taken_is_given_up_and_no_redirect_is_followed() {
    let data = tempfile::tempdir().unwrap();
    let server = serving(data.path(), None, &["--webhook-give-up-after", "2s"]);
    let receiver = Receiver::start(302);
    let kept = webhook(&server, &receiver.url(), &["call.waiting.approval"]);
    let session = server.session();
    server.say(&session);
    server.until_asked(&session);
    let delivery = until_delivery(&server, &kept, "given_up");
    assert_eq!(delivery["last_status"], 302);
    assert!(delivery["last_error"].as_str().unwrap().contains("redirects are not followed"));
    assert!(delivery["next_attempt_at"].is_null());
    assert!(receiver.all().iter().all(|one| one.path != "/elsewhere"));
    let id = kept["id"].as_str().unwrap();
    assert_eq!(server.ask("DELETE", &format!("/haft/v1/webhooks/{id}"), &Value::Null).0, 200);
    assert_eq!(server.ask("DELETE", &format!("/haft/v1/webhooks/{id}"), &Value::Null).0, 404);
    assert_eq!(server.get("/haft/v1/webhooks")["data"], json!([]));
}

#[test]
fn a_webhook_leads_nobody_to_this_machine_unless_the_operator_says_so() {
    let data = tempfile::tempdir().unwrap();
    let (server, receiver) = (Serving::start(data.path(), None), Receiver::start(200));
    let refused = |url: &str, why: &str| {
        let wanted = json!({ "url": url, "events": ["session.idle"] });
        let (status, body) = server.ask("POST", "/haft/v1/webhooks", &wanted);
        let message = body["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(why), "{url}: {body}");
    };
    refused(&receiver.url(), "https://");
    refused(&format!("https://{}/", receiver.address), "--webhook-allow-private");
    refused("https://[::ffff:127.0.0.1]/", "--webhook-allow-private");
    refused("https://user:pass@example.org/", "expected a URL");
    refused("file:///etc/passwd", "expected a URL");
    let (status, body) = server.ask(
        "POST",
        "/haft/v1/webhooks",
        &json!({ "url": "https://example.org/", "events": ["call.waiting"] }),
    );
    let message = body["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("call.waiting.approval"), "{body}");
    // A name is looked up when it is used, and may lead anywhere by then.
    let port = receiver.address.rsplit_once(':').unwrap().1;
    let named = webhook(&server, &format!("https://localhost:{port}/"), &["call.waiting.approval"]);
    let session = server.session();
    server.say(&session);
    server.until_asked(&session);
    let delivery = until_delivery(&server, &named, "given_up");
    assert!(delivery["last_error"].as_str().unwrap().contains("public internet"), "{delivery}");
    assert_eq!(delivery["attempts"], 1);
    assert!(receiver.all().is_empty());
}
