//! Tools that wait for a yes, behind every kind of client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft_core::session::{Config, Driver, Returned, SuspensionKind};
use haft_core::tool::{Definition, Executor, Gate, Schema};
use haft_core::{Actor, ActorId, CallId, CallResult, Millis, Output, ToolName};
use haft_mcp::{Consent, Handle, McpServer, Principal, Question, Questions, ServerSettings};
use haft_runtime::testing::{TestNode, TestPlace, user};
use haft_runtime::{Answer, FunctionTool, Haft, HaftBuilder, Response};
use haft_store::{Page, PendingFilter, Tenant};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

/// A tool that pays, and asks first.
fn pays(
    paid: &Arc<AtomicU32>,
) -> FunctionTool<
    impl Fn(
        haft_runtime::ToolArguments,
        haft_runtime::ToolContext,
    ) -> std::future::Ready<Result<Returned, haft_runtime::ToolError>>
    + Send
    + Sync
    + 'static,
> {
    let schema =
        r#"{"type":"object","properties":{"cents":{"type":"integer"}},"required":["cents"]}"#;
    let mut definition = Definition::new(
        ToolName::new("pay").unwrap(),
        "Pay someone. Use when a bill is due.",
        Schema::new(schema).unwrap(),
    );
    definition.gate = Gate::Ask;
    definition.suspend_ttl = Millis::from_secs(7 * 24 * 3600);
    let output =
        r#"{"type":"object","properties":{"paid":{"type":"integer"}},"required":["paid"]}"#;
    definition.output_schema = Some(Schema::new(output).unwrap());
    let paid = Arc::clone(paid);
    FunctionTool::new(definition, move |arguments, _| {
        paid.fetch_add(1, Ordering::SeqCst);
        let value = json!({"paid": arguments["cents"]});
        std::future::ready(Ok(CallResult::Ok(Output::of_value(value)).into()))
    })
}

/// A question to a person, as a tool.
fn asks() -> Definition {
    let schema =
        r#"{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}"#;
    let name = ToolName::new("ask_person").unwrap();
    let mut definition = Definition::new(name, "Ask a person.", Schema::new(schema).unwrap());
    definition.executor = Executor::Human;
    definition
}

/// How long to wait for a state before a test fails. No test passes or fails by how long it takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) fn node(questions: &Questions, paid: &Arc<AtomicU32>) -> HaftBuilder {
    haft_mcp::install(Haft::builder(), questions).tool(pays(paid)).declare(asks())
}

pub(crate) fn principal(name: &str) -> Principal {
    let actor = Actor::user(ActorId::new(name).unwrap());
    Principal { actor, tenant: Tenant::new("test").unwrap() }
}

fn settings(consent: Consent) -> ServerSettings {
    // The clock of these tests stands still; only this wait is real. Where the client itself
    // approves, its call ends, and nobody is to be told meanwhile that it waits.
    let patience = match consent {
        Consent::IsNoApproval => Duration::from_millis(50),
        Consent::Approves => PATIENCE,
    };
    ServerSettings { consent, patience, ..ServerSettings::default() }
}

/// A client over a pair of streams, as over stdio.
pub(crate) struct Client {
    from: BufReader<ReadHalf<DuplexStream>>,
    to: WriteHalf<DuplexStream>,
    meta: Value,
    next: u64,
    /// Requests of the server that came before an answer.
    asked: VecDeque<Value>,
}

impl Client {
    pub(crate) fn connect(server: &McpServer, principal: Principal, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let server = server.clone();
        tokio::spawn(async move { server.serve(tokio::io::split(theirs), principal).await.ok() });
        let (from, to) = tokio::io::split(ours);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self { from: BufReader::new(from), to, meta, next: 0, asked: VecDeque::new() }
    }

    /// A client of the earlier revision.
    async fn legacy(server: &McpServer, principal: Principal, capabilities: Value) -> Self {
        let mut client = Self::connect(server, principal, Value::Null);
        client.meta = Value::Null;
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "by-hand", "version": "1"}});
        client.request("initialize", params).await;
        client.write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn write(&mut self, message: Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        if !self.meta.is_null() {
            params["_meta"] = self.meta.clone();
        }
        self.next += 1;
        let id = self.next;
        self.write(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.asked.push_back(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let answer = self.answer(id).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

fn handle_of(result: &Value) -> Handle {
    let handle = result["_meta"]["haft/pending"]["handle"].as_str();
    handle.unwrap_or_else(|| panic!("no handle in {result}")).parse().unwrap()
}

fn yes() -> Response {
    Response::Approve { arguments: None, note: None, grant: None }
}

pub(crate) fn served(node: &TestNode, questions: &Questions, consent: Consent) -> McpServer {
    McpServer::new(node.haft().clone(), questions.clone(), settings(consent))
}

// Issue 8, D5: a gated call by a client that knows neither tasks nor elicitation; client and server
// die; it is approved an hour later, and a new client picks it up. There is one effect.
#[test]
fn a_gated_call_outlives_its_client_and_its_server() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    let handle = place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::IsNoApproval);
        let mut client = Client::connect(&server, principal("ann"), json!({}));
        let pending = client.call("pay", json!({"cents": 5})).await;
        let text = pending["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("waits for approval by someone else") && text.contains("await_call"));
        handle_of(&pending)
    });
    place.advance(Millis::from_secs(3600));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        let server = served(&node, &questions, Consent::IsNoApproval);
        let mut client = Client::connect(&server, principal("ann"), json!({}));
        let listed = client.call("await_call", json!({})).await;
        assert!(listed["content"][0]["text"].as_str().unwrap().contains(&handle.to_string()));
        node.haft().resolve(handle.session, handle.call, user("bob"), yes()).await.unwrap();
        let again = node.haft().resolve(handle.session, handle.call, user("eve"), yes()).await;
        assert!(again.is_err(), "one wins");
        let asked = json!({"handle": handle.to_string(), "wait_seconds": 60});
        let done = client.call("await_call", asked.clone()).await;
        assert_eq!(done["structuredContent"], json!({"paid": 5}));
        assert_eq!(client.call("await_call", asked).await["structuredContent"], json!({"paid": 5}));
        let mut other = Client::connect(&server, principal("mallory"), json!({}));
        let asked = json!({"handle": handle.to_string(), "wait_seconds": 0});
        let refused = other.call("await_call", asked).await;
        assert_eq!(refused["isError"], true, "another's call: {refused}");
    });
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

/// Leaves calls of somebody waiting for an approval, in sessions of at most 50 calls each: a turn
/// takes no more than 64.
async fn left_waiting(node: &TestNode, by: &str, n: usize) {
    for start in (0..n).step_by(50) {
        let config = Config { driver: Driver::Caller, ..Config::default() };
        let Principal { actor, tenant } = principal(by);
        let session = node.haft().open(tenant, config, actor).await.unwrap();
        for _ in start..n.min(start + 50) {
            let arguments = json!({"cents": 5}).as_object().cloned().unwrap();
            let answer = node.haft().call(session, "pay", arguments).await.unwrap();
            assert!(matches!(answer, Answer::Waiting(_)), "{answer:?}");
        }
    }
}

// E7: whose calls are listed is part of the query, and a full list says how it goes on.
#[test]
fn a_callers_own_waits_are_listed_page_by_page_however_many_others_wait() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::IsNoApproval);
        left_waiting(&node, "bob", 110).await;
        left_waiting(&node, "ann", 1).await;
        let mut ann = Client::connect(&server, principal("ann"), json!({}));
        let loads = node.haft().store().measures().loads();
        let listed = ann.call("await_call", json!({})).await;
        let text = listed["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.ends_with(": `pay`"), "{text}");
        assert_eq!(node.haft().store().measures().loads(), loads, "a list folds no session");

        let mut bob = Client::connect(&server, principal("bob"), json!({}));
        let first = bob.call("await_call", json!({})).await;
        let first = first["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(first.lines().count(), 101, "a hundred, and that there are more");
        let asked = first.lines().last().unwrap();
        let asked = &asked[asked.find('{').unwrap()..=asked.rfind('}').unwrap()];
        let second = bob.call("await_call", serde_json::from_str(asked).unwrap()).await;
        let second = second["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(second.lines().count(), 10, "{second}");
        assert!(second.lines().all(|line| !first.contains(line)), "nothing is listed twice");
        let wrong = bob.call("await_call", json!({"page": "nonsense"})).await;
        assert_eq!(wrong["isError"], true);
    });
}

const TASKS: &str = "io.modelcontextprotocol/tasks";

// Issue 8: the calling client's answer is the requester's consent, and no approval unless the
// operator says so.
#[test]
fn a_task_waits_for_someone_elses_yes_unless_consent_is_enough() {
    for consent in [Consent::IsNoApproval, Consent::Approves] {
        let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
        let questions = Questions::new();
        place.live(node(&questions, &paid), async |node: TestNode| {
            let server = served(&node, &questions, consent);
            let can = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
            let mut client = Client::connect(&server, principal("ann"), can);
            let made = client.call("pay", json!({"cents": 5})).await;
            if consent == Consent::Approves {
                // It can be asked right away, so it is.
                assert_eq!(made["resultType"], "input_required", "{made}");
                let answer = json!({"action": "accept", "content": {"approve": true}});
                let again = json!({"name": "pay", "arguments": {"cents": 5}, "requestState": made["requestState"], "inputResponses": {"approval": answer}});
                let done = client.request("tools/call", again).await;
                assert_eq!(done["structuredContent"], json!({"paid": 5}), "{done}");
                return;
            }
            assert_eq!(made["resultType"], "task", "{made}");
            let id = made["taskId"].clone();
            let answer = json!({"action": "accept", "content": {"approve": true}});
            let update = json!({"taskId": id, "inputResponses": {"approval": answer}});
            client.request("tasks/update", update).await;
            let task = client.request("tasks/get", json!({"taskId": id})).await;
            assert_eq!(task["status"], "working", "{task}");
            assert!(task["statusMessage"].as_str().unwrap().contains("someone else"));
            let handle: Handle = id.as_str().unwrap().parse().unwrap();
            node.haft().resolve(handle.session, handle.call, user("bob"), yes()).await.unwrap();
            node.haft().wait(handle.session, handle.call).await.unwrap();
            let task = client.request("tasks/get", json!({"taskId": id})).await;
            assert_eq!(task["result"]["structuredContent"], json!({"paid": 5}), "{task}");
        });
        assert_eq!(paid.load(Ordering::SeqCst), 1);
    }
}

// A caller approves only what it was shown whole, with nothing invisible in it.
#[test]
fn a_consent_shows_everything_or_does_not_approve() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::Approves);
        let can = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
        let mut client = Client::connect(&server, principal("ann"), can);
        let memo = format!("report\u{202e}fdp{}x", " ".repeat(100));
        let asked = client.call("pay", json!({"cents": 5, "memo": memo})).await;
        let message = asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
        assert!(message.contains("memo: report‹U+202E›fdp‹100 spaces›x"), "{message}");
        let memo = "word ".repeat(4000);
        let waits = client.call("pay", json!({"cents": 5, "memo": memo})).await;
        assert_eq!(waits["resultType"], "task", "{waits}");
        let update = json!({"taskId": waits["taskId"], "inputResponses": {"approval": {"action": "accept", "content": {"approve": true}}}});
        client.request("tasks/update", update).await;
        let task = client.request("tasks/get", json!({"taskId": waits["taskId"]})).await;
        assert_eq!(task["status"], "working", "{task}");
        assert!(task["statusMessage"].as_str().unwrap().contains("too long"), "{task}");
    });
    assert_eq!(paid.load(Ordering::SeqCst), 0);
}

// Issue 8: what an input-required result asks for is in the inbox like any other wait, and a
// state that was bent or belongs to another is no state.
#[test]
fn what_a_client_is_asked_can_be_answered_by_whoever_comes_first() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::Approves);
        let mut client =
            Client::connect(&server, principal("ann"), json!({"elicitation": {"form": {}}}));
        let arguments = json!({"question": "Which colour?"});
        let asked = client.call("ask_person", arguments.clone()).await;
        assert_eq!(asked["inputRequests"]["answer"]["params"]["message"], "Which colour?");
        let filter = PendingFilter { kind: Some(SuspensionKind::Elicitation), ..PendingFilter::default() };
        let waits = node.haft().store().pending(&filter, &Page::first(9)).await.unwrap();
        let red = Response::Answer { value: json!("red") };
        node.haft().resolve(waits[0].session, waits[0].call, user("bob"), red).await.unwrap();
        let answer = json!({"action": "accept", "content": {"answer": "blue"}});
        let again = json!({"name": "ask_person", "arguments": arguments, "requestState": asked["requestState"], "inputResponses": {"answer": answer}});
        let done = client.request("tools/call", again.clone()).await;
        assert_eq!(done["structuredContent"], json!({"value": "red"}), "bob was first: {done}");
        for (principal, state) in [("ann", "x"), ("mallory", "")] {
            let mut other = Client::connect(&server, self::principal(principal), json!({"elicitation": {}}));
            let mut again = again.clone();
            let whole = again["requestState"].as_str().unwrap().to_owned();
            again["requestState"] = format!("{whole}{state}").into();
            let id = other.send("tools/call", again).await;
            assert_eq!(other.answer(id).await["error"]["code"], -32602);
        }
    });
}

// Issue 8: an elicitation of ours to a client of the earlier revision, which is asked while it waits.
#[test]
fn a_legacy_client_is_asked_while_its_call_waits() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::Approves);
        let can = json!({"elicitation": {}});
        let mut client = Client::legacy(&server, principal("ann"), can).await;
        for (approve, count) in [(true, 1), (false, 1)] {
            let params = json!({"name": "pay", "arguments": {"cents": 7}});
            let id = client.send("tools/call", params).await;
            let asked = client.read().await;
            assert_eq!(asked["method"], "elicitation/create", "{asked}");
            let result = json!({"action": "accept", "content": {"approve": approve}});
            client.write(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
            let done = client.answer(id).await;
            assert_eq!(done["result"]["isError"].as_bool().unwrap_or_default(), !approve, "{done}");
            assert_eq!(paid.load(Ordering::SeqCst), count);
        }
    });
}

// S1-30, issue 8: what clients are shown of a tool.
#[test]
fn tools_are_listed_with_their_schemas_and_hints() {
    let (place, paid) = (TestPlace::new(), Arc::new(AtomicU32::new(0)));
    let questions = Questions::new();
    place.live(node(&questions, &paid), async |node: TestNode| {
        let server = served(&node, &questions, Consent::IsNoApproval);
        let mut client = Client::connect(&server, principal("ann"), json!({}));
        let listed = client.request("tools/list", json!({})).await;
        let names: Vec<&str> = listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["pay", "ask_person", "await_call"]);
        let pay = &listed["tools"][0];
        assert_eq!(pay["annotations"]["readOnlyHint"], false);
        assert_eq!(pay["outputSchema"]["required"], json!(["paid"]));
        let id = client.send("tools/call", json!({"name": "request_input", "arguments": {}})).await;
        assert_eq!(client.answer(id).await["error"]["code"], -32602, "no tool of clients");
        let misfit = client.call("pay", json!({"cents": "many"})).await;
        assert_eq!(misfit["isError"], true, "a model can mend that: {misfit}");
    });
}

/// A tool that asks for a name.
fn asks_for_a_name() -> impl haft_runtime::Tool {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new("curious".parse().unwrap(), "Asks for a name.", schema);
    definition.gate = Gate::Auto;
    FunctionTool::new(definition, |_, context: haft_runtime::ToolContext| async move {
        let question = Question::form("Who?", &json!({"type": "object", "properties": {}}));
        context.service::<Questions>()?.ask(&context, "name", question).await?;
        Ok::<_, haft_runtime::ToolError>(CallResult::Ok(Output::default()).into())
    })
}

// Issue 8: what a crash interrupted is run again as soon as the node starts, before anybody can
// give the questions their node.
#[test]
fn a_tool_that_asks_before_its_node_is_attached_is_heard() {
    let (place, questions) = (TestPlace::new(), Questions::new());
    let builder = haft_mcp::install(Haft::builder(), &questions).tool(asks_for_a_name());
    place.live(builder, async |node: TestNode| {
        let Principal { actor, tenant } = principal("ann");
        let haft = node.haft();
        let config = Config { driver: Driver::Caller, ..Config::default() };
        let session = haft.open(tenant, config, actor).await.unwrap();
        let call = CallId::from_bits(haft.driver().fresh().unwrap());
        haft.propose_as(session, call, "curious", Default::default()).await.unwrap();
        // Long enough for it to have asked; if it is not, it asks a node that is attached.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _attached = questions.attach(haft);
        let all = PendingFilter::default();
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            let waiting = haft.store().pending(&all, &Page::first(9)).await.unwrap();
            if waiting.iter().any(|it| it.tool.as_str() == "request_input") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody was asked");
    });
}
