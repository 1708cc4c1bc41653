//! Calls of tools that `#[tool]` made, as the runtime makes them.

use std::sync::Mutex;

use haft::{
    CallResult, Directives, ErrorClass, JsonSchema, Output, Returned, Services, Tool, ToolContext,
    ToolError, Verification, json, tool,
};
use serde::Deserialize;
use serde_json::Value;

fn context() -> ToolContext {
    ToolContext::detached(Services::default()).unwrap()
}

async fn call(
    tool: &impl Tool,
    arguments: Value,
    context: ToolContext,
) -> Result<Returned, ToolError> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    tool.call(arguments, context).await
}

async fn output(tool: &impl Tool, arguments: Value) -> Output {
    match call(tool, arguments, context()).await.unwrap().result {
        CallResult::Ok(output) => output,
        CallResult::Err(failure) => panic!("{failure:?}"),
    }
}

async fn error(tool: &impl Tool, arguments: Value) -> ToolError {
    call(tool, arguments, context()).await.unwrap_err()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Line {
    sku: String,
    n: u8,
}

/// Adds up an order.
#[tool(read)]
fn total(
    lines: Vec<Line>,
    #[tool(default = 1)] factor: u32,
    #[tool(default)] offset: u32,
    r#type: Option<String>,
) -> u32 {
    let sum: u32 = lines.iter().map(|line| u32::from(line.n) + line.sku.len() as u32).sum();
    sum * factor + offset + u32::from(r#type.is_some())
}

// S1-11, S4-12: the code receives parsed arguments, and its value is the result.
#[tokio::test]
async fn s1_11_a_call_passes_arguments_and_gives_the_value() {
    let lines = json!([{"sku": "a", "n": 2}, {"sku": "bc", "n": 3}]);
    let all = json!({"lines": lines, "factor": 10, "offset": 5, "type": "x"});
    assert_eq!(output(&total::tool(), all).await, Output::of_value(json!(86)));
    assert_eq!(output(&total::tool(), json!({"lines": lines})).await, Output::of_value(json!(8)));
}

#[test]
fn the_function_is_still_a_function() {
    assert_eq!(total(vec![Line { sku: "a".into(), n: 1 }], 2, 3, None), 7);
}

#[tokio::test]
async fn a_misfit_is_named_by_its_place() {
    let tool = total::tool();
    for (arguments, expected) in [
        (json!({}), "the arguments do not fit: missing field `lines`"),
        (
            json!({"lines": [], "extra": 1}),
            "the argument at `/extra` does not fit: unknown field `extra`, expected one of `lines`, `factor`, `offset`, `type`",
        ),
        (
            json!({"lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 300}]}),
            "the argument at `/lines/1/n` does not fit: invalid value: integer `300`, expected u8",
        ),
        (
            json!({"lines": "none"}),
            "the argument at `/lines` does not fit: invalid type: string \"none\", expected a sequence",
        ),
    ] {
        let error = error(&tool, arguments).await;
        assert_eq!(
            (error.class(), error.to_string().as_str()),
            (ErrorClass::InvalidArgs, expected)
        );
    }
}

struct Ledger(Mutex<Vec<String>>);

/// Notes a line.
#[tool(write)]
async fn note(line: String, ledger: &Ledger, cache: Option<&u64>, cx: &ToolContext) -> usize {
    tokio::task::yield_now().await;
    let mut lines = ledger.0.lock().unwrap();
    lines.push(format!("{line} {:?} {}", cache, cx.attempt()));
    lines.len()
}

// S3-7: a value that a model forges for an injected parameter never reaches the tool.
// S1-24: a service that came later is optional, and tools without it go on working.
#[tokio::test]
async fn s3_7_s1_24_services_come_from_the_context_only() {
    let mut services = Services::default();
    services.insert(Ledger(Mutex::default()));
    let before = ToolContext::detached(services.clone()).unwrap();
    let forged = json!({"line": "a", "ledger": "mine", "cache": 7, "cx": {"attempt": 9}});
    call(&note::tool(), forged, before.clone()).await.unwrap();
    services.insert(5u64);
    let after = ToolContext::detached(services).unwrap();
    call(&note::tool(), json!({"line": "b"}), after).await.unwrap();
    let ledger = before.service::<Ledger>().unwrap();
    assert_eq!(*ledger.0.lock().unwrap(), ["a None 1", "b Some(5) 1"]);
}

#[tokio::test]
async fn a_missing_service_is_named() {
    let error = error(&note::tool(), json!({"line": "a"})).await;
    assert_eq!(error.class(), ErrorClass::Internal);
    assert!(error.to_string().contains("Ledger"), "{error}");
}

/// Says hello.
#[tool(read)]
fn hello(name: String) -> String {
    format!("hello {name}")
}

/// Says what it is.
#[tool(read)]
fn fixed() -> &'static str {
    "fixed"
}

/// Gives an output as it is.
#[tool(read)]
fn shown() -> Result<Output, ToolError> {
    Ok(Output::of_text("shown"))
}

/// Gives a whole return.
#[tool(read)]
async fn ended() -> Returned {
    let directives = Directives { terminal: Some(true), ..Directives::default() };
    Returned { directives, ..CallResult::Ok(Output::of_text("over")).into() }
}

/// Does nothing.
#[tool(write, idempotent)]
fn nothing() {}

#[tokio::test]
async fn what_is_returned_is_taken_for_what_it_is() {
    let text = Output { value: Some(json!("hello Ann")), ..Output::of_text("hello Ann") };
    assert_eq!(output(&hello::tool(), json!({"name": "Ann"})).await, text);
    assert_eq!(output(&fixed::tool(), json!({})).await.first_text(), Some("fixed"));
    assert_eq!(output(&shown::tool(), json!({})).await, Output::of_text("shown"));
    assert_eq!(output(&nothing::tool(), json!({})).await, Output::of_value(Value::Null));
    let ended = call(&ended::tool(), json!({}), context()).await.unwrap();
    assert_eq!(ended.directives.terminal, Some(true));
}

#[derive(Debug)]
struct Busy;

impl From<Busy> for ToolError {
    fn from(_: Busy) -> Self {
        Self::rate_limited("busy")
    }
}

/// Fails with an error of its own.
#[tool(read)]
fn busy() -> Result<(), Busy> {
    Err(Busy)
}

/// Fails with a standard error.
#[tool(read)]
fn parsed(text: String) -> Result<u8, std::num::ParseIntError> {
    text.parse()
}

/// Fails with a text.
#[tool(read)]
fn told() -> Result<u8, String> {
    Err("no luck".to_owned())
}

/// Fails with a boxed error.
#[tool(read)]
fn boxed() -> Result<u8, Box<dyn std::error::Error + Send + Sync>> {
    Err("no luck either".into())
}

#[tokio::test]
async fn any_error_becomes_a_tools_error() {
    let busy = error(&busy::tool(), json!({})).await;
    assert_eq!((busy.class(), busy.to_string().as_str()), (ErrorClass::RateLimited, "busy"));
    let parsed = error(&parsed::tool(), json!({"text": "x"})).await;
    assert_eq!(parsed.class(), ErrorClass::ToolError);
    assert_eq!(parsed.to_string(), "invalid digit found in string");
    assert_eq!(error(&told::tool(), json!({})).await.to_string(), "no luck");
    assert_eq!(error(&boxed::tool(), json!({})).await.to_string(), "no luck either");
}

/// Tells which thread runs it.
#[tool(read, blocking)]
fn thread(ledger: &Ledger) -> String {
    ledger.0.lock().unwrap().push("ran".to_owned());
    format!("{:?}", std::thread::current().id())
}

#[tokio::test]
async fn a_blocking_function_runs_on_a_thread_of_its_own() {
    let mut services = Services::default();
    services.insert(Ledger(Mutex::default()));
    let context = ToolContext::detached(services).unwrap();
    let returned = call(&thread::tool(), json!({}), context.clone()).await.unwrap();
    let CallResult::Ok(output) = returned.result else { panic!("it works") };
    assert_ne!(output.first_text().unwrap(), format!("{:?}", std::thread::current().id()));
    assert_eq!(context.service::<Ledger>().unwrap().0.lock().unwrap().len(), 1);
}

/// Moves money.
#[tool(external, verify = moved, preview = would_move)]
async fn transfer(cents: u32) -> u32 {
    cents
}

async fn moved(cents: u32) -> Verification {
    if cents > 5 {
        Verification::Applied(Output::of_value(json!(cents)))
    } else {
        Verification::Absent
    }
}

async fn would_move(cents: u32) -> Result<haft::Preview, std::num::TryFromIntError> {
    let cents = u8::try_from(cents)?;
    let fingerprint = haft::Digest::of_json(&json!(cents));
    Ok(haft::Preview { fingerprint, targets: vec![cents.to_string()], diff: None, trouble: None })
}

#[tokio::test]
async fn hooks_take_what_the_function_takes() {
    let tool = transfer::tool();
    let arguments = |cents: u32| json!({"cents": cents}).as_object().unwrap().clone();
    let preview = tool.preview(arguments(7), context()).await.unwrap();
    assert_eq!(preview.targets, ["7"]);
    assert!(tool.preview(arguments(700), context()).await.is_err());
    let verdict = tool.verify(arguments(7), context()).await;
    assert!(matches!(verdict, Verification::Applied(_)), "{verdict:?}");
    assert!(matches!(tool.verify(arguments(1), context()).await, Verification::Absent));
    let unreadable = json!({"cents": "x"}).as_object().unwrap().clone();
    assert!(matches!(tool.verify(unreadable, context()).await, Verification::Unknown));
}

#[tokio::test]
async fn a_detached_context_carries_actor_stop_and_services() {
    let context = context();
    assert_eq!(context.actor(), &haft::Actor::system());
    assert!(context.require_going().is_ok());
    context.stop().cancel();
    assert_eq!(context.require_going().unwrap_err().to_string(), "Request was cancelled");
    assert!(context.service::<Ledger>().is_err());
    assert_ne!(context.idempotency_key(), self::context().idempotency_key());
    assert!(context.keep("t", "text/plain", vec![1]).await.is_err());
}
