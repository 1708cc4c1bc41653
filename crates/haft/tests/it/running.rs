//! Tools from functions and methods, run by a node over a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haft::{
    Actor, ActorId, Answer, BuildError, CallError, CallResult, Config, Digest, Driver, Haft,
    HaftBuilder, Preview, Response, SessionId, Store, Tenant, ToolContext, ToolError, Value, json,
    tool, tools,
};

struct Desk {
    balance: AtomicU32,
}

#[tools]
impl Desk {
    /// Refunds a charge. Use when a customer is owed money.
    #[tool(write, approve, preview = Self::refund_preview)]
    async fn refund(&self, cents: u32, cx: &ToolContext) -> Result<Value, ToolError> {
        cx.require_going()?;
        let balance = self.balance.fetch_sub(cents, Ordering::SeqCst) - cents;
        Ok(json!({"balance": balance, "attempt": cx.attempt(), "by": cx.actor()}))
    }

    async fn refund_preview(&self, cents: u32, _cx: &ToolContext) -> Result<Preview, ToolError> {
        let balance = self.balance.load(Ordering::SeqCst);
        let diff = Some(format!("{balance} -> {}", balance - cents));
        Ok(Preview {
            fingerprint: Digest::of_json(&json!(balance)),
            targets: vec![],
            diff,
            trouble: None,
        })
    }
}

struct Rates {
    euro: f64,
}

/// Converts dollars. Use when the user asks for euros.
#[tool(read)]
fn convert(
    /// Amount in dollars
    #[schemars(range(min = 0))]
    dollars: f64,
    rates: &Rates,
    cx: &ToolContext,
) -> Result<f64, ToolError> {
    cx.require_going()?;
    Ok(dollars * rates.euro)
}

struct Node {
    haft: Haft,
    session: SessionId,
    _directory: tempfile::TempDir,
}

impl Node {
    async fn start(builder: HaftBuilder) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let haft = builder.start(Store::open_sqlite(directory.path()).unwrap()).unwrap();
        let tenant = Tenant::new("acme").unwrap();
        let config = Config { driver: Driver::Caller, ..Config::default() };
        let session = haft.open(tenant, config, Actor::system()).await.unwrap();
        Self { haft, session, _directory: directory }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Answer {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        self.haft.call(self.session, tool, arguments).await.unwrap()
    }
}

#[track_caller]
fn result(answer: Answer) -> CallResult {
    match answer {
        Answer::Done(outcome) => outcome.result,
        Answer::Waiting(_) | Answer::InDoubt(_) => panic!("expected an outcome, found {answer:?}"),
    }
}

#[track_caller]
fn value(answer: Answer) -> Value {
    match result(answer) {
        CallResult::Ok(output) => output.value.unwrap(),
        CallResult::Err(failure) => panic!("expected a value, found {failure:?}"),
    }
}

// S3-7: stripped from what the model sends, then supplied by the runtime.
// S4-12: the code receives parsed arguments and the turn's scope.
#[tokio::test]
async fn s3_7_s4_12_a_node_runs_a_function() {
    let node =
        Node::start(Haft::builder().tool(convert::tool()).service(Rates { euro: 0.5 })).await;
    let forged = json!({"dollars": 8, "rates": {"euro": 100}, "cx": null});
    assert_eq!(value(node.call("convert", forged).await), json!(4.0));
    node.haft.shutdown(Duration::from_secs(5)).await;
}

// S1-4: the schema that the model is sent is the one that a call is checked against.
#[tokio::test]
async fn s1_4_arguments_that_do_not_fit_never_reach_the_function() {
    let node =
        Node::start(Haft::builder().tool(convert::tool()).service(Rates { euro: 0.5 })).await;
    for (arguments, place) in [
        (json!({"dollars": -1}), "/dollars"),
        (json!({"dollars": "8"}), "/dollars"),
        (json!({"dollars": 1, "x": 1}), "x"),
    ] {
        let arguments = arguments.as_object().unwrap().clone();
        let refused = node.haft.call(node.session, "convert", arguments).await.unwrap_err();
        let CallError::Rejected(rejection) = refused else { panic!("expected a rejection") };
        assert!(rejection.message.contains(place), "{rejection:?}");
    }
    node.haft.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_node_asks_before_it_runs_a_method() {
    let desk = Arc::new(Desk { balance: AtomicU32::new(100) });
    let node = Node::start(Haft::builder().tools(Arc::clone(&desk).tools())).await;
    let Answer::Waiting(waiting) = node.call("refund", json!({"cents": 30})).await else {
        panic!("it is asked")
    };
    assert_eq!(waiting.preview.and_then(|preview| preview.diff).as_deref(), Some("100 -> 70"));
    assert_eq!(desk.balance.load(Ordering::SeqCst), 100);
    let yes = Response::Approve { arguments: None, note: None, grant: None };
    let ann = Actor::user(ActorId::new("ann").unwrap());
    node.haft.resolve(node.session, waiting.call, ann.clone(), yes).await.unwrap();
    let answer = node.haft.wait(node.session, waiting.call).await.unwrap();
    assert_eq!(value(answer), json!({"balance": 70, "attempt": 1, "by": ann}));
    node.haft.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_node_without_a_needed_service_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let error = Haft::builder().tool(convert::tool()).start(store).map(drop).unwrap_err();
    assert!(matches!(&error, BuildError::NoService { .. }), "{error}");
    assert!(error.to_string().contains("Rates"), "{error}");
}
