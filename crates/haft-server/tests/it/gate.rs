//! Who is let in, how much they may ask for, whose things are whose, and how long a key is good.

use std::time::Duration;

use haft_core::{Actor, ActorId, ActorKind, Millis};
use haft_mcp::{McpServer, Questions, ServerSettings};
use haft_runtime::{Clock, Haft};
use haft_server::{Config, LimitSettings, NewKey, Quota, Scope};
use haft_store::Tenant;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::house::{House, Visitor, unattended};

const USER: [Scope; 2] = [Scope::Read, Scope::Write];

/// A node that MCP clients are served by.
async fn mcp_house() -> House {
    let questions = Questions::new();
    let asked = questions.clone();
    let config = move |haft: &Haft| {
        let mcp = McpServer::new(haft.clone(), questions, ServerSettings::default());
        Config { mcp: Some(mcp), ..unattended() }
    };
    House::configured(|builder| haft_mcp::install(builder, &asked), &[], config).await
}

/// What an MCP client of the earlier revision sends along.
const MCP: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
                   mcp-protocol-version: 2025-11-25\r\n";

async fn begun(client: &Visitor) -> String {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (status, head, _) = client.with(MCP, "POST", "/mcp", &body).await;
    assert_eq!(status, 200, "{head}");
    let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{MCP}mcp-session-id: {id}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(client.with(&headers, "POST", "/mcp", &ready).await.0, 202);
    headers
}

// X6: a transport session answers to the key that began it and to no other.
#[tokio::test(flavor = "multi_thread")]
async fn x6_an_mcp_session_is_of_the_key_that_began_it() {
    let house = mcp_house().await;
    let ann = house.visitor("default", "ann", &USER).await;
    let session = begun(&ann).await;
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let params = json!({"requestId": 2});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let others = [
        house.visitor("default", "bob", &USER).await,
        house.visitor("default", "ann", &USER).await,
        house.visitor("default", "root", &[Scope::Admin]).await,
        house.visitor("other", "eve", &[Scope::Admin]).await,
    ];
    let unknown = format!("{MCP}mcp-session-id: 00000000-0000-4000-8000-000000000000\r\n");
    for other in &others {
        for (method, body) in
            [("POST", &list), ("POST", &cancel), ("GET", &Value::Null), ("DELETE", &Value::Null)]
        {
            let (status, _, answer) = other.with(&session, method, "/mcp", body).await;
            assert_eq!(status, 404, "{method} {body}: {answer}");
            assert_eq!(other.with(&unknown, method, "/mcp", body).await.0, 404);
        }
    }
    let mut listed = ann.opened(&session, "POST", "/mcp", &list.to_string()).await;
    let mut answer = String::new();
    while !answer.contains("\"tools\"") {
        let mut piece = [0; 4096];
        let n = listed.read(&mut piece).await.unwrap();
        assert!(n > 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&piece[..n]));
    }
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(ann.with(&session, "DELETE", "/mcp", &Value::Null).await.0, 204);
    assert_eq!(ann.with(&session, "POST", "/mcp", &list).await.0, 404);
}

/// What is uploaded, with the line that parts it.
fn form(text: &str) -> (&'static str, String) {
    let body = format!(
        "--line\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
         content-type: text/plain\r\n\r\n{text}\r\n--line--\r\n"
    );
    ("content-type: multipart/form-data; boundary=line\r\n", body)
}

pub(crate) async fn uploaded(visitor: &Visitor) -> String {
    let (headers, body) = form("CANARY-file");
    let mut connection = visitor.opened(headers, "POST", "/v1/files", &body).await;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    body["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

// X7: a vault and a file are their owner's; an admin of the tenant sees them, nobody else does.
#[tokio::test(flavor = "multi_thread")]
async fn x7_vaults_and_files_have_owners_within_a_tenant() {
    let sealing = |builder: haft_runtime::HaftBuilder| {
        builder.sealing_key(haft_runtime::SealingKey::new([7; 32]))
    };
    House::on_both(sealing, unattended, async |house: House| {
        let ann = house.visitor("default", "ann", &USER).await;
        let all = [Scope::Read, Scope::Write, Scope::Approve];
        let bob = house.visitor("default", "bob", &all).await;
        let admin = house.visitor("default", "root", &[Scope::Admin]).await;
        let made = ann.post("/v1/vaults", &json!({"display_name": "mine"})).await;
        let vault = made["id"].as_str().unwrap().to_owned();
        let auth = json!({"type": "static_bearer", "mcp_server_url": "https://a.example/mcp",
                          "token": "CANARY-token"});
        let at = format!("/v1/vaults/{vault}/credentials");
        let credential = ann.post(&at, &json!({"auth": auth})).await;
        let credential = format!("{at}/{}", credential["id"].as_str().unwrap());
        let file = uploaded(&ann).await;
        let (vault_at, file_at) = (format!("/v1/vaults/{vault}"), format!("/v1/files/{file}"));
        let change = json!({"display_name": "taken"});
        let hidden = [
            ("GET", vault_at.clone(), Value::Null),
            ("POST", vault_at.clone(), change.clone()),
            ("POST", format!("{vault_at}/archive"), json!({})),
            ("DELETE", vault_at.clone(), Value::Null),
            ("GET", format!("/haft/v1/versions/vaults/{vault}"), Value::Null),
            ("GET", at.clone(), Value::Null),
            ("POST", at.clone(), json!({"auth": auth})),
            ("GET", credential.clone(), Value::Null),
            ("POST", credential.clone(), json!({"display_name": "x"})),
            ("POST", format!("{credential}/archive"), json!({})),
            ("POST", format!("{credential}/mcp_oauth_validate"), json!({})),
            ("DELETE", credential.clone(), Value::Null),
            ("GET", file_at.clone(), Value::Null),
            ("GET", format!("{file_at}/content"), Value::Null),
            ("DELETE", file_at.clone(), Value::Null),
        ];
        for (method, path, body) in &hidden {
            let why = bob.refused(method, path, body, 404).await;
            assert!(!why.contains("CANARY"), "{why}");
        }
        for list in ["/v1/vaults", "/v1/files", &format!("/v1/files?ids={file}")] {
            assert_eq!(bob.get(list).await["data"], json!([]), "{list}");
            assert_eq!(ann.get(list).await["data"].as_array().unwrap().len(), 1, "{list}");
            assert_eq!(admin.get(list).await["data"].as_array().unwrap().len(), 1, "{list}");
        }
        opened_with(&bob, &vault, &file, 404).await;
        opened_with(&ann, &vault, &file, 200).await;
        assert_eq!(ann.text("GET", &format!("{file_at}/content"), "").await.1, "CANARY-file");
        // An admin may do as the owner does, and the owner keeps the vault.
        admin.post(&vault_at, &json!({"display_name": "seen"})).await;
        assert_eq!(ann.get(&vault_at).await["display_name"], "seen");
        bob.refused("GET", &vault_at, &Value::Null, 404).await;
        assert_eq!(ann.ask("DELETE", &file_at, &Value::Null).await.0, 200);
        assert_eq!(admin.ask("DELETE", &vault_at, &Value::Null).await.0, 200);
    })
    .await;
}

/// Opens a session with a vault, and one with a file.
async fn opened_with(who: &Visitor, vault: &str, file: &str, status: u16) {
    let session = json!({"agent": "agent_demo", "environment_id": "env_demo"});
    let mut with_vault = session.clone();
    with_vault["vault_ids"] = json!([vault]);
    let mut with_file = session;
    with_file["resources"] = json!([{"type": "file", "file_id": file}]);
    for wanted in [with_vault, with_file] {
        let (found, body) = who.ask("POST", "/v1/sessions", &wanted).await;
        assert_eq!(found, status, "{wanted}: {body}");
    }
}

// X16: an artifact is read by whoever may see its session.
#[tokio::test(flavor = "multi_thread")]
async fn x16_an_artifact_is_read_by_whoever_may_see_its_session() {
    let house = House::start().await;
    let ann = house.visitor("default", "ann", &USER).await;
    let bob = house.visitor("default", "bob", &USER).await;
    let approver = house.visitor("default", "cat", &[Scope::Read, Scope::Approve]).await;
    let (session, _) = ann.call("get_price").await;
    let id = haft_core::ArtifactId::from_bits(7);
    let (media_type, title) = ("text/plain".to_owned(), None);
    let reference = haft_core::ArtifactRef { id, media_type, bytes: 6, title };
    let new = haft_store::NewArtifact {
        reference,
        tenant: Tenant::new("default").unwrap(),
        session: Some(session.parse().unwrap()),
        at: Clock::System.now(),
    };
    house.haft.store().put_artifact(&new, b"CANARY".to_vec()).await.unwrap();
    let path = format!("/haft/v1/artifacts/{id}");
    assert_eq!(ann.text("GET", &path, "").await, (200, "CANARY".to_owned()));
    assert_eq!(approver.text("GET", &path, "").await, (200, "CANARY".to_owned()));
    bob.refused("GET", &path, &Value::Null, 404).await;
}

/// Waits until a stream has ended.
async fn until_ended(mut stream: TcpStream) -> String {
    let mut rest = String::new();
    let read = stream.read_to_string(&mut rest);
    tokio::time::timeout(Duration::from_secs(120), read).await.expect("the stream ends").unwrap();
    rest
}

/// Revokes someone's key.
async fn revoked(admin: &Visitor, who: &str) {
    let keys = admin.get("/haft/v1/keys").await;
    let mut keys = keys["data"].as_array().unwrap().iter();
    let id = &keys.find(|key| key["actor"]["id"] == who).unwrap()["id"];
    let path = format!("/haft/v1/keys/{}", id.as_str().unwrap());
    let (status, body) = admin.ask("DELETE", &path, &Value::Null).await;
    assert_eq!((status, &body["id"]), (200, id), "{body}");
}

// X13: what a revoked key holds open ends, on this node and on the others.
#[tokio::test(flavor = "multi_thread")]
async fn x13_a_revoked_key_loses_its_streams() {
    House::on_both(
        |builder| builder,
        unattended,
        async |house: House| {
            let admin = house.admin().await;
            let ann = house.visitor("default", "dan", &USER).await;
            let bob = house.visitor("default", "bob", &USER).await;
            let (ours, theirs) = (ann.session().await, bob.session().await);
            let elsewhere = house.elsewhere(&ann).await;
            let path = format!("/haft/v1/sessions/{ours}/stream");
            let (here, there) = (ann.stream(&path).await, elsewhere.stream(&path).await);
            let inbox = ann.stream("/haft/v1/pending/stream").await;
            let mut stays = bob.stream(&format!("/haft/v1/sessions/{theirs}/stream")).await;
            revoked(&admin, "dan").await;
            for stream in [here, inbox, there] {
                until_ended(stream).await;
            }
            let why = ann.refused("GET", "/haft/v1/me", &Value::Null, 401).await;
            assert!(why.contains("was revoked at"), "{why}");
            bob.post(&format!("/haft/v1/sessions/{theirs}/messages"), &json!({"text": "hi"})).await;
            let mut piece = [0; 16];
            assert!(stays.read(&mut piece).await.unwrap() > 0, "another key's stream goes on");
            // Whoever revokes their own key is told so, this once.
            revoked(&admin, "ann").await;
            admin.refused("GET", "/haft/v1/me", &Value::Null, 401).await;
        },
    )
    .await;
}

// X13: a key may have an end, which is listed; its streams end with it.
#[tokio::test(flavor = "multi_thread")]
async fn x13_an_expired_key_opens_nothing_and_says_so() {
    let house = House::start().await;
    let admin = house.admin().await;
    let now = Clock::System.now();
    let wanted = |at: &str| json!({"actor": "cat", "scopes": ["read", "write"], "expires_at": at});
    for past in ["2020-01-01T00:00:00Z", "tomorrow"] {
        let why = admin.refused("POST", "/haft/v1/keys", &wanted(past), 400).await;
        assert!(why.starts_with("expires_at:"), "{why}");
    }
    let at = now + Millis::from_secs(3600);
    admin.post("/haft/v1/keys", &wanted(&at.to_string())).await;
    let listed = admin.get("/haft/v1/keys").await;
    let mut listed = listed["data"].as_array().unwrap().iter();
    let cat = listed.find(|key| key["actor"]["id"] == "cat").unwrap();
    assert_eq!(cat["expires_at"], json!(at));
    // Long enough to begin a stream with; what is waited for is its end.
    let ends = Clock::System.now() + Millis::from_secs(3);
    let bob = Actor { kind: ActorKind::User, id: ActorId::new("bob").unwrap() };
    let tenant = Tenant::new("default").unwrap();
    let new = NewKey { tenant, actor: bob, scopes: USER.to_vec(), expires_at: Some(ends) };
    let bob = house.holder(new).await;
    let stream = bob.stream("/haft/v1/pending/stream").await;
    until_ended(stream).await;
    let why = bob.refused("GET", "/haft/v1/me", &Value::Null, 401).await;
    assert!(why.contains("expired at"), "{why}");
}

// X12: of someone whom nobody knows, next to nothing is read.
#[tokio::test(flavor = "multi_thread")]
async fn x12_login_reads_no_more_than_a_token() {
    let house = House::start().await;
    let stranger = house.stranger();
    let (status, _) = stranger.raw("POST", "/haft/v1/login", "{\"token\":\"x\"}").await;
    assert_eq!(status, 401);
    // The answer comes before the body has.
    let headers = "content-type: application/json\r\n";
    for path in ["/haft/v1/login", "/v1/agents", "/haft/v1/sessions", "/mcp"] {
        let mut connection = stranger.connection().await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: 8000000\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(&[b' '; 8192]).await.unwrap();
        let mut answer = [0; 12];
        let read = connection.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), read).await.expect(path).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let expected = ["HTTP/1.1 401", "HTTP/1.1 404", "HTTP/1.1 413"];
        assert!(expected.contains(&&*answer), "{path}: {answer}");
    }
    let long = format!("x-long: {}\r\n", "x".repeat(300 << 10));
    let mut connection = stranger.opened(&long, "GET", "/healthz", "").await;
    let mut answer = Vec::new();
    // The server may close before all of it was sent.
    connection.read_to_end(&mut answer).await.ok();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

fn limited(key: Quota) -> Config {
    let limits = LimitSettings { key, ..LimitSettings::default() };
    Config { limits, ..unattended() }
}

// X12: whoever asks for too much is told when to come back, in the words of the API they use.
#[tokio::test(flavor = "multi_thread")]
async fn x12_a_key_that_asks_for_too_much_is_told_when_to_come_back() {
    let quota = Quota { requests_at_once: 0, requests_per_minute: 3, bytes_per_minute: 0 };
    let house = House::configured(|builder| builder, &[], |_| limited(quota)).await;
    let ann = house.visitor("default", "ann", &USER).await;
    let bob = house.visitor("default", "bob", &USER).await;
    for _ in 0..3 {
        ann.get("/haft/v1/me").await;
    }
    let (status, head, body) = ann.with("", "GET", "/v1/agents", &Value::Null).await;
    assert_eq!((status, &body["error"]["type"]), (429, &json!("rate_limit_error")), "{body}");
    let after = head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((1..=20).contains(&after.parse::<u64>().unwrap()), "{head}");
    assert!(head.contains("x-should-retry: true"), "{head}");
    bob.get("/haft/v1/me").await;
    let (_, metrics) = house.stranger().text("GET", "/metrics", "").await;
    let counted = "haft_http_rate_limited_total{of=\"key\",limit=\"requests_per_minute\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x12_streams_of_a_key_are_bounded() {
    let quota = Quota { requests_at_once: 2, requests_per_minute: 0, bytes_per_minute: 0 };
    let house = House::configured(|builder| builder, &[], |_| limited(quota)).await;
    let ann = house.visitor("default", "ann", &USER).await;
    let first = ann.stream("/haft/v1/pending/stream").await;
    let second = ann.stream("/haft/v1/pending/stream").await;
    let why = ann.refused("GET", "/haft/v1/me", &Value::Null, 429).await;
    assert!(why.contains("2 requests under way"), "{why}");
    drop((first, second));
    // The server finds out that they are gone when it next writes to them, or reads from them.
    for _ in 0..600 {
        if ann.ask("GET", "/haft/v1/me", &Value::Null).await.0 == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the places of streams that are gone are not free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn x12_connections_are_bounded() {
    let limits = LimitSettings { connections_per_address: 2, ..LimitSettings::default() };
    let config = Config { limits, ..unattended() };
    let house = House::configured(|builder| builder, &[], |_| config).await;
    let stranger = house.stranger();
    let held = [stranger.connection().await, stranger.connection().await];
    let mut answer = String::new();
    stranger.connection().await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after"), "{answer}");
    drop(held);
    for _ in 0..600 {
        let mut connection = stranger.opened("", "GET", "/healthz", "").await;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.ok();
        if answer.starts_with("HTTP/1.1 200") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the places of connections that are gone are not free again");
}

// X16: what is not exactly a host and a port is no name of this server.
#[tokio::test(flavor = "multi_thread")]
async fn x16_a_host_that_only_begins_like_ours_is_refused() {
    let house = House::start().await;
    let asked = async |lines: &str| {
        let mut connection = house.stranger().connection().await;
        let head = format!("GET /healthz HTTP/1.1\r\nconnection: close\r\n{lines}\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for host in ["localhost", "localhost:1", "127.0.0.1:7800", "[::1]", "[::1]:80", "LOCALHOST"] {
        assert_eq!(asked(&format!("host: {host}\r\n")).await, 200, "{host}");
    }
    let refused = [
        "host: [::1].evil.example\r\n",
        "host: localhost:evil.example\r\n",
        "host: 127.0.0.1:x@evil.example\r\n",
        "host: localhost@evil.example\r\n",
        "host: evil.example\r\n",
        "host: localhost\r\nhost: evil.example\r\n",
        "host: localhost\r\norigin: http://localhost.evil.example\r\n",
        "host: localhost\r\norigin: http://localhost:80@evil.example\r\n",
        "host: localhost\r\norigin: null\r\n",
        "host: localhost\r\norigin: http://localhost\r\norigin: http://evil.example\r\n",
    ];
    for lines in refused {
        assert!([400, 403].contains(&asked(lines).await), "{lines}");
    }
    assert_eq!(asked("host: localhost:80\r\norigin: http://localhost\r\n").await, 200);
}

// X14: what contradicts itself is refused by name, and the call still waits.
#[tokio::test(flavor = "multi_thread")]
async fn x14_a_result_that_contradicts_itself_is_refused() {
    let house = House::start().await;
    let ann = house.admin().await;
    let (session, call) = ann.call("refund").await;
    let path = format!("/haft/v1/sessions/{session}/calls/{call}/resolve");
    for (outcome, named) in [
        (json!({"ok": true, "error": "x"}), "`error` contradicts `ok: true`"),
        (json!({"ok": false, "result": {"paid": 1}, "error": "x"}), "`result` contradicts"),
        (json!({"ok": true, "result": 1, "status": "failed"}), "status"),
    ] {
        let body = json!({"type": "result", "outcome": outcome});
        let why = ann.refused("POST", &path, &body, 400).await;
        assert!(why.contains(named), "{why}");
    }
    ann.post(&path, &json!({"type": "approve"})).await;
}

// X14: two tools of an agent whose names differ by case only would be confused.
#[tokio::test(flavor = "multi_thread")]
async fn x14_names_that_differ_by_case_only_are_refused() {
    let house = House::start().await;
    let ann = house.admin().await;
    let custom = |name: &str| {
        let schema = json!({"type": "object", "properties": {}});
        json!({"type": "custom", "name": name, "description": "Reads.", "input_schema": schema})
    };
    let toolset = json!({"type": "agent_toolset_20260401"});
    let agent = |tools: Value| json!({"name": "a", "model": "scripted/asks", "tools": tools});
    for tools in [json!([custom("read_it"), custom("Read_It")]), json!([toolset, custom("Read")])] {
        let why = ann.refused("POST", "/v1/agents", &agent(tools), 400).await;
        assert!(why.contains("differ by case only"), "{why}");
    }
    let mut impossible = custom("pay");
    impossible["input_schema"] = json!({"type": "object", "required": ["a"],
        "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}});
    let why = ann.refused("POST", "/v1/agents", &agent(json!([impossible])), 400).await;
    assert!(why.contains("no arguments can fit it"), "{why}");
    let mut open = custom("pay");
    open["input_schema"] = json!({"type": "object",
        "properties": {"api_key": {"type": "string", "default": "CANARY-1"}}});
    let why = ann.refused("POST", "/v1/agents", &agent(json!([open])), 400).await;
    assert!(why.contains("`api_key` is a secret") && !why.contains("CANARY"), "{why}");
    ann.post("/v1/agents", &agent(json!([custom("Read_It"), custom("write_it")]))).await;
}
