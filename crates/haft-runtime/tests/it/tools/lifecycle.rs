//! The way of a call, from its name to its one end.

use std::time::Duration;

use haft_core::session::{Config, Driver, Event};
use haft_core::tool::{Concurrency, Idempotency, Injected, InjectedKind, Reach, Status};
use haft_core::{CallResult, ErrorClass, Millis, Outcome, ProviderCallId};
use haft_runtime::testing::{Conformance, Nonconforming, TestNode, object, user};
use haft_runtime::{
    Answer, AskedCall, CallError, Live, ModelAnswer, Services, Tool as _, ToolContext, ToolError,
};
use serde_json::json;

use super::kit::{
    Effects, asks, builder, definition, done, echo, eventually, failure, function, no, node, ok,
    schema, script, value, waiting, yes,
};

// S0-5, S1-11, S3-1, S3-8, S3-10, S4-12: name, arguments, code, result.
#[tokio::test]
async fn a_call_gives_what_the_tools_code_gives() {
    let effects = Effects::default();
    let node = node(builder().tool(echo(&effects, "echo", |_| {})));
    assert_eq!(value(node.call("echo", json!({"n": 1})).await.unwrap()), json!({"n": 1}));
    let refused = node.call("echo", json!({"n": "one"})).await.unwrap_err().to_string();
    assert!(refused.contains("/n") && refused.contains("integer"), "{refused}");
    assert_eq!(effects.count(), 1);
}

// S0-21: what only reaches outside is run without a question, and all of it is in the log.
#[tokio::test]
async fn s0_21_an_external_tool_runs_at_once_and_is_logged() {
    let effects = Effects::default();
    let external = echo(&effects, "exchange_rate", |definition| {
        definition.facets = haft_core::tool::Facets::default();
        definition.mode = Some(haft_core::tool::Mode::External);
    });
    let node = node(builder().tool(external));
    let session = node.session().await;
    let answer = node.haft().call(session, "exchange_rate", object(json!({"n": 1}))).await.unwrap();
    let call = done(answer).call;
    assert_eq!(effects.count(), 1);
    let record = node.record(session).await;
    let logged = ["call.proposed", "call.admitted", "call.started", "call.finished"];
    assert_eq!(record.names_of(call), logged);
    let said = record.events().iter().find_map(|event| match event {
        Event::CallProposed { arguments, derivation, .. } => Some((arguments, derivation)),
        _ => None,
    });
    let (arguments, derivation) = said.unwrap();
    assert_eq!(arguments.record(), &object(json!({"n": 1})));
    assert!(!derivation.findings.is_empty(), "and why it was let through");
}

// S3-13: the order of a call's way, one event each; limits and permission lie in `call.proposed`
// and `call.admitted`.
#[tokio::test]
async fn s3_13_every_step_is_heard_in_the_documents_order() {
    let node = node(builder().tool(echo(&Effects::default(), "echo", |_| {})));
    let session = node.session().await;
    let mut live = node.haft().live().subscribe();
    let answer = node.haft().call(session, "echo", object(json!({}))).await.unwrap();
    let call = done(answer).call;
    let mut heard = Vec::new();
    // The answer may be read from the store before the last event is heard.
    while heard.last().is_none_or(|last| last != "call.finished") {
        match live.recv().await.unwrap() {
            Live::Step { call: of, step, .. } if of == call => heard.push(format!("{step:?}")),
            Live::Appended { events, .. } => {
                let of_call = events.iter().filter(|event| event.call() == Some(call));
                heard.extend(of_call.map(|event| event.name().to_owned()));
            }
            Live::Erased { .. } | Live::Step { .. } | Live::Progress { .. } | Live::Text { .. } => {
            }
        }
    }
    let expected = [
        "NameKnown",
        "ArgumentsFit",
        "call.proposed",
        "call.admitted",
        "call.started",
        "Before",
        "Executing",
        "After",
        "Message",
        "Artifacts",
        "call.finished",
    ];
    assert_eq!(heard, expected);
}

// D20, S3-14, S3-16, S3-22: whatever goes wrong, one paired result and one end.
#[tokio::test]
async fn d20_every_way_to_fail_is_one_outcome() {
    let effects = Effects::default();
    let quick = |definition: &mut haft_core::tool::Definition| {
        definition.exec_timeout = Millis(50);
    };
    let node = node(
        builder()
            .tool(echo(&effects, "echo", |_| {}))
            .tool(echo(&effects, "gated", asks))
            .tool(function("panics", |_| {}, |_, _| panic!("a bug")))
            .tool(function("fails", |_| {}, |_, _| Err(ToolError::upstream("it is down"))))
            .tool(waiting("hangs", quick, async |_, cx: ToolContext| {
                cx.stop().cancelled().await;
                Err(ToolError::cancelled())
            })),
    );
    let session = node.session().await;
    let haft = node.haft();
    let call = |name: &'static str, arguments| haft.call(session, name, object(arguments));
    assert!(matches!(call("nobody", json!({})).await, Err(CallError::Rejected(_))));
    assert!(matches!(call("echo", json!({"n": 1.5})).await, Err(CallError::Rejected(_))));
    assert_eq!(failure(call("panics", json!({})).await.unwrap()).class, ErrorClass::Internal);
    assert_eq!(failure(call("fails", json!({})).await.unwrap()).class, ErrorClass::Upstream);
    assert_eq!(failure(call("hangs", json!({})).await.unwrap()).class, ErrorClass::Timeout);
    for (response, class) in
        [(Some(no("not now")), ErrorClass::Denied), (None, ErrorClass::Expired)]
    {
        let gated = haft.propose(session, "gated", object(json!({}))).await.unwrap();
        assert!(matches!(haft.wait(session, gated).await.unwrap(), Answer::Waiting(_)));
        match response {
            Some(response) => {
                haft.resolve(session, gated, user("ann"), response).await.unwrap();
            }
            None => node.place().advance(Millis::from_secs(301)),
        }
        let outcome = eventually(|| async {
            match haft.answer(session, gated).await.unwrap() {
                Some(Answer::Done(outcome)) => Some(outcome),
                _ => None,
            }
        });
        assert_eq!(failure(Answer::Done(outcome.await)).class, class);
    }
    let waits = haft.propose(session, "gated", object(json!({}))).await.unwrap();
    haft.cancel(session, waits, user("ann"), None).await.unwrap();
    assert_eq!(failure(haft.wait(session, waits).await.unwrap()).class, ErrorClass::Cancelled);
    assert_eq!(effects.count(), 0);
    node.record(session).await.assert_paired();
}

// S3-7, S3-5, S3-6, D19: what the runtime supplies is not the model's to give.
#[tokio::test]
async fn d19_a_forged_injected_argument_never_reaches_the_tool() {
    let injected = |definition: &mut haft_core::tool::Definition| {
        definition.injected = vec![
            Injected { name: "thread".into(), kind: InjectedKind::ThreadId },
            Injected { name: "token".into(), kind: InjectedKind::Secret },
        ];
    };
    let node = node(builder().tool(echo(&Effects::default(), "echo", injected)));
    let session = node.session().await;
    let forged = object(json!({"n": 1, "thread": "sesn_of_someone_else", "token": "stolen"}));
    let got = value(node.haft().call(session, "echo", forged).await.unwrap());
    assert_eq!(got, json!({"n": 1, "thread": session.to_string()}));
}

// D1, D7, D23, S3-9, S4-15: one turn, many calls, each with its own result.
#[tokio::test]
async fn d23_each_result_reaches_its_own_call() {
    let model = script()
        .calls([("echo", json!({"n": 1})), ("echo", json!({"n": 2})), ("hidden", json!({}))])
        .says("done");
    let node = node(
        builder()
            .model(model)
            .tool(waiting(
                "echo",
                |_| {},
                async |arguments, _| {
                    let slow = arguments["n"] == 1;
                    tokio::time::sleep(Duration::from_millis(if slow { 30 } else { 0 })).await;
                    ok(serde_json::Value::Object(arguments))
                },
            ))
            .tool(function(
                "hidden",
                |definition| definition.status = Status::Deprecated,
                |_, _| ok(json!(1)),
            )),
    );
    let session = node.session_with(Config::default()).await;
    say(&node, session, "go").await;
    let record = idle(&node, session).await;
    record.assert_paired();
    let calls = record.calls();
    let result = |at: usize| {
        let outcomes = record.outcomes();
        let outcome = outcomes.iter().find(|outcome| outcome.call == calls[at]).unwrap();
        let Outcome { result: CallResult::Ok(output), .. } = outcome else { panic!() };
        output.value.clone().unwrap()
    };
    assert_eq!((result(0), result(1)), (json!({"n": 1}), json!({"n": 2})));
    // S1-27, S3-9: a deprecated tool is not offered, so a model's call of it is not taken.
    assert_eq!(record.names_of(calls[2]), ["call.rejected"]);
}

async fn say(node: &TestNode, session: haft_core::SessionId, text: &str) {
    let content = vec![haft_core::ContentBlock::Text { text: text.into() }];
    node.haft().say(session, user("ann"), content).await.unwrap();
}

async fn idle(node: &TestNode, session: haft_core::SessionId) -> haft_runtime::testing::Record {
    eventually(|| async {
        let record = node.record(session).await;
        let over = |event: &Event| matches!(event, Event::TurnEnded { .. });
        record.events().last().is_some_and(over).then_some(record)
    })
    .await
}

// S3-17, D19: malformed arguments are refused, and never become an empty object.
#[tokio::test]
async fn s3_17_malformed_arguments_never_become_an_empty_object() {
    let effects = Effects::default();
    let asked = |id: &str, arguments: &str| AskedCall {
        provider_id: ProviderCallId::new(id).unwrap(),
        name: "echo".into(),
        arguments: arguments.into(),
    };
    let calls = vec![
        asked("c1", ""),
        asked("c2", "{\"n\":"),
        asked("c3", "{\"n\":1,\"n\":2}"),
        asked("c4", "null"),
    ];
    let model = script().answers(ModelAnswer { calls, ..ModelAnswer::default() }).says("sorry");
    let node = node(builder().model(model).tool(echo(&effects, "echo", |_| {})));
    let session = node.session_with(Config::default()).await;
    say(&node, session, "go").await;
    let record = idle(&node, session).await;
    record.assert_paired();
    let rejected = record.names().iter().filter(|name| **name == "call.rejected").count();
    assert_eq!((rejected, effects.count()), (4, 0));
}

// D24, S3-23: so many at once and no more, and an exclusive tool alone.
#[tokio::test]
async fn d24_calls_beside_each_other_are_bounded_and_exclusive_ones_run_alone() {
    let gauge = std::sync::Arc::new(std::sync::Mutex::new((0, 0, false)));
    let measured = |name: &'static str, exclusive: bool| {
        let gauge = std::sync::Arc::clone(&gauge);
        let concurrency = if exclusive { Concurrency::Exclusive } else { Concurrency::Shared };
        waiting(
            name,
            move |definition| definition.concurrency = concurrency,
            move |_, _| {
                let gauge = std::sync::Arc::clone(&gauge);
                async move {
                    {
                        let mut gauge = gauge.lock().unwrap();
                        gauge.0 += 1;
                        gauge.1 = gauge.1.max(gauge.0);
                        gauge.2 |= exclusive && gauge.0 > 1;
                    }
                    // The first one waits for another: they may be proposed slowly.
                    while !exclusive && gauge.lock().unwrap().1 < 2 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    gauge.lock().unwrap().0 -= 1;
                    ok(json!(null))
                }
            },
        )
    };
    let node = node(builder().tool(measured("shared", false)).tool(measured("alone", true)));
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    config.limits.parallel = 3;
    let session = node.session_with(config).await;
    let haft = node.haft();
    let mut calls = Vec::new();
    for at in 0..12 {
        let name = if at % 5 == 4 { "alone" } else { "shared" };
        calls.push(haft.propose(session, name, object(json!({"n": at}))).await.unwrap());
    }
    for call in calls {
        done(haft.wait(session, call).await.unwrap());
    }
    let (_, most, beside) = *gauge.lock().unwrap();
    assert!((2..=3).contains(&most), "{most} at once");
    assert!(!beside, "an exclusive tool ran beside another");
}

// S4-10: progress is heard before the result.
#[tokio::test]
async fn s4_10_progress_precedes_the_result() {
    let streams = |definition: &mut haft_core::tool::Definition| {
        definition.streaming = haft_core::tool::Streaming::Progress;
    };
    let node = node(builder().tool(function("steps", streams, |_, cx| {
        cx.progress(json!({"done": 1}));
        cx.progress(json!({"done": 2}));
        ok(json!("end"))
    })));
    let session = node.session().await;
    let mut live = node.haft().live().subscribe();
    done(node.haft().call(session, "steps", object(json!({}))).await.unwrap());
    let mut heard = Vec::new();
    while heard.last() != Some(&json!("finished")) {
        match live.recv().await.unwrap() {
            Live::Progress { progress, .. } => heard.push(progress),
            Live::Appended { events, .. } if events.iter().any(|e| e.name() == "call.finished") => {
                heard.push(json!("finished"));
            }
            Live::Appended { .. } | Live::Erased { .. } | Live::Step { .. } | Live::Text { .. } => {
            }
        }
    }
    assert_eq!(heard, [json!({"done": 1}), json!({"done": 2}), json!("finished")]);
}

// S1-23, S1-24, S3-12: the context carries who, what stops, and whatever the application adds.
#[tokio::test]
async fn s1_24_a_tool_takes_services_from_its_context() {
    struct Desk(&'static str);
    let node = node(builder().service(Desk("north")).tool(function(
        "desk",
        |_| {},
        |_, cx| {
            let desk = cx.service::<Desk>()?;
            ok(json!({"desk": desk.0, "user": cx.actor().id.as_str(), "key": cx.idempotency_key()}))
        },
    )));
    let answer = done(node.call("desk", json!({})).await.unwrap());
    let key = answer.call.to_string();
    assert_eq!(
        value(Answer::Done(answer.into())),
        json!({"desk": "north", "user": "owner", "key": key})
    );
    let apart = ToolContext::detached(Services::default()).unwrap();
    let refused = apart.service::<Desk>().map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("Desk"));
}

// S4-39: an approved call runs on behalf of whoever approved it.
#[tokio::test]
async fn s4_39_an_approved_call_runs_on_behalf_of_the_approver() {
    let node = node(builder().tool(function("who", asks, |_, cx| ok(json!(cx.actor().id)))));
    let session = node.session().await;
    let call = node.haft().propose(session, "who", object(json!({}))).await.unwrap();
    node.haft().wait(session, call).await.unwrap();
    node.haft().resolve(session, call, user("ann"), yes()).await.unwrap();
    assert_eq!(value(node.haft().wait(session, call).await.unwrap()), json!("ann"));
}

// S3-38: only what is declared retryable is tried again, as often as declared.
#[tokio::test]
async fn s3_38_a_declared_failure_is_tried_again() {
    let tries = Effects::default();
    let seen = tries.clone();
    let retried = |definition: &mut haft_core::tool::Definition| {
        definition.retry.max_attempts = 3;
        definition.retry.backoff = Millis(1);
    };
    let node = node(builder().tool(function("flaky", retried, move |_, cx| {
        seen.happen();
        match cx.attempt() {
            3 => ok(json!("at last")),
            _ => Err(ToolError::upstream("not yet")),
        }
    })));
    let session = node.session().await;
    let call = node.haft().propose(session, "flaky", object(json!({}))).await.unwrap();
    let answer = eventually(|| async {
        node.place().advance(Millis(5));
        node.haft().answer(session, call).await.unwrap()
    });
    assert_eq!(value(answer.await), json!("at last"));
    assert_eq!(tries.count(), 3);
}

// S1-29, S1-25: the conformance kit passes a good tool and finds what is wrong with a bad one.
#[tokio::test]
async fn s1_29_the_conformance_kit_tells_good_tools_from_bad_ones() {
    let effects = Effects::default();
    let io = effects.clone();
    let positive = |definition: &mut haft_core::tool::Definition| {
        asks(definition);
        definition.input_schema =
            schema(&json!({"type": "object", "properties": {"n": {"minimum": 1}}}));
    };
    let good = function("good", positive, move |arguments, cx| {
        cx.require_going()?;
        io.happen();
        ok(arguments["n"].clone())
    });
    let bad = function("bad", |_| {}, |_, _| ok(json!("whatever you say")));
    let node = node(builder().tool(good).tool(bad));
    let kit = Conformance::of(&node, "good").unwrap();
    kit.succeeds(json!({"n": 2})).await.unwrap();
    kit.fails(json!({"n": 0})).await.unwrap();
    kit.stops(json!({"n": 2})).await.unwrap();
    assert_eq!(effects.count(), 1, "a stopped call does nothing");
    let kit = Conformance::of(&node, "bad").unwrap();
    assert!(matches!(kit.fails(json!({})).await, Err(Nonconforming::NoFailure { .. })));
    assert!(matches!(kit.stops(json!({})).await, Err(Nonconforming::NotStopped { .. })));
    assert!(Conformance::of(&node, "nobody").is_err());
}

// S4-4, S4-7: what has no code here is not run here.
#[test]
fn s4_4_a_server_tool_without_code_is_not_taken() {
    let store = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = haft_store::Store::open_sqlite(store.path()).unwrap();
        let refused = builder().declare(definition("bare", |_| {})).start(store).unwrap_err();
        assert!(refused.to_string().contains("expected code for `bare`"), "{refused}");
    });
    assert_eq!(echo(&Effects::default(), "echo", |_| {}).definition().name.as_str(), "echo");
}

/// How often anything was written.
fn writes(node: &TestNode) -> u64 {
    node.haft().store().measures().append_seconds.read().count
}

// What leaves no trace in the world is written once, begin and end; anything else before it runs.
#[tokio::test]
async fn a_call_that_leaves_no_trace_is_one_write_and_any_other_two() {
    let effects = Effects::default();
    let reads = echo(&effects, "sum", |_| {});
    let counts = echo(&effects, "count", |definition| {
        definition.facets.idempotency = Some(Idempotency::Unsafe);
    });
    let reaches = echo(&effects, "look_up", |definition| {
        definition.facets.reach = Some([Reach::Network].into());
    });
    let node = node(builder().tools([reads, counts, reaches]));
    let session = node.session().await;
    for (tool, expected) in [("sum", 1), ("count", 2), ("look_up", 2)] {
        let mut fewest = u64::MAX;
        // On a busy machine one or the other takes too long to be waited for.
        for _ in 0..20 {
            let before = writes(&node);
            let answer = node.haft().call(session, tool, object(json!({"n": 1}))).await.unwrap();
            fewest = fewest.min(writes(&node) - before);
            let logged = ["call.proposed", "call.admitted", "call.started", "call.finished"];
            assert_eq!(node.record(session).await.names_of(done(answer).call), logged, "{tool}");
        }
        assert_eq!(fewest, expected, "{tool}");
    }
}

// Whoever proposes a slow one is not kept waiting for it, and finds it recorded as begun.
#[tokio::test]
async fn a_slow_call_that_leaves_no_trace_is_recorded_while_it_runs() {
    let (release, released) = tokio::sync::watch::channel(false);
    let slow = waiting(
        "slow",
        |_| {},
        move |_, _| {
            let mut released = released.clone();
            async move {
                released.wait_for(|released| *released).await.ok();
                ok(json!("done"))
            }
        },
    );
    let node = node(builder().tool(slow));
    let session = node.session().await;
    let call = node.haft().propose(session, "slow", object(json!({}))).await.unwrap();
    let begun = ["call.proposed", "call.admitted", "call.started"];
    assert_eq!(node.record(session).await.names_of(call), begun);
    release.send(true).unwrap();
    assert_eq!(value(node.haft().wait(session, call).await.unwrap()), json!("done"));
}
