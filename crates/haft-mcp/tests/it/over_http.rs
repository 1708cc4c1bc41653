//! Mounted servers over HTTP: which connections are used, and where requests go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_core::{CallResult, ErrorClass, ToolName};
use haft_mcp::{
    Health, MountConfig, MountError, Mounted, Mounts, OAuth, Peer, Questions, Secrets, Setting,
};
use haft_runtime::Answer;
use haft_runtime::registry::Registry;
use haft_runtime::testing::{TestPlace, user};
use haft_store::{Store, Tenant};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::mounts::{Host, text};

/// What a server answers to a request: a status, headers and a body.
type Reply = (u16, String, String);

/// A request as a server reads it.
struct Request {
    method: String,
    path: String,
    head: String,
    body: Value,
}

/// A server that counts its connections.
struct Server {
    origin: String,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Server {
    async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (connections, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                tokio::spawn(async move { serve(stream, &*answer).await });
            }
        });
        Self { origin, connections, accepting }
    }

    /// Has nobody listen at its address any more.
    async fn stop(self) {
        self.accepting.abort();
        assert!(self.accepting.await.unwrap_err().is_cancelled());
    }

    fn n_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(stream: TcpStream, answer: &(dyn Fn(&Request) -> Reply + Send + Sync)) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = head[start..].to_ascii_lowercase().strip_prefix("content-length:")
            {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let mut words = head.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (status, headers, body) = answer(&Request { method, path, head, body });
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\n\r\n{body}");
        // Whoever reads too much hangs up.
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A server of the earlier revision with one tool.
fn mcp(request: &Request) -> Reply {
    let id = &request.body["id"];
    if request.method != "POST" {
        return (405, String::new(), String::new());
    }
    if id.is_null() {
        return (202, String::new(), String::new());
    }
    let result = match request.body["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "peer", "version": "1"},
        }),
        Some("tools/list") => json!({
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
        }),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return (200, "content-type: application/json\r\n".to_owned(), body.to_string());
        }
    };
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
    (200, "content-type: application/json\r\n".to_owned(), body.to_string())
}

fn name() -> ToolName {
    ToolName::new("peer").unwrap()
}

struct Node {
    mounts: Mounts,
    _data: tempfile::TempDir,
}

impl Node {
    /// A node with one server mounted, which is shown a secret in a header.
    async fn with(url: String) -> Result<Self, MountError> {
        let data = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(data.path()).unwrap();
        let tenant = Tenant::new("test").unwrap();
        let (registry, questions) = (Registry::new(), Questions::new());
        let mounts = Mounts::new(registry, store, questions, Secrets::none(), tenant);
        let header = ("x-key".to_owned(), Setting::plain("CANARY-key"));
        let headers = BTreeMap::from([header]);
        let peer = Peer::Http { url, headers, oauth: OAuth::default() };
        mounts.mount(MountConfig::new(name(), peer), &user("ann")).await?;
        Ok(Self { mounts, _data: data })
    }

    fn mounted(&self) -> Mounted {
        self.mounts.find(&name()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_mounted_server_share_connections() {
    let server = Server::start(mcp).await;
    let node = Node::with(format!("{}/mcp", server.origin)).await.unwrap();
    assert_eq!(node.mounted().health, Health::Up, "{:?}", node.mounted());
    let before = server.n_connections();
    for _ in 0..20 {
        node.mounts.look_again(&name()).await.unwrap();
    }
    assert!(server.n_connections() <= before + 1, "{before} {}", server.n_connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moved_on_its_origin_is_found_there() {
    let server = Server::start(|request: &Request| match request.path.as_str() {
        "/mcp" => (307, "location: /moved/mcp\r\n".to_owned(), String::new()),
        "/moved/mcp" => mcp(request),
        _ => (404, String::new(), String::new()),
    });
    let server = server.await;
    let node = Node::with(format!("{}/mcp", server.origin)).await.unwrap();
    assert_eq!(node.mounted().health, Health::Up, "{:?}", node.mounted());
    assert!(node.mounted().report.tools.contains_key("add"), "{:?}", node.mounted());
}

// D17: a secret goes where it was configured for.
#[tokio::test(flavor = "multi_thread")]
async fn d17_a_secret_does_not_follow_a_server_to_another_origin() {
    let elsewhere = Server::start(|request: &Request| {
        assert!(!request.head.contains("CANARY-key"));
        mcp(request)
    });
    let elsewhere = elsewhere.await;
    let location = format!("location: {}/mcp\r\n", elsewhere.origin);
    let server = Server::start(move |_: &Request| (307, location.clone(), String::new())).await;
    let refused = Node::with(format!("{}/mcp", server.origin)).await.err().unwrap().to_string();
    assert!(refused.contains("HTTP 307"), "{refused}");
    assert_eq!((server.n_connections() > 0, elsewhere.n_connections()), (true, 0));
}

// A mounted server is untrusted: what it says of authorization leads nowhere inside.
#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_server_cannot_lead_a_node_into_its_network() {
    for inside in ["http://169.254.169.254", "http://10.0.0.1", "http://[fe80::1]:8080"] {
        let server = Server::start(move |request: &Request| {
            if request.method == "POST" {
                let challenge = "www-authenticate: Bearer scope=\"read\"\r\n".to_owned();
                return (401, challenge, String::new());
            }
            let host = request.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let about = json!({
                "resource": format!("http://{host}/mcp"), "authorization_servers": [inside],
            });
            match request.path.as_str() {
                "/.well-known/oauth-protected-resource/mcp" => {
                    (200, String::new(), about.to_string())
                }
                _ => (404, String::new(), String::new()),
            }
        });
        let node = Node::with(format!("{}/mcp", server.await.origin)).await.unwrap();
        let asked = node.mounts.authorize(&name(), "http://127.0.0.1:1/back", &user("ann")).await;
        let refused = asked.unwrap_err().to_string();
        assert!(refused.contains("not an address of the public internet"), "{refused}");
    }
}

/// A mount of a server that wants nothing to be let in.
fn open_to_all(origin: &str) -> MountConfig {
    let (url, headers) = (format!("{origin}/mcp"), BTreeMap::new());
    MountConfig::new(name(), Peer::Http { url, headers, oauth: OAuth::default() })
}

// E2: a call that could not be sent did nothing, and nobody has to settle it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_server_that_is_gone_is_certain_to_have_done_nothing() {
    let server = Server::start(|request: &Request| {
        let (status, headers, body) = mcp(request);
        (status, format!("connection: close\r\n{headers}"), body)
    });
    let (server, host) = (server.await, Host::start(&TestPlace::new()).await);
    host.mounts.mount(open_to_all(&server.origin), &user("ann")).await.unwrap();
    server.stop().await;
    let answer = host.answer(host.session, "peer_add", json!({})).await;
    let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
    let CallResult::Err(failure) = &outcome.result else { panic!("{outcome:?}") };
    assert_eq!(failure.class, ErrorClass::Upstream, "{failure:?}");
    assert!(failure.message.contains("could not be reached, so nothing ran"), "{failure:?}");
}

// X15: an answer in JSON has the same bound as one that comes as an event or as a line.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_json_that_is_too_large_fails_its_call_alone() {
    let server = Server::start(|request: &Request| {
        if request.body["method"] != "tools/call" {
            return mcp(request);
        }
        let n = request.body["params"]["arguments"]["n"].as_u64().unwrap();
        let content = json!([{"type": "text", "text": "x".repeat(n.try_into().unwrap())}]);
        let result = json!({"content": content});
        let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
        (200, "content-type: application/json\r\n".to_owned(), body.to_string())
    });
    let (server, host) = (server.await, Host::start(&TestPlace::new()).await);
    let mut config = open_to_all(&server.origin);
    config.max_message_bytes = 64 << 10;
    host.mounts.mount(config, &user("ann")).await.unwrap();
    for (n, told) in [(1 << 20, "it ran, but its result was not kept"), (3, "xxx")] {
        let answer = host.answer(host.session, "peer_add", json!({"n": n})).await;
        let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
        assert!(text(&outcome).contains(told), "{outcome:?}");
    }
}

/// A server that offers these tools, and answers each call with a structured result.
async fn offering(tools: Value, structured: Value) -> Server {
    Server::start(move |request: &Request| {
        let result = match request.body["method"].as_str() {
            Some("tools/list") => json!({"tools": tools}),
            Some("tools/call") => json!({"content": [], "structuredContent": structured}),
            _ => return mcp(request),
        };
        let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
        (200, "content-type: application/json\r\n".to_owned(), body.to_string())
    })
    .await
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

// X14: a server is held to what it says that its tools return, unless the mount says otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn x14_a_result_that_breaks_its_own_schema_fails_its_call() {
    let mut declared = tool("price");
    declared["outputSchema"] = json!({"type": "object", "required": ["euro"],
        "properties": {"euro": {"type": "integer"}}});
    for (structured, is_checked, is_ok) in [
        (json!({"euro": 5}), true, true),
        (json!({"euro": "five"}), true, false),
        (json!({"dollars": 5}), true, false),
        (json!({"euro": "five"}), false, true),
    ] {
        let server = offering(json!([declared]), structured.clone()).await;
        let host = Host::start(&TestPlace::new()).await;
        let mut config = open_to_all(&server.origin);
        if !is_checked {
            config.unchecked_output.insert("price".to_owned());
        }
        host.mounts.mount(config, &user("ann")).await.unwrap();
        let answer = host.answer(host.session, "peer_price", json!({})).await;
        let Answer::Done(outcome) = answer else { panic!("{answer:?}") };
        match &outcome.result {
            CallResult::Ok(_) => assert!(is_ok, "{structured}"),
            CallResult::Err(failure) => {
                assert!(!is_ok, "{structured}: {failure:?}");
                assert!(failure.message.contains("is not what it declares"), "{failure:?}");
            }
        }
    }
}

// X14: a server that floods a node with tools has none of them.
#[tokio::test(flavor = "multi_thread")]
async fn x14_a_server_may_offer_only_so_many_tools() {
    let many: Vec<Value> = (0..1_001).map(|n| tool(&format!("tool_{n}"))).collect();
    let server = offering(json!(many), json!({})).await;
    let refused = Node::with(format!("{}/mcp", server.origin)).await.err().unwrap().to_string();
    assert!(refused.contains("more than 1000 tools"), "{refused}");
    let server = offering(json!(many[..1_000]), json!({})).await;
    let node = Node::with(format!("{}/mcp", server.origin)).await.unwrap();
    assert_eq!(node.mounted().report.tools.len(), 1_000);
}

// X14: names that differ by case only, definitions that are too large, and schemas that can never
// work are refused with the reason; the rest of the server's tools can be called.
#[tokio::test(flavor = "multi_thread")]
async fn x14_tools_that_cannot_be_used_safely_are_refused_by_name() {
    let mut large = tool("large");
    large["description"] = json!("x".repeat(300 << 10));
    let mut never = tool("never");
    never["inputSchema"] = json!({"type": "object", "required": ["a"], "properties": {"a": false}});
    let mut open = tool("open");
    open["inputSchema"] = json!({"type": "object",
        "properties": {"password": {"type": "string", "default": "CANARY-1"}}});
    let tools = json!([tool("Read"), tool("read"), large, never, open, tool("add")]);
    let server = offering(tools, json!({})).await;
    let node = Node::with(format!("{}/mcp", server.origin)).await.unwrap();
    // Also when it is asked again what it offers.
    for _ in 0..2 {
        let report = node.mounts.look_again(&name()).await.unwrap();
        assert_eq!(report.tools.keys().collect::<Vec<_>>(), ["add"]);
        for (tool, why) in [
            ("Read", "differs by case only"),
            ("read", "differs by case only"),
            ("large", "at most 262144 bytes"),
            ("never", "no arguments can fit it"),
            ("open", "`password` is a secret"),
        ] {
            let found = &report.refused[tool];
            assert!(found.contains(why) && !found.contains("CANARY"), "{tool}: {found}");
        }
    }
}
