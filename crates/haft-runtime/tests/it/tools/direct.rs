//! Calls without a store: the same checks and the same way, and nothing that could wait.

use std::time::Duration;

use haft_core::session::{Allowance, Config, RejectReason};
use haft_core::tool::{Definition, Gate, Spend};
use haft_core::{CallResult, ErrorClass, Millis, Outcome};
use haft_runtime::testing::user;
use haft_runtime::{CallError, Direct, HaftBuilder, ToolContext, ToolError};
use serde_json::json;

use super::kit::{Effects, asks, builder, echo, function, ok, waiting};

fn direct(builder: HaftBuilder) -> Direct {
    builder.direct(Config::default(), user("owner")).unwrap()
}

#[track_caller]
fn class(outcome: &Outcome) -> ErrorClass {
    match &outcome.result {
        CallResult::Ok(output) => panic!("expected a failure, found {output:?}"),
        CallResult::Err(failure) => failure.class,
    }
}

#[tokio::test]
async fn a_direct_call_gives_what_the_tools_code_gives() {
    let effects = Effects::default();
    let direct = direct(builder().tool(echo(&effects, "echo", |_| {})));
    let outcome = direct.call("echo", r#"{"n":1}"#).await.unwrap();
    let CallResult::Ok(output) = &outcome.result else { panic!() };
    assert_eq!(output.value, Some(json!({"n": 1})));
    let again = direct.call("echo", r#"{"n":1}"#).await.unwrap();
    assert_ne!(outcome.call, again.call);
    assert_eq!(effects.count(), 2);
}

#[tokio::test]
async fn what_is_not_sound_or_not_permitted_is_not_run() {
    let effects = Effects::default();
    let tools = builder().tool(echo(&effects, "echo", |_| {})).tool(echo(&effects, "charge", asks));
    let mut config = Config::default();
    config.exposure.deny.insert("hidden".parse().unwrap());
    let tools = tools.tool(echo(&effects, "hidden", |_| {}));
    let direct = tools.direct(config, user("owner")).unwrap();
    let refused = async |name: &str, arguments: &str| match direct.call(name, arguments).await {
        Err(CallError::Rejected(rejection)) => Some(rejection.reason),
        Err(CallError::NeedsStore { .. }) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("nobody", "{}").await, Some(RejectReason::UnknownTool));
    assert_eq!(refused("echo", "{").await, Some(RejectReason::Malformed));
    assert_eq!(refused("echo", r#"{"n":"x"}"#).await, Some(RejectReason::InvalidArguments));
    assert_eq!(refused("hidden", "{}").await, Some(RejectReason::Denied));
    for _ in 0..2 {
        assert_eq!(refused("charge", "{}").await, None, "there is nobody to ask");
    }
    assert_eq!(effects.count(), 0);
}

// D3: without a log nothing counts what is spent, so nothing is spent under a limit.
#[tokio::test]
async fn d3_a_direct_call_does_not_spend_past_a_limit() {
    let effects = Effects::default();
    let spends = |definition: &mut Definition| {
        definition.gate = Gate::Auto;
        definition.facets.spend = Some(Spend::Possible);
    };
    let tools =
        || builder().tool(echo(&effects, "pay", spends)).tool(echo(&effects, "echo", |_| {}));
    let unlimited = direct(tools());
    unlimited.call("pay", "{}").await.unwrap();
    let mut config = Config::default();
    config.limits.spend_per_session = Some(Allowance::default());
    let limited = tools().direct(config, user("owner")).unwrap();
    let refused = limited.call("pay", "{}").await;
    assert!(matches!(refused, Err(CallError::NeedsStore { .. })), "{refused:?}");
    limited.call("echo", "{}").await.unwrap();
    assert_eq!(effects.count(), 2);
}

// D20, D24: panics, failures and overlong calls are outcomes here too.
#[tokio::test]
async fn whatever_a_tools_code_does_is_an_outcome() {
    let quick = |definition: &mut Definition| definition.exec_timeout = Millis(20);
    let direct = direct(
        builder()
            .tool(function("panics", |_| {}, |_, _| panic!("a bug")))
            .tool(function("fails", |_| {}, |_, _| Err(ToolError::auth("no key"))))
            .tool(waiting(
                "panics_later",
                |_| {},
                async |_, _: ToolContext| {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    panic!("a bug")
                },
            ))
            .tool(waiting("hangs", quick, async |_, _: ToolContext| std::future::pending().await))
            .tool(function("good", |_| {}, |_, _| ok(json!(1)))),
    );
    let run = async |name: &str| class(&direct.call(name, "{}").await.unwrap());
    assert_eq!(run("panics").await, ErrorClass::Internal);
    assert_eq!(run("panics_later").await, ErrorClass::Internal);
    assert_eq!(run("fails").await, ErrorClass::Auth);
    assert_eq!(run("hangs").await, ErrorClass::Timeout);
    assert!(direct.call("good", "{}").await.unwrap().is_ok(), "it goes on");
}
