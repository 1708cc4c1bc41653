//! Attempts that ended without a result: a timeout, a cancellation, a panic, a lost connection.
//! What is not known is not claimed, and nothing is repeated that might be done twice.

use crate::world::{World, ann, effect_unknown, email, mutating, ok, read};
use haft_core::session::{
    AttemptEnded, AttemptReport, CallCancelled, EffectUnknown, Event, Input, Limits, Phase,
    RecoveryPlan, Refusal, Resolution, Settlement, SuspendReason, SuspensionKind, Verification,
    Verified,
};
use haft_core::tool::{Hook, Idempotency, InterruptBehavior, Retry, ToolSpec};
use haft_core::{CallId, ErrorClass, Failure, Millis, Output};
use serde_json::json;

fn running(tool: &ToolSpec) -> (World, CallId) {
    let mut world = World::caller();
    let call = world.propose(tool, &json!({"cents": 5}));
    assert_eq!(world.executions(call), 1);
    (world, call)
}

fn idempotent() -> ToolSpec {
    mutating("set_price", |definition| {
        definition.facets.idempotency = Some(Idempotency::Idempotent);
    })
}

fn keyed() -> ToolSpec {
    mutating("charge_keyed", |definition| {
        definition.facets.idempotency = Some(Idempotency::Keyed);
    })
}

fn stoppable() -> ToolSpec {
    mutating("do_slowly", |definition| definition.interrupt = InterruptBehavior::Cancel)
}

fn verifiable() -> ToolSpec {
    mutating("charge_verifiable", |definition| {
        definition.hooks.insert(Hook::Verify);
        definition.interrupt = InterruptBehavior::Cancel;
    })
}

fn cancel(world: &mut World, call: CallId) {
    let cancelled = CallCancelled { call, by: ann(), note: None };
    world.input(Input::CallCancelled(cancelled)).unwrap();
    assert!(matches!(world.phase(call), Phase::Cancelling { .. }));
}

fn verified(world: &mut World, call: CallId, verdict: Verification) {
    world.input(Input::Verified(Verified { call, attempt: 1, verdict })).unwrap();
}

fn plans(world: &World) -> Vec<RecoveryPlan> {
    let plan = |event| match event {
        Event::CallInterrupted { plan, failure, .. } => failure.map(|_| plan),
        _ => None,
    };
    world.events().into_iter().filter_map(plan).collect()
}

fn is_in_doubt(world: &World, call: CallId) -> bool {
    match world.phase(call) {
        Phase::Waiting(wait) => {
            (wait.kind, wait.reason) == (SuspensionKind::Settlement, SuspendReason::InDoubt)
        }
        _ => false,
    }
}

#[test]
fn an_unsafe_call_that_ran_out_of_time_is_in_doubt_and_not_repeated() {
    let (mut world, call) = running(&email());
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    assert!(is_in_doubt(&world, call));
    assert_eq!(plans(&world), [RecoveryPlan::Ask]);
    assert_eq!(world.executions(call), 1, "it was not run a second time");
    let because = world.open().call(call).unwrap().in_doubt_because.clone();
    assert_eq!(because.as_deref(), Some("its time was up"));
    world.crash();
    assert!(is_in_doubt(&world, call), "a crash changes nothing about that");
}

#[test]
fn a_call_in_doubt_after_a_timeout_is_settled_in_three_ways() {
    let settled = |settlement| {
        let (mut world, call) = running(&email());
        world.ends_unknown(call, ErrorClass::Timeout).unwrap();
        world.resolve(call, Resolution::Settle(settlement)).unwrap();
        (world, call)
    };
    let output = Some(Output::of_text("message 7"));
    let (world, call) = settled(Settlement::Happened { output });
    assert_eq!(world.outcome(call).unwrap().result, ok("message 7"));

    let (mut world, call) = settled(Settlement::RunAgain);
    assert_eq!(world.executions(call), 2);
    assert_eq!(world.open().call(call).unwrap().in_doubt_because, None);
    world.returns(call, ok("sent")).unwrap();
    assert_eq!(world.outcome(call).unwrap().attempt, 2);

    let (world, call) = settled(Settlement::GiveUp);
    assert_eq!(world.failure(call).class, ErrorClass::Interrupted);
}

#[test]
fn the_late_word_of_the_attempt_settles_the_doubt() {
    let (mut world, call) = running(&email());
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    let again = AttemptEnded { call, attempt: 1, report: effect_unknown(ErrorClass::Timeout) };
    world.input(Input::AttemptEnded(again)).unwrap();
    assert!(is_in_doubt(&world, call), "that it is not known is no news");
    let report = AttemptReport::Returned(ok("sent after all").into());
    let late = AttemptEnded { call, attempt: 1, report };
    world.input_elsewhere(Input::AttemptEnded(late)).unwrap();
    assert_eq!(world.outcome(call).unwrap().result, ok("sent after all"));
}

#[test]
fn a_read_that_ran_out_of_time_is_tried_once_more_and_then_fails() {
    let (mut world, call) = running(&read());
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    assert_eq!(world.executions(call), 2);
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    assert_eq!(world.executions(call), 2, "not for ever");
    assert_eq!(plans(&world), [RecoveryPlan::Rerun, RecoveryPlan::Report]);
    let failure = world.failure(call);
    assert_eq!((failure.class, failure.message.as_str()), (ErrorClass::Timeout, "its time was up"));
}

#[test]
fn a_read_that_panicked_fails_at_once() {
    let (mut world, call) = running(&read());
    world.ends_unknown(call, ErrorClass::Internal).unwrap();
    assert_eq!(world.executions(call), 1);
    assert_eq!(world.failure(call).class, ErrorClass::Internal);
}

#[test]
fn a_run_that_allows_no_retries_repeats_no_read() {
    let limits = Limits { retries_per_run: Some(0), ..Limits::default() };
    let config = haft_core::session::Config {
        limits,
        driver: haft_core::session::Driver::Caller,
        ..Default::default()
    };
    let mut world = World::with(config);
    let call = world.propose(&read(), &json!({}));
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    assert_eq!(world.executions(call), 1);
    assert_eq!(world.failure(call).class, ErrorClass::Timeout);
}

#[test]
fn what_may_be_repeated_is_repeated_once_and_then_parked() {
    for tool in [idempotent(), keyed()] {
        let (mut world, call) = running(&tool);
        for class in [ErrorClass::Timeout, ErrorClass::Internal] {
            world.ends_unknown(call, class).unwrap();
        }
        assert_eq!(world.executions(call), 2, "{}", tool.name);
        assert!(is_in_doubt(&world, call), "{}", tool.name);
    }
}

#[test]
fn a_declared_retry_is_kept_and_bounds_the_attempts() {
    let patient = mutating("charge_patiently", |definition| {
        definition.facets.idempotency = Some(Idempotency::Keyed);
        definition.retry = Retry { max_attempts: 3, ..Retry::default() };
    });
    let (mut world, call) = running(&patient);
    for attempt in 2..=3 {
        world.ends_unknown(call, ErrorClass::Timeout).unwrap();
        assert!(matches!(world.phase(call), Phase::Ready { due: Some(_), .. }));
        world.wait(Millis::from_secs(60));
        world.input(Input::Woken).unwrap();
        assert_eq!(world.executions(call), attempt);
    }
    world.ends_unknown(call, ErrorClass::Timeout).unwrap();
    assert!(is_in_doubt(&world, call));
}

#[test]
fn the_verify_hook_is_asked_and_believed() {
    let verifying = || {
        let (mut world, call) = running(&verifiable());
        world.ends_unknown(call, ErrorClass::Timeout).unwrap();
        assert_eq!(plans(&world), [RecoveryPlan::Verify]);
        (world, call)
    };
    let (mut world, call) = verifying();
    verified(&mut world, call, Verification::Applied(Output::of_text("charge 3")));
    assert_eq!(world.outcome(call).unwrap().result, ok("charge 3"));
    let (mut world, call) = verifying();
    verified(&mut world, call, Verification::Absent);
    assert_eq!(world.executions(call), 2);
    let (mut world, call) = verifying();
    verified(&mut world, call, Verification::Unknown);
    assert!(is_in_doubt(&world, call));
}

// What the hook does not see may still come: the old attempt and a new one would be two.
#[test]
fn an_attempt_that_may_still_run_is_not_repeated_because_its_hook_sees_nothing() {
    let (mut world, call) = running(&verifiable());
    let failure = Failure::new(ErrorClass::Timeout, "it did not stop");
    let report = AttemptReport::EffectUnknown(EffectUnknown { failure, may_still_run: true });
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    verified(&mut world, call, Verification::Absent);
    assert_eq!(world.executions(call), 1);
    assert!(is_in_doubt(&world, call));
    world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap();
    assert_eq!(world.executions(call), 2, "a person may say so");
}

#[test]
fn a_cancelled_call_is_in_doubt_if_it_may_have_taken_effect() {
    let (mut world, call) = running(&stoppable());
    cancel(&mut world, call);
    world.ends_unknown(call, ErrorClass::Cancelled).unwrap();
    assert!(is_in_doubt(&world, call));
    world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap();
    assert_eq!(world.executions(call), 2, "what let it run was not forgotten");
}

#[test]
fn a_cancelled_call_is_not_repeated_by_itself() {
    let stopped = |tool: ToolSpec| {
        let (mut world, call) = running(&tool);
        cancel(&mut world, call);
        world.ends_unknown(call, ErrorClass::Cancelled).unwrap();
        assert_eq!(world.executions(call), 1);
        (world, call)
    };
    let can_be_stopped = |name: &str, idempotency| {
        mutating(name, |definition| {
            definition.facets.idempotency = Some(idempotency);
            definition.interrupt = InterruptBehavior::Cancel;
        })
    };
    for idempotency in [Idempotency::Idempotent, Idempotency::Keyed] {
        let (world, call) = stopped(can_be_stopped("charge_again", idempotency));
        assert!(is_in_doubt(&world, call), "{idempotency:?}");
    }
    let look = crate::world::tool("look_slowly", |definition| {
        definition.facets = read().facets.clone();
        definition.interrupt = InterruptBehavior::Cancel;
    });
    let (world, call) = stopped(look);
    assert_eq!(world.failure(call).class, ErrorClass::Cancelled, "it changed nothing");
}

#[test]
fn a_cancelled_call_that_did_not_take_effect_is_over() {
    let (mut world, call) = running(&verifiable());
    cancel(&mut world, call);
    world.ends_unknown(call, ErrorClass::Cancelled).unwrap();
    verified(&mut world, call, Verification::Absent);
    assert_eq!(world.executions(call), 1);
    let failure = world.failure(call);
    assert_eq!(failure.class, ErrorClass::Cancelled);
    assert!(failure.message.contains("did not take effect"), "{}", failure.message);
}

#[test]
fn a_crash_while_a_call_is_being_stopped_leaves_it_in_doubt() {
    let (mut world, call) = running(&stoppable());
    cancel(&mut world, call);
    world.crash();
    assert!(is_in_doubt(&world, call));
    let (mut world, call) = running(&verifiable());
    cancel(&mut world, call);
    world.crash();
    world.crash();
    verified(&mut world, call, Verification::Absent);
    assert_eq!(world.executions(call), 0, "nobody runs it again");
    assert_eq!(world.failure(call).class, ErrorClass::Cancelled);
}

// A stopped session does not wait for a person; its outcome says what is not known.
#[test]
fn a_stopped_session_reports_what_is_not_known() {
    for tool in [email(), stoppable(), keyed(), idempotent(), verifiable()] {
        let (mut world, call) = running(&tool);
        world.interrupt().unwrap();
        world.ends_unknown(call, ErrorClass::Cancelled).unwrap();
        let failure = world.failure(call);
        assert_eq!(failure.class, ErrorClass::Interrupted, "{}", tool.name);
        assert!(failure.message.contains("not known whether this call took effect"));
        assert!(failure.message.contains("its time was up"), "{}", failure.message);
    }
    let (mut world, call) = running(&read());
    world.interrupt().unwrap();
    world.ends_unknown(call, ErrorClass::Cancelled).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Cancelled);
}

#[test]
fn a_report_about_another_attempt_is_stale() {
    let (mut world, call) = running(&email());
    let report = effect_unknown(ErrorClass::Timeout);
    let stale = world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 2, report }));
    assert!(matches!(stale, Err(Refusal::Stale(_))), "{stale:?}");
}
