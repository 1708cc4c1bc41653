//! After a crash: what is run again, what is asked about, and how a call is taken back.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::session::{Config, Preview, Returned, SuspensionKind, Verification};
use haft_core::tool::{Definition, Hook, Idempotency, Undo, UndoSource};
use haft_core::{CallId, ErrorClass, Millis, Output, SessionId, Timestamp};
use haft_runtime::testing::{TestNode, TestPlace, object, user};
use haft_runtime::{
    Answer, HaftBuilder, Invocation, Judgement, Response, Tool, ToolArguments, ToolContext,
    ToolError, ToolFuture, UndoError, Verdict, Verifier,
};
use serde_json::json;

use super::kit::{
    Effects, asks, builder, done, echo, eventually, failure, no, node, ok, schema, script, value,
    waiting, yes,
};

/// A tool that does its deed and then never returns in its first life.
fn hangs(effects: &Effects, change: impl FnOnce(&mut Definition)) -> Arc<dyn Tool> {
    let effects = effects.clone();
    waiting("deed", change, move |_, _| {
        let effects = effects.clone();
        async move {
            effects.happen();
            if effects.count() == 1 {
                std::future::pending::<()>().await;
            }
            ok(json!("done"))
        }
    })
}

/// Lives until the deed is done and dies there.
fn die_inside(
    place: &Arc<TestPlace>,
    effects: &Effects,
    builder: HaftBuilder,
) -> (SessionId, CallId) {
    let effects = effects.clone();
    place.live(builder, async move |node: TestNode| {
        let session = node.session().await;
        let call = node.haft().propose(session, "deed", object(json!({}))).await.unwrap();
        if let Some(Answer::Waiting(_)) = node.haft().answer(session, call).await.unwrap() {
            node.haft().resolve(session, call, user("ann"), yes()).await.unwrap();
        }
        eventually(|| async { (effects.count() == 1).then_some(()) }).await;
        (session, call)
    })
}

fn next_life(
    place: &Arc<TestPlace>,
    builder: HaftBuilder,
    session: SessionId,
    call: CallId,
) -> Answer {
    place.advance(Millis::from_secs(60));
    place.live(builder, async move |node: TestNode| {
        node.haft().driver().wake(session);
        node.haft().wait(session, call).await.unwrap()
    })
}

fn unsafe_to_repeat(definition: &mut Definition) {
    asks(definition);
    definition.facets.idempotency = Some(Idempotency::Unsafe);
}

// D4, S4-26: what only reads, and what the other side recognises, is run again; the rest is asked
// about.
#[test]
fn d4_after_a_crash_only_what_is_safe_is_run_again() {
    type Case = (fn(&mut Definition), u32);
    let cases: [Case; 3] = [
        (|_| {}, 2),
        (|definition| definition.facets.idempotency = Some(Idempotency::Keyed), 2),
        (unsafe_to_repeat, 1),
    ];
    for (change, runs) in cases {
        let (place, effects) = (TestPlace::new(), Effects::default());
        let (session, call) = die_inside(&place, &effects, builder().tool(hangs(&effects, change)));
        let answer = next_life(&place, builder().tool(hangs(&effects, change)), session, call);
        match (runs, answer) {
            (2, answer) => assert_eq!(value(answer), json!("done")),
            (_, Answer::InDoubt(waiting)) => assert_eq!(waiting.kind, SuspensionKind::Settlement),
            (_, answer) => panic!("{answer:?}"),
        }
        assert_eq!(effects.count(), runs);
    }
}

// A person says what became of it: it happened, run it, or leave it.
#[test]
fn a_person_settles_a_call_in_doubt() {
    let settled = |verdict: Verdict| {
        let (place, effects) = (TestPlace::new(), Effects::default());
        let tool = || builder().tool(hangs(&effects, unsafe_to_repeat));
        let (session, call) = die_inside(&place, &effects, tool());
        next_life(&place, tool(), session, call);
        place.advance(Millis::from_secs(60));
        let answer = place.live(tool(), async |node: TestNode| {
            let haft = node.haft();
            haft.resolve(session, call, user("ann"), Response::Settle(verdict)).await.unwrap();
            haft.wait(session, call).await.unwrap()
        });
        (answer, effects.count())
    };
    let (happened, runs) = settled(Verdict::Happened { value: Some(json!("it did")) });
    assert_eq!((value(happened), runs), (json!("it did"), 1));
    let (again, runs) = settled(Verdict::RunAgain);
    assert_eq!((value(again), runs), (json!("done"), 2));
    let (left, runs) = settled(Verdict::GiveUp);
    assert_eq!((failure(left).class, runs), (ErrorClass::Interrupted, 1));
}

/// A tool whose verify hook knows what became of an attempt.
struct Verifiable {
    hanging: Arc<dyn Tool>,
    effects: Effects,
}

impl Tool for Verifiable {
    fn definition(&self) -> Definition {
        let mut definition = self.hanging.definition();
        definition.hooks.insert(Hook::Verify);
        definition
    }

    fn call(
        &self,
        arguments: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        self.hanging.call(arguments, context)
    }

    fn preview(
        &self,
        _: ToolArguments,
        _: ToolContext,
    ) -> ToolFuture<'_, Result<Preview, ToolError>> {
        Box::pin(async { Err(ToolError::new("none")) })
    }

    fn verify(&self, _: ToolArguments, _: ToolContext) -> ToolFuture<'_, Verification> {
        let happened = self.effects.count() > 0;
        Box::pin(async move {
            match happened {
                true => Verification::Applied(Output::of_value(json!("found to be done"))),
                false => Verification::Absent,
            }
        })
    }
}

#[test]
fn a_verify_hook_settles_a_call_in_doubt() {
    let (place, effects) = (TestPlace::new(), Effects::default());
    let tool = || {
        let hanging = hangs(&effects, unsafe_to_repeat);
        builder().tool(Verifiable { hanging, effects: effects.clone() })
    };
    let (session, call) = die_inside(&place, &effects, tool());
    assert_eq!(value(next_life(&place, tool(), session, call)), json!("found to be done"));
    assert_eq!(effects.count(), 1);
}

/// Passes nothing.
struct Suspicious;

impl Verifier for Suspicious {
    fn judge<'a>(
        &'a self,
        _: Invocation<'a>,
        _: &'a Output,
    ) -> ToolFuture<'a, Result<Judgement, ToolError>> {
        Box::pin(async { Ok(Judgement::Block("it looks odd".into())) })
    }
}

// D22: what a verify hook says that a call gave is judged like what the call would have said.
#[test]
fn d22_a_verify_hooks_result_is_judged() {
    let (place, effects) = (TestPlace::new(), Effects::default());
    let tool = || {
        let hanging = hangs(&effects, unsafe_to_repeat);
        builder().verifier(Suspicious).tool(Verifiable { hanging, effects: effects.clone() })
    };
    let (session, call) = die_inside(&place, &effects, tool());
    let withheld = failure(next_life(&place, tool(), session, call));
    assert_eq!((withheld.class, effects.count()), (ErrorClass::Policy, 1));
    assert!(withheld.message.contains("the tool ran"), "{}", withheld.message);
}

// A person's word about what a call gave must fit too, and is asked for also when the tool is gone.
#[test]
fn what_a_person_says_that_a_call_gave_must_fit() {
    let (place, effects) = (TestPlace::new(), Effects::default());
    let declares = |definition: &mut Definition| {
        unsafe_to_repeat(definition);
        definition.output_schema = Some(schema(&json!({"type": "string"})));
    };
    let tool = || builder().tool(hangs(&effects, declares));
    let (session, call) = die_inside(&place, &effects, tool());
    next_life(&place, tool(), session, call);
    place.advance(Millis::from_secs(60));
    place.live(tool(), async |node: TestNode| {
        let happened = |value| Response::Settle(Verdict::Happened { value: Some(value) });
        let settle = |value| node.haft().resolve(session, call, user("ann"), happened(value));
        let misfit = settle(json!(7)).await.unwrap_err();
        assert!(misfit.to_string().contains("expected a string"), "{misfit}");
    });
    place.advance(Millis::from_secs(60));
    place.live(builder(), async |node: TestNode| {
        let given_up = Response::Settle(Verdict::GiveUp);
        node.haft().resolve(session, call, user("ann"), given_up).await.unwrap();
    });
}

const CRASH_PLACE: &str = "HAFT_TEST_CRASH_PLACE";

fn happen(place: &Path, what: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(place.join(what)).unwrap();
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
}

fn happened(place: &Path, what: &str) -> usize {
    std::fs::read(place.join(what)).map_or(0, |bytes| bytes.len())
}

/// An agent that writes an e-mail and charges a card in one turn.
fn shop(place: &Path, dies: bool) -> HaftBuilder {
    let model =
        script().calls([("email", json!({"n": 1})), ("charge", json!({"n": 2}))]).says("done");
    let counted = |what: &'static str, dies: bool| {
        let place = place.to_owned();
        move |_: ToolArguments, _: ToolContext| {
            let place = place.clone();
            async move {
                happen(&place, what);
                if dies {
                    std::process::abort();
                }
                ok(json!("done"))
            }
        }
    };
    let sends = |definition: &mut Definition| {
        definition.facets.mutates = Some(haft_core::tool::Mutates::Irreversible);
        definition.gate = haft_core::tool::Gate::Auto;
    };
    builder().model(model).tool(waiting("email", sends, counted("email", false))).tool(waiting(
        "charge",
        unsafe_to_repeat,
        counted("charge", dies),
    ))
}

/// Only does something when [`the_crash_that_others_get_wrong`] starts it as a process of its own.
#[test]
fn child_of_the_crash() {
    let Some(place) = std::env::var_os(CRASH_PLACE).map(PathBuf::from) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = haft_store::Store::open_sqlite(&place.join("store")).unwrap();
        let haft = shop(&place, true).start(store).unwrap();
        let tenant = haft_store::Tenant::new("test").unwrap();
        let session = haft.open(tenant, Config::default(), user("owner")).await.unwrap();
        std::fs::write(place.join("session"), session.to_string()).unwrap();
        let content = vec![haft_core::ContentBlock::Text { text: "buy".into() }];
        haft.say(session, user("ann"), content).await.unwrap();
        let waiting = eventually(|| async {
            let filter = haft_store::PendingFilter::default();
            let page = haft_store::Page { after: None, limit: 1 };
            let found = haft.store().pending(&filter, &page).await.unwrap();
            found.first().map(|pending| pending.call)
        })
        .await;
        eventually(|| async { (happened(&place, "email") == 1).then_some(()) }).await;
        haft.resolve(session, waiting, user("ann"), yes()).await.unwrap();
        std::future::pending::<()>().await;
    });
}

// The scenario that LangGraph, the OpenAI Agents SDK and Pydantic AI with DBOS get wrong: an
// ungated `email` and a gated `charge` in one turn, killed inside `charge`, resumed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the process that dies is this test, started again")]
fn the_crash_that_others_get_wrong() {
    let place = tempfile::tempdir().unwrap();
    let me = std::env::current_exe().unwrap();
    let status = std::process::Command::new(me)
        .args(["--exact", "tools::recovery::child_of_the_crash", "--nocapture"])
        .env(CRASH_PLACE, place.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success(), "it was to die inside `charge`");
    let session: SessionId =
        std::fs::read_to_string(place.path().join("session")).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = haft_store::Store::open_sqlite(&place.path().join("store")).unwrap();
        let haft = shop(place.path(), false).start(store).unwrap();
        let doubtful = eventually(|| async {
            let filter = haft_store::PendingFilter::default();
            let page = haft_store::Page { after: None, limit: 1 };
            let found = haft.store().pending(&filter, &page).await.unwrap();
            let settlement =
                |pending: &&haft_store::Pending| pending.kind == SuspensionKind::Settlement;
            found.iter().find(settlement).map(|pending| pending.call)
        })
        .await;
        let answer = haft.answer(session, doubtful).await.unwrap().unwrap();
        assert!(matches!(answer, Answer::InDoubt(_)), "{answer:?}");
    });
    assert_eq!((happened(place.path(), "email"), happened(place.path(), "charge")), (1, 1));
}

fn refundable(definition: &mut Definition) {
    definition.facets.mutates = Some(haft_core::tool::Mutates::Bounded);
    definition.gate = haft_core::tool::Gate::Auto;
    definition.input_schema = schema(&json!({"type": "object", "properties": {"n": {}}}));
    let arguments = [
        ("of".to_owned(), UndoSource::Result("/id".parse().unwrap())),
        ("n".to_owned(), UndoSource::Argument("/n".parse().unwrap())),
        ("why".to_owned(), UndoSource::Literal(json!("undone"))),
    ];
    let tool = "refund".parse().unwrap();
    definition.undo =
        Some(Undo { tool, arguments: arguments.into(), window: Millis::from_secs(600) });
}

fn refund(definition: &mut Definition) {
    asks(definition);
    definition.input_schema = schema(&json!({"type": "object", "required": ["of", "n", "why"]}));
}

fn till(refunds: &Effects) -> HaftBuilder {
    let sold = super::kit::function("sell", refundable, |_, cx| ok(json!({"id": cx.call()})));
    builder().tool(sold).tool(echo(refunds, "refund", refund))
}

// An undo is a call of its own: asked about, run once, and only within its window.
#[tokio::test]
async fn a_call_is_taken_back_once_under_its_own_permission() {
    let refunds = Effects::default();
    let node = node(till(&refunds));
    let (session, haft) = (node.session().await, node.haft());
    let sold = done(haft.call(session, "sell", object(json!({"n": 3}))).await.unwrap()).call;
    let Answer::Waiting(asked) = haft.undo(session, sold, user("ann")).await.unwrap() else {
        panic!()
    };
    let expected = json!({"of": sold, "n": 3, "why": "undone"});
    assert_eq!(serde_json::Value::Object(asked.arguments.clone()), expected);
    let Answer::Waiting(same) = haft.undo(session, sold, user("bob")).await.unwrap() else {
        panic!()
    };
    assert_eq!(same.call, asked.call, "whoever asks second finds the first");
    haft.resolve(asked.session, asked.call, user("ann"), yes()).await.unwrap();
    assert_eq!(value(haft.undo(session, sold, user("bob")).await.unwrap()), expected);
    node.place().advance(Millis::from_secs(601));
    let later = haft.undo(session, sold, user("bob")).await.unwrap();
    assert_eq!(value(later), expected, "what was taken back in time is so for ever");
    assert_eq!(refunds.count(), 1);
}

#[tokio::test]
async fn an_undo_that_was_denied_can_be_asked_for_again_within_its_window() {
    let refunds = Effects::default();
    let node = node(till(&refunds));
    let (session, haft) = (node.session().await, node.haft());
    let sold = done(haft.call(session, "sell", object(json!({"n": 3}))).await.unwrap()).call;
    let Answer::Waiting(first) = haft.undo(session, sold, user("ann")).await.unwrap() else {
        panic!()
    };
    haft.resolve(first.session, first.call, user("ann"), no("not yet")).await.unwrap();
    let Answer::Waiting(second) = haft.undo(session, sold, user("ann")).await.unwrap() else {
        panic!()
    };
    assert_ne!(first.call, second.call);
    node.place().advance(Millis::from_secs(601));
    let late = haft.undo(session, sold, user("ann")).await.unwrap_err();
    assert!(matches!(late, UndoError::TooLate { .. }), "{late}");
    assert_eq!(refunds.count(), 0);
}

// Whoever asks after the process that claimed the undo died, before it proposed it: nothing ran.
#[tokio::test]
async fn an_undo_that_was_only_claimed_is_over_with_its_window() {
    let node = node(till(&Effects::default()));
    let (session, haft) = (node.session().await, node.haft());
    let sold = done(haft.call(session, "sell", object(json!({"n": 3}))).await.unwrap()).call;
    let store = haft.store();
    let tenant = store.load(session).await.unwrap().unwrap().tenant;
    let claim = json!({"session": node.session().await, "call": CallId::from_bits(7)});
    let put = haft_store::Put {
        place: haft_store::Place::new(tenant, "undo", &sold.to_string()).unwrap(),
        expected: haft_store::Expected::Absent,
        body: Some(claim.to_string().into_bytes()),
    };
    store.put_versions(vec![put], &user("ann"), Timestamp::from_ms(0)).await.unwrap();
    node.place().advance(Millis::from_secs(601));
    let late = haft.undo(session, sold, user("bob")).await.unwrap_err();
    assert!(matches!(late, UndoError::TooLate { .. }), "{late}");
}

#[tokio::test]
async fn what_did_nothing_or_has_no_undo_is_not_taken_back() {
    let node = node(till(&Effects::default()).tool(echo(&Effects::default(), "echo", |_| {})));
    let (session, haft) = (node.session().await, node.haft());
    let plain = done(haft.call(session, "echo", object(json!({}))).await.unwrap()).call;
    let no_undo = haft.undo(session, plain, user("ann")).await.unwrap_err();
    assert!(matches!(no_undo, UndoError::NoUndo { .. }), "{no_undo}");
    let waits = haft.propose(session, "refund", object(json!({"of": 1, "n": 1, "why": ""}))).await;
    let waits = haft.undo(session, waits.unwrap(), user("ann")).await.unwrap_err();
    assert!(matches!(waits, UndoError::NothingDone), "{waits}");
}

/// A call that waits for a yes in one life, and the answer to it in the next.
fn after_a_change(next: HaftBuilder) -> Answer {
    let (place, effects) = (TestPlace::new(), Effects::default());
    let (session, call) =
        place.live(builder().tool(echo(&effects, "charge", asks)), async |node: TestNode| {
            let session = node.session().await;
            let call = node.haft().propose(session, "charge", object(json!({"n": 1}))).await;
            let call = call.unwrap();
            node.haft().wait(session, call).await.unwrap();
            (session, call)
        });
    place.advance(Millis::from_secs(60));
    place.live(next, async move |node: TestNode| {
        node.haft().driver().wake(session);
        eventually(|| async {
            match node.haft().answer(session, call).await.unwrap() {
                Some(Answer::Waiting(waiting)) if waiting.round == 1 => None,
                answer => answer,
            }
        })
        .await
    })
}

// A tool that changed or went away while its call waited: the approver is asked again, or the
// call is closed with a reason.
#[test]
fn a_tool_that_changed_meanwhile_is_asked_about_again() {
    let narrower = |definition: &mut Definition| {
        asks(definition);
        definition.input_schema =
            schema(&json!({"type": "object", "properties": {"n": {"type": "number"}}}));
    };
    let again = after_a_change(builder().tool(echo(&Effects::default(), "charge", narrower)));
    let Answer::Waiting(again) = again else { panic!("{again:?}") };
    assert_eq!(again.reason, haft_core::session::SuspendReason::Redefined);
    let misfit = |definition: &mut Definition| {
        asks(definition);
        definition.input_schema =
            schema(&json!({"type": "object", "properties": {"n": {"type": "string"}}}));
    };
    let closed =
        failure(after_a_change(builder().tool(echo(&Effects::default(), "charge", misfit))));
    assert!(closed.message.contains("/n"), "{closed:?}");
    let gone = failure(after_a_change(builder().tool(echo(&Effects::default(), "other", asks))));
    assert!(gone.message.contains("charge") || gone.message.contains("gone"), "{gone:?}");
}
