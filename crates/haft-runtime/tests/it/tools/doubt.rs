//! What is not known is not claimed: timeouts, cancellations, panics and lost connections of calls
//! that may have taken effect.

use std::sync::{Arc, OnceLock};

use haft_core::session::{Event, Returned, SuspensionKind, Verification};
use haft_core::tool::{
    Definition, Gate, Hook, Idempotency, InterruptBehavior, Mutates, Undo, UndoSource,
};
use haft_core::{CallResult, ErrorClass, JsonPointer, Millis, Output, SessionId};
use haft_runtime::testing::{Boundary, TestNode, TestPlace, object, user};
use haft_runtime::{
    Answer, HaftBuilder, Invocation, Middleware, Response, Tool, ToolArguments, ToolContext,
    ToolError, ToolFuture, UndoError, Verdict, Waiting,
};
use haft_store::{Page, PendingFilter};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::kit::{
    Effects, builder, definition, done, echo, eventually, failure, function, node, ok, value,
    waiting,
};

/// A definition of something that costs money and must not be repeated.
fn pays(definition: &mut Definition) {
    definition.gate = Gate::Auto;
    definition.facets.mutates = Some(Mutates::Irreversible);
    definition.facets.idempotency = Some(Idempotency::Unsafe);
}

fn pays_quickly(definition: &mut Definition) {
    pays(definition);
    definition.exec_timeout = Millis(50);
}

fn pays_until_stopped(definition: &mut Definition) {
    pays(definition);
    definition.interrupt = InterruptBehavior::Cancel;
}

/// Pays, and then hangs without heeding anything.
fn refund(paid: &Effects, change: fn(&mut Definition)) -> Arc<dyn Tool> {
    let paid = paid.clone();
    waiting("refund", change, move |_, _| {
        let paid = paid.clone();
        async move {
            paid.happen();
            std::future::pending().await
        }
    })
}

#[track_caller]
fn in_doubt(answer: Answer) -> Waiting {
    match answer {
        Answer::InDoubt(waiting) => *waiting,
        other => panic!("expected a call in doubt, found {other:?}"),
    }
}

fn because(waiting: &Waiting) -> &str {
    waiting.in_doubt_because.as_deref().unwrap_or_default()
}

async fn settle(node: &TestNode, waiting: &Waiting, verdict: Verdict) -> Answer {
    let (session, call, haft) = (waiting.session, waiting.call, node.haft());
    haft.resolve(session, call, user("ann"), Response::Settle(verdict)).await.unwrap();
    haft.wait(session, call).await.unwrap()
}

// E2: paid, then hung past its time: not claimed to have failed, not repeated, in the inbox, and
// undone after a person said that it happened.
#[tokio::test]
async fn e2_a_refund_that_outlasts_its_time_is_settled_and_undone() {
    let (paid, taken_back) = (Effects::default(), Effects::default());
    let undoable = |definition: &mut Definition| {
        pays_quickly(definition);
        let id = UndoSource::Result(JsonPointer::new("/n").unwrap());
        definition.undo = Some(Undo {
            tool: "take_back".parse().unwrap(),
            arguments: [("n".to_owned(), id)].into(),
            window: Millis::from_secs(600),
        });
    };
    let tools = builder().tool(refund(&paid, undoable)).tool(echo(&taken_back, "take_back", pays));
    let node = node(tools);
    let doubt = in_doubt(node.call("refund", json!({})).await.unwrap());
    assert_eq!(doubt.kind, SuspensionKind::Settlement);
    assert!(because(&doubt).contains("its time was up"), "{doubt:?}");
    assert!(because(&doubt).contains("may still be running"), "{doubt:?}");
    let waits = node.haft().store().pending(&PendingFilter::default(), &Page::first(9)).await;
    assert_eq!(waits.unwrap().iter().map(|wait| wait.call).collect::<Vec<_>>(), [doubt.call]);
    let early = node.haft().undo(doubt.session, doubt.call, user("ann")).await.unwrap_err();
    assert!(matches!(early, UndoError::InDoubt), "{early}");
    let value = Some(json!({"n": 7}));
    let settled = settle(&node, &doubt, Verdict::Happened { value }).await;
    assert!(done(settled).is_ok());
    let undone = node.haft().undo(doubt.session, doubt.call, user("ann")).await.unwrap();
    assert_eq!(super::kit::value(undone), json!({"n": 7}));
    assert_eq!((paid.count(), taken_back.count()), (1, 1));
}

#[tokio::test]
async fn what_nobody_found_out_is_not_taken_back() {
    let paid = Effects::default();
    let node = node(builder().tool(refund(&paid, pays_quickly)));
    let doubt = in_doubt(node.call("refund", json!({})).await.unwrap());
    let given_up = failure(settle(&node, &doubt, Verdict::GiveUp).await);
    assert_eq!(given_up.class, ErrorClass::Interrupted);
    let undo = node.haft().undo(doubt.session, doubt.call, user("ann")).await.unwrap_err();
    assert!(matches!(undo, UndoError::NotKnown), "{undo}");
}

/// Pays, waits until it is stopped or for ever, and knows afterwards whether it paid.
struct Ledger {
    paid: Effects,
    asked: Effects,
    heeds_stop: bool,
    finds: fn() -> Verification,
}

impl Tool for Ledger {
    fn definition(&self) -> Definition {
        definition("refund", |definition| {
            pays_quickly(definition);
            definition.hooks.insert(Hook::Verify);
        })
    }

    fn call(
        &self,
        _: ToolArguments,
        context: ToolContext,
    ) -> ToolFuture<'_, Result<Returned, ToolError>> {
        Box::pin(async move {
            self.paid.happen();
            if self.paid.count() > 1 {
                return ok(json!("again"));
            }
            match self.heeds_stop {
                true => context.stop().cancelled().await,
                false => std::future::pending().await,
            }
            Err(ToolError::cancelled())
        })
    }

    fn verify(&self, _: ToolArguments, _: ToolContext) -> ToolFuture<'_, Verification> {
        self.asked.happen();
        Box::pin(async { (self.finds)() })
    }
}

// E2: the hook is asked, and believed where it can know.
#[tokio::test]
async fn e2_the_verify_hook_is_asked_after_a_timeout() {
    let run = async |heeds_stop, finds| {
        let (paid, asked) = (Effects::default(), Effects::default());
        let tool = Ledger { paid: paid.clone(), asked: asked.clone(), heeds_stop, finds };
        let answer = node(builder().tool(tool)).call("refund", json!({})).await.unwrap();
        assert_eq!(asked.count(), 1, "the hook was asked");
        (answer, paid.count())
    };
    let applied = || Verification::Applied(Output::of_value(json!("re_1")));
    let (answer, paid) = run(false, applied).await;
    assert_eq!((value(answer), paid), (json!("re_1"), 1));
    let (answer, paid) = run(true, || Verification::Absent).await;
    assert_eq!((value(answer), paid), (json!("again"), 2));
    let (answer, paid) = run(false, || Verification::Absent).await;
    in_doubt(answer);
    assert_eq!(paid, 1, "what may still run is not run beside itself");
    let (answer, _) = run(true, || Verification::Unknown).await;
    in_doubt(answer);
}

// E2: the same for a person who stops the call.
#[tokio::test]
async fn e2_a_cancelled_call_that_may_have_paid_is_in_doubt() {
    let stopped = async |nothing_done: bool| {
        let paid = Effects::default();
        let counts = paid.clone();
        let tool = waiting("refund", pays_until_stopped, move |_, context: ToolContext| {
            let paid = counts.clone();
            async move {
                paid.happen();
                context.stop().cancelled().await;
                let stopped = ToolError::cancelled();
                Err(if nothing_done { stopped.without_effect() } else { stopped })
            }
        });
        let node = node(builder().tool(tool));
        let (session, haft) = (node.session().await, node.haft());
        let call = haft.propose(session, "refund", object(json!({}))).await.unwrap();
        eventually(|| async { (paid.count() == 1).then_some(()) }).await;
        haft.cancel(session, call, user("ann"), None).await.unwrap();
        let answer = haft.wait(session, call).await.unwrap();
        if let Answer::InDoubt(doubt) = &answer {
            settle(&node, doubt, Verdict::Happened { value: None }).await;
        }
        assert_eq!(paid.count(), 1);
        answer
    };
    in_doubt(stopped(false).await);
    assert_eq!(failure(stopped(true).await).class, ErrorClass::Cancelled);
}

#[tokio::test]
async fn a_call_that_cannot_be_stopped_says_why() {
    let paid = Effects::default();
    let node = node(builder().tool(refund(&paid, pays)));
    let (session, haft) = (node.session().await, node.haft());
    let call = haft.propose(session, "refund", object(json!({}))).await.unwrap();
    eventually(|| async { (paid.count() == 1).then_some(()) }).await;
    let refused = haft.cancel(session, call, user("ann"), None).await.unwrap_err().to_string();
    assert!(refused.contains("does not declare that its calls can be stopped"), "{refused}");
}

// E2: a tool can say so itself.
#[tokio::test]
async fn e2_a_tool_says_that_it_does_not_know() {
    let paid = Effects::default();
    let counts = paid.clone();
    let tool = function("refund", pays, move |_, _| {
        counts.happen();
        Err(ToolError::unknown("the connection broke after the request was sent"))
    });
    let node = node(builder().tool(tool));
    let doubt = in_doubt(node.call("refund", json!({})).await.unwrap());
    assert_eq!(because(&doubt), "the connection broke after the request was sent");
    assert_eq!(paid.count(), 1);
}

#[tokio::test]
async fn a_panic_after_the_deed_is_in_doubt() {
    let paid = Effects::default();
    let counts = paid.clone();
    let tool = function("refund", pays, move |_, _| {
        counts.happen();
        panic!("a bug after the money left")
    });
    let node = node(builder().tool(tool));
    let doubt = in_doubt(node.call("refund", json!({})).await.unwrap());
    assert_eq!((because(&doubt), paid.count()), ("the tool panicked", 1));
}

#[tokio::test]
async fn a_read_that_takes_too_long_is_tried_once_more_and_then_fails() {
    let looked = Effects::default();
    let node = node(builder().tool(refund(&looked, |definition| {
        definition.exec_timeout = Millis(50);
    })));
    let failed = failure(node.call("refund", json!({})).await.unwrap());
    assert_eq!(failed.class, ErrorClass::Timeout);
    assert_eq!(looked.count(), 2);
}

// What the tool does after its time is news, and nobody need settle what is known.
#[tokio::test]
async fn a_tool_that_ends_late_settles_its_own_doubt() {
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let tool = waiting("refund", pays_quickly, move |_, _| {
        let gate = Arc::clone(&opens);
        async move {
            let _open = gate.acquire().await;
            ok(json!("paid at last"))
        }
    });
    let node = node(builder().tool(tool));
    let doubt = in_doubt(node.call("refund", json!({})).await.unwrap());
    gate.add_permits(1);
    let answer = eventually(|| async {
        match node.haft().answer(doubt.session, doubt.call).await.unwrap() {
            Some(Answer::InDoubt(_)) | None => None,
            answer => answer,
        }
    });
    assert_eq!(value(answer.await), json!("paid at last"));
}

/// Stands before every call and never lets it through.
struct Hesitates;

impl Middleware for Hesitates {
    fn before<'a>(&'a self, _: Invocation<'a>) -> ToolFuture<'a, Result<(), ToolError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_call_whose_tool_was_never_entered_did_nothing_for_certain() {
    let paid = Effects::default();
    let node = node(builder().tool(refund(&paid, pays_quickly)).middleware(Hesitates));
    let failed = failure(node.call("refund", json!({})).await.unwrap());
    assert_eq!((failed.class, paid.count()), (ErrorClass::Timeout, 0));
    assert!(failed.message.starts_with("its tool was not run"), "{}", failed.message);
}

// Without a record nobody can settle it: so the caller reads what is not known.
#[tokio::test]
async fn a_direct_call_does_not_claim_to_know() {
    let paid = Effects::default();
    let direct = builder()
        .tool(refund(&paid, pays_quickly))
        .direct(haft_core::session::Config::default(), user("owner"))
        .unwrap();
    let CallResult::Err(failed) = direct.call("refund", "{}").await.unwrap().result else {
        panic!("it hung")
    };
    assert_eq!(failed.class, ErrorClass::Interrupted);
    assert!(failed.message.contains("not known whether this call took effect"), "{failed:?}");
}

/// A till whose sales are counted, and must not be repeated.
fn till(sold: &Effects) -> HaftBuilder {
    builder().tool(echo(sold, "sell", pays))
}

/// Returns what a later life makes of the only call of a session, if it was recorded at all.
fn in_the_next_life(place: &Arc<TestPlace>, sold: &Effects, session: SessionId) -> Option<Answer> {
    place.advance(Millis::from_secs(60));
    place.live(till(sold), async |node: TestNode| {
        let haft = node.haft();
        let entries = haft.store().entries(session, 0, 1_000).await.unwrap();
        let call = entries.iter().find_map(|entry| match entry.event().unwrap() {
            Event::CallProposed { call, .. } => Some(call),
            _ => None,
        })?;
        haft.driver().wake(session);
        Some(haft.wait(session, call).await.unwrap())
    })
}

// L6: whoever writes tools can kill a node at every boundary, and see what that does to them.
#[test]
fn l6_a_death_at_any_boundary_repeats_nothing_and_claims_nothing() {
    let mut n_deaths = 0;
    for boundary in Boundary::ALL {
        for nth in 1.. {
            let (place, sold) = (TestPlace::new(), Effects::default());
            let opened = OnceLock::new();
            let lived = place.live_until(till(&sold), boundary, nth, async |node: TestNode| {
                let session = node.session().await;
                opened.set(session).unwrap();
                node.haft().call(session, "sell", object(json!({"n": 1}))).await.unwrap()
            });
            let before = sold.count();
            let after = opened.get().and_then(|id| in_the_next_life(&place, &sold, *id));
            let here = format!("{boundary:?} {nth}: {after:?}");
            match after {
                None => assert_eq!(sold.count(), 0, "{here}"),
                Some(Answer::Done(outcome)) => {
                    assert_eq!((outcome.is_ok(), sold.count()), (true, 1), "{here}");
                }
                Some(Answer::InDoubt(_)) => assert_eq!(sold.count(), before, "{here}"),
                Some(Answer::Waiting(_)) => panic!("{here}"),
            }
            if lived.is_some() {
                break;
            }
            n_deaths += 1;
        }
    }
    assert!(n_deaths >= 6, "only {n_deaths} deaths");
}

#[test]
fn a_life_that_ends_by_itself_is_told_from_one_that_is_cut_short() {
    let (place, sold) = (TestPlace::new(), Effects::default());
    let lived =
        place.live_until(till(&sold), Boundary::JobEnded, 9, async |_: TestNode| Value::Null);
    assert_eq!(lived, Some(Value::Null));
}
