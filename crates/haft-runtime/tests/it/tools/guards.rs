//! What stands around calls: middleware, verifiers, policies, limits, selection.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use haft_core::permission::{Source, Verdict};
use haft_core::session::{Config, Driver, Event, Returned};
use haft_core::tool::{Concurrency, InterruptBehavior, Precondition};
use haft_core::{CallResult, ErrorClass, Output};
use haft_runtime::registry::{Keep, Registered, Selection, Selector};
use haft_runtime::testing::{object, user};
use haft_runtime::{
    Answer, BuildError, CallError, Invocation, Judgement, Middleware, Next, Opinion, Policy,
    ToolArguments, ToolContext, ToolError, ToolFuture, Verifier, Wish,
};
use serde_json::json;

use super::kit::{
    Effects, asks, builder, done, echo, eventually, failure, function, node, ok, schema, script,
    value, waiting, yes,
};

/// Writes down when it is asked, and may refuse.
struct Noted {
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
    refuses: bool,
}

impl Noted {
    fn note(&self, what: &str) {
        self.notes.lock().unwrap().push(format!("{} {what}", self.name));
    }
}

impl Middleware for Noted {
    fn before<'a>(&'a self, call: Invocation<'a>) -> ToolFuture<'a, Result<(), ToolError>> {
        self.note("before");
        let refused = self.refuses.then(|| ToolError::new(format!("not {}", call.spec.name)));
        Box::pin(async { refused.map_or(Ok(()), Err) })
    }

    fn wrap<'a>(
        &'a self,
        arguments: ToolArguments,
        context: ToolContext,
        next: Next<'a>,
    ) -> ToolFuture<'a, Result<Returned, ToolError>> {
        self.note("in");
        Box::pin(async move {
            let returned = next.run(arguments, context).await;
            self.note("out");
            returned
        })
    }

    fn after<'a>(&'a self, _: Invocation<'a>, returned: Returned) -> ToolFuture<'a, Returned> {
        self.note("after");
        Box::pin(async { returned })
    }
}

// S3-13, S3-35: around the tool like the skins of an onion, and able to refuse.
#[tokio::test]
async fn s3_35_middleware_stands_around_every_call() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noted = |name, refuses| Noted { name, notes: Arc::clone(&notes), refuses };
    let effects = Effects::default();
    let node = node(
        builder().middleware(noted("outer", false)).middleware(noted("inner", false)).tool(echo(
            &effects,
            "echo",
            |_| {},
        )),
    );
    done(node.call("echo", json!({})).await.unwrap());
    let expected = [
        "outer before",
        "inner before",
        "outer in",
        "inner in",
        "inner out",
        "outer out",
        "inner after",
        "outer after",
    ];
    assert_eq!(*notes.lock().unwrap(), expected);
    let node = super::kit::node(builder().middleware(noted("guard", true)).tool(echo(
        &effects,
        "echo",
        |_| {},
    )));
    let refused = failure(node.call("echo", json!({})).await.unwrap());
    assert_eq!((refused.message.as_str(), effects.count()), ("not echo", 1));
}

struct Judge(fn() -> Result<Judgement, ToolError>);

impl Verifier for Judge {
    fn judge<'a>(
        &'a self,
        _: Invocation<'a>,
        _: &'a Output,
    ) -> ToolFuture<'a, Result<Judgement, ToolError>> {
        Box::pin(async { (self.0)() })
    }
}

// S1-32, D22: a verifier warns or blocks, and one that fails is not a pass.
#[tokio::test]
async fn d22_a_verifier_that_fails_keeps_the_result_back() {
    let judged = async |judge: fn() -> Result<Judgement, ToolError>| {
        let node = node(builder().verifier(Judge(judge)).tool(function(
            "read",
            |_| {},
            |_, _| ok(json!("canary")),
        )));
        node.call("read", json!({})).await.unwrap()
    };
    assert_eq!(value(judged(|| Ok(Judgement::Pass)).await), json!("canary"));
    let warned = done(judged(|| Ok(Judgement::Warn("look twice".into()))).await);
    let CallResult::Ok(output) = warned.result else { panic!() };
    assert_eq!(output.first_text(), Some("Warning: look twice"));
    for judge in [
        (|| Ok(Judgement::Block("no".into()))) as fn() -> Result<Judgement, ToolError>,
        || Err(ToolError::new("out of order")),
        || panic!("a bug in a verifier"),
    ] {
        let failure = failure(judged(judge).await);
        assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
    }
}

struct Rule(fn() -> Result<Option<Opinion>, String>);

impl Policy for Rule {
    fn source(&self) -> Source {
        Source::Rule("test".into())
    }

    fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        Box::pin(async { (self.0)() })
    }
}

fn says(verdict: Verdict) -> Result<Option<Opinion>, String> {
    Ok(Some(Opinion { verdict, reason: "because".into() }))
}

// D22, S3-36: a policy raises and never lowers; one that fails denies.
#[tokio::test]
async fn d22_a_policy_that_fails_is_a_denial() {
    let effects = Effects::default();
    let under = async |rule: fn() -> Result<Option<Opinion>, String>| {
        let node = node(builder().policy(Rule(rule)).tool(echo(&effects, "echo", |_| {})));
        node.call("echo", json!({})).await
    };
    done(under(|| Ok(None)).await.unwrap());
    done(under(|| says(Verdict::Allow)).await.unwrap());
    assert!(matches!(under(|| says(Verdict::Ask)).await.unwrap(), Answer::Waiting(_)));
    for rule in [
        (|| says(Verdict::Deny)) as fn() -> Result<Option<Opinion>, String>,
        || Err("the rules cannot be read".into()),
        || panic!("a bug in a policy"),
    ] {
        let CallError::Rejected(rejection) = under(rule).await.unwrap_err() else { panic!() };
        assert!(rejection.message.contains("not permitted"), "{}", rejection.message);
    }
    assert_eq!(effects.count(), 2);
}

// approval-016: policy is heard again when an approved call would run.
#[tokio::test]
async fn a_policy_that_was_tightened_meanwhile_stops_an_approved_call() {
    struct Switch(Arc<Mutex<Verdict>>);
    impl Policy for Switch {
        fn source(&self) -> Source {
            Source::Rule("switch".into())
        }

        fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
            let verdict = *self.0.lock().unwrap();
            Box::pin(async move { Ok(Some(Opinion { verdict, reason: "the switch".into() })) })
        }
    }
    let (effects, switch) = (Effects::default(), Arc::new(Mutex::new(Verdict::Ask)));
    let node =
        node(builder().policy(Switch(Arc::clone(&switch))).tool(echo(&effects, "charge", asks)));
    let (session, haft) = (node.session().await, node.haft());
    let call = haft.propose(session, "charge", object(json!({}))).await.unwrap();
    haft.wait(session, call).await.unwrap();
    *switch.lock().unwrap() = Verdict::Deny;
    haft.resolve(session, call, user("ann"), yes()).await.unwrap();
    let failure = failure(haft.wait(session, call).await.unwrap());
    assert_eq!((failure.class, effects.count()), (ErrorClass::Policy, 0));
}

/// Says why a precondition does not hold.
type Unmet = fn() -> Option<String>;

/// Judges preconditions by a switch.
struct Outcomes(Arc<Mutex<Unmet>>);

impl Policy for Outcomes {
    fn source(&self) -> Source {
        Source::Rule("outcomes".into())
    }

    fn judge<'a>(&'a self, _: Wish<'a>) -> ToolFuture<'a, Result<Option<Opinion>, String>> {
        Box::pin(async { Ok(None) })
    }

    fn judges(&self, _: Precondition) -> bool {
        true
    }

    fn unmet<'a>(&'a self, _: Wish<'a>, _: Precondition) -> ToolFuture<'a, Option<String>> {
        let answer = *self.0.lock().unwrap();
        Box::pin(async move { answer() })
    }
}

// D22: what must hold must hold when the call runs, and what cannot be asked does not hold.
#[tokio::test]
async fn d22_a_precondition_is_looked_at_again_when_the_call_runs() {
    let promote = |definition: &mut haft_core::tool::Definition| {
        definition.preconditions.insert(Precondition::OutcomePass);
        definition.concurrency = Concurrency::Exclusive;
    };
    let effects = Effects::default();
    let switch: Arc<Mutex<Unmet>> = Arc::new(Mutex::new(|| None));
    let stops = |definition: &mut haft_core::tool::Definition| {
        definition.interrupt = InterruptBehavior::Cancel;
    };
    let slow = waiting("slow", stops, move |_, context: ToolContext| async move {
        context.stop().cancelled().await;
        ok(json!("slow"))
    });
    let node = node(
        builder()
            .policy(Outcomes(Arc::clone(&switch)))
            .tool(echo(&effects, "promote", promote))
            .tool(slow),
    );
    done(node.call("promote", json!({})).await.unwrap());
    let (session, haft) = (node.session().await, node.haft());
    let slow = haft.propose(session, "slow", object(json!({}))).await.unwrap();
    let call = haft.propose(session, "promote", object(json!({}))).await.unwrap();
    *switch.lock().unwrap() = || Some("the outcome does not pass".into());
    haft.cancel(session, slow, user("ann"), None).await.unwrap();
    let unmet = failure(haft.wait(session, call).await.unwrap());
    assert_eq!((unmet.class, effects.count()), (ErrorClass::Gate, 1));
    *switch.lock().unwrap() = || panic!("a bug in a policy");
    assert!(matches!(node.call("promote", json!({})).await, Err(CallError::Rejected(_))));
    assert_eq!(effects.count(), 1);
}

// A precondition that nobody can check does not hold.
#[tokio::test]
async fn a_precondition_that_nobody_judges_does_not_hold() {
    let effects = Effects::default();
    let promote = |definition: &mut haft_core::tool::Definition| {
        definition.preconditions.insert(Precondition::OutcomePass);
    };
    let node = node(builder().tool(echo(&effects, "promote", promote)));
    assert!(matches!(node.call("promote", json!({})).await, Err(CallError::Rejected(_))));
    assert_eq!(effects.count(), 0);
}

// S3-24: limits end a run, whoever asks.
#[tokio::test]
async fn s3_24_calls_beyond_the_limit_are_not_run() {
    let effects = Effects::default();
    let calls = std::array::from_fn::<_, 8, _>(|n| ("echo", json!({ "n": n })));
    let model = script().calls(calls).says("enough");
    let node = node(builder().model(model).tool(echo(&effects, "echo", |_| {})));
    let mut config = Config::default();
    config.limits.calls_per_turn = 3;
    let session = node.session_with(config).await;
    let content = vec![haft_core::ContentBlock::Text { text: "go".into() }];
    node.haft().say(session, user("ann"), content).await.unwrap();
    let record = eventually(|| async {
        let record = node.record(session).await;
        record.names().last().is_some_and(|name| *name == "turn.ended").then_some(record)
    })
    .await;
    record.assert_paired();
    assert_eq!((record.calls().len(), effects.count()), (8, 3));
}

struct OnlyWeather;

impl Selector for OnlyWeather {
    fn name(&self) -> &str {
        "by topic"
    }

    fn select(&self, said: &str, offered: &[Arc<Registered>]) -> Selection {
        let about = |tool: &&Arc<Registered>| said.contains(tool.name().as_str());
        let keep: BTreeSet<_> =
            offered.iter().filter(about).map(|tool| tool.name().clone()).collect();
        Selection { keep: Keep::Only(keep), reason: format!("they said {said:?}") }
    }
}

// S3-25, S3-9: what is offered can be narrowed, the log says by whom and why, and what was not
// offered is not called.
#[tokio::test]
async fn s3_25_a_selection_is_recorded_and_holds() {
    let effects = Effects::default();
    let model = script().calls([("weather", json!({})), ("charge", json!({}))]).says("done");
    let node = node(
        builder()
            .model(model)
            .selector(OnlyWeather)
            .tool(echo(&effects, "weather", |_| {}))
            .tool(echo(&effects, "charge", |_| {})),
    );
    let session = node.session_with(Config::default()).await;
    let content = vec![haft_core::ContentBlock::Text { text: "weather please".into() }];
    node.haft().say(session, user("ann"), content).await.unwrap();
    let record = eventually(|| async {
        let record = node.record(session).await;
        record.names().last().is_some_and(|name| *name == "turn.ended").then_some(record)
    })
    .await;
    let narrowed = record.events().iter().find_map(|event| match event {
        Event::TurnAnswered { narrowed, .. } => narrowed.first().cloned(),
        _ => None,
    });
    let narrowed = narrowed.unwrap();
    assert_eq!((narrowed.by.as_str(), narrowed.left_out), ("by topic", 1));
    assert!(narrowed.reason.contains("weather please"));
    assert_eq!(record.names_of(record.calls()[1]), ["call.rejected"]);
    assert_eq!(effects.count(), 1);
}

// S3-25: a session's own list of tools holds for programs too.
#[tokio::test]
async fn a_tool_that_a_session_may_not_use_is_not_run() {
    let effects = Effects::default();
    let node = node(builder().tool(echo(&effects, "charge", |_| {})));
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    config.exposure.deny.insert("charge".parse().unwrap());
    let session = node.session_with(config).await;
    let refused = node.haft().call(session, "charge", object(json!({}))).await;
    assert!(matches!(refused, Err(CallError::Rejected(_))));
    assert_eq!(effects.count(), 0);
}

#[tokio::test]
async fn what_a_tool_needs_is_missed_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let start = |builder: haft_runtime::HaftBuilder| {
        builder.start(haft_store::Store::open_sqlite(directory.path()).unwrap()).unwrap_err()
    };
    let secret = |definition: &mut haft_core::tool::Definition| {
        definition.input_schema =
            schema(&json!({"type": "object", "properties": {"token": {"type": "string"}}}));
        definition.redaction.secret = vec!["/token".parse().unwrap()];
    };
    let sealed = start(builder().tool(echo(&Effects::default(), "login", secret)));
    assert!(matches!(sealed, BuildError::NoSealingKey { .. }), "{sealed}");
    let twice = echo(&Effects::default(), "echo", |_| {});
    let twice = start(builder().tool(Arc::clone(&twice)).tool(twice));
    assert!(matches!(twice, BuildError::Register(_)), "{twice}");
}
