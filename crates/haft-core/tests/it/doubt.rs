//! Crashes: nothing silently run twice, nothing silently dropped.

use crate::world::{World, ann, approve, charge, email, mutating, ok, read};
use haft_core::session::{
    Activity, AttemptEnded, AttemptReport, Effect, Event, Expired, Input, Phase, RecoveryPlan,
    Refusal, Resolution, Returned, Settlement, Stale, SuspendReason, SuspensionKind, ToolChange,
    ToolChanged, Verification, Verified,
};
use haft_core::tool::{Concurrency, Hook, Idempotency, InterruptBehavior, ToolSpec};
use haft_core::{CallId, CallResult, Digest, ErrorClass, Failure, Output};
use serde_json::json;

fn running(tool: &ToolSpec) -> (World, CallId) {
    let mut world = World::caller();
    let call = world.propose(tool, &json!({"cents": 5}));
    assert_eq!(world.executions(call), 1);
    (world, call)
}

fn keyed() -> ToolSpec {
    mutating("charge_keyed", |definition| {
        definition.facets.idempotency = Some(Idempotency::Keyed);
    })
}

fn verifiable() -> ToolSpec {
    mutating("charge_verifiable", |definition| {
        definition.hooks.insert(Hook::Verify);
    })
}

fn plans(world: &World) -> Vec<RecoveryPlan> {
    let events = world.events().into_iter();
    events
        .filter_map(|event| match event {
            Event::CallInterrupted { plan, .. } => Some(plan),
            _ => None,
        })
        .collect()
}

// S4-26, D4, C20: a tool that only looks is run again.
#[test]
fn s4_26_an_interrupted_read_runs_again_under_the_same_id() {
    let (mut world, call) = running(&read());
    world.crash();
    assert_eq!(plans(&world), [RecoveryPlan::Rerun]);
    assert!(matches!(world.effects[0], Effect::Execute { call: c, attempt: 2, .. } if c == call));
    world.returns(call, ok("sunny")).unwrap();
    assert_eq!(world.outcome(call).unwrap().attempt, 2);
}

// S4-26, S4-25: the key of a keyed tool is the call's id, the same after a crash.
#[test]
fn s4_26_an_interrupted_keyed_call_runs_again_with_the_same_key() {
    let (mut world, call) = running(&keyed());
    let digest = world.open().call(call).unwrap().arguments.digest();
    world.crash();
    let again = Effect::Execute { call, attempt: 2, digest, fingerprint: None };
    assert_eq!(world.effects, [again]);
}

// D4: neither idempotent nor keyed nor verifiable: a person is asked, and nothing runs.
#[test]
fn d4_an_interrupted_unsafe_call_is_parked_for_a_person() {
    let (mut world, call) = running(&email());
    world.crash();
    assert_eq!(plans(&world), [RecoveryPlan::Ask]);
    assert_eq!(world.executions(call), 0, "never silently run twice");
    let Phase::Waiting(wait) = world.phase(call) else { panic!("it must wait") };
    assert_eq!((wait.kind, wait.reason), (SuspensionKind::Settlement, SuspendReason::InDoubt));
    world.crash();
    assert_eq!(world.executions(call), 0, "nor by a second crash");
}

#[test]
fn a_person_settles_a_call_in_doubt_in_three_ways() {
    let doubtful = || {
        let (mut world, call) = running(&email());
        world.crash();
        (world, call)
    };
    let settle = |settlement| Resolution::Settle(settlement);

    let (mut world, call) = doubtful();
    let output = Some(Output::of_text("message 7"));
    world.resolve(call, settle(Settlement::Happened { output })).unwrap();
    assert_eq!(world.outcome(call).unwrap().result, ok("message 7"));
    assert_eq!(world.executions(call), 0);

    let (mut world, call) = doubtful();
    world.resolve(call, settle(Settlement::Happened { output: None })).unwrap();
    let CallResult::Ok(output) = world.outcome(call).unwrap().result else { panic!() };
    assert!(output.first_text().unwrap().contains("its result is not known"));

    let (mut world, call) = doubtful();
    world.resolve(call, settle(Settlement::RunAgain)).unwrap();
    assert_eq!(world.executions(call), 1);
    world.returns(call, ok("sent")).unwrap();
    assert_eq!(world.outcome(call).unwrap().attempt, 2);

    let (mut world, call) = doubtful();
    world.resolve(call, settle(Settlement::GiveUp)).unwrap();
    let failure = world.failure(call);
    assert_eq!(failure.class, ErrorClass::Interrupted);
    assert!(failure.message.contains("not known whether this call took effect"));
    let again = world.resolve(call, settle(Settlement::RunAgain)).unwrap_err();
    assert_eq!(again.code(), "stale");
}

#[test]
fn a_call_in_doubt_takes_no_approval_and_expires_into_the_truth() {
    let (mut world, call) = running(&email());
    world.crash();
    let expected = SuspensionKind::Settlement;
    let refused = world.resolve(call, approve()).unwrap_err();
    assert_eq!(refused, Refusal::WrongKind { expected, found: "approve" });
    world.wait(haft_core::Millis::from_secs(7 * 24 * 3600));
    world.input(Input::Expired(Expired { call, round: 1 })).unwrap();
    assert!(world.failure(call).message.contains("nobody settled it in time"));
}

// In-doubt calls settled by the tool's own verify hook.
#[test]
fn a_verify_hook_settles_reruns_or_gives_up() {
    let verifying = || {
        let (mut world, call) = running(&verifiable());
        world.crash();
        assert_eq!(plans(&world), [RecoveryPlan::Verify]);
        assert_eq!(world.effects, [Effect::Verify { call, attempt: 1 }]);
        world.effects.clear();
        (world, call)
    };
    let verified = |call, verdict| Input::Verified(Verified { call, attempt: 1, verdict });

    let (mut world, call) = verifying();
    let applied = Verification::Applied(Output::of_text("charge 7"));
    world.input(verified(call, applied)).unwrap();
    assert_eq!(world.outcome(call).unwrap().result, ok("charge 7"));
    let late = world.input(verified(call, Verification::Absent)).unwrap_err();
    assert_eq!(late, Refusal::Stale(Stale::OtherAttempt));

    let (mut world, call) = verifying();
    let failure = Failure::new(ErrorClass::Policy, "it ran, but its result is withheld");
    world.input(verified(call, Verification::Withheld(failure.clone()))).unwrap();
    assert_eq!(world.failure(call), failure);

    let (mut world, call) = verifying();
    world.input(verified(call, Verification::Absent)).unwrap();
    assert_eq!(world.executions(call), 1);

    let (mut world, call) = verifying();
    world.input(verified(call, Verification::Unknown)).unwrap();
    let Phase::Waiting(wait) = world.phase(call) else { panic!("it must wait") };
    assert_eq!(wait.kind, SuspensionKind::Settlement);

    let (mut world, call) = verifying();
    world.crash();
    assert_eq!(world.effects, [Effect::Verify { call, attempt: 1 }], "asked again");
}

// The mixed batch that other runtimes get wrong: an ungated mail and an approved charge.
#[test]
fn d4_a_crash_inside_an_approved_charge_repeats_neither_it_nor_its_sibling() {
    let mut world = World::model();
    world.say("charge and tell").unwrap();
    let calls = world.answer(&[&email(), &charge()]);
    world.returns(calls[0], ok("sent")).unwrap();
    world.resolve(calls[1], approve()).unwrap();
    assert_eq!(world.executions(calls[1]), 1);
    world.crash();
    assert_eq!((world.executions(calls[0]), world.executions(calls[1])), (0, 0));
    let waiting: Vec<_> = world.open().waiting().map(|(call, wait)| (call.id, wait.kind)).collect();
    assert_eq!(waiting, [(calls[1], SuspensionKind::Settlement)], "reported as in doubt");
    assert!(world.outcome(calls[0]).unwrap().is_ok(), "the mail keeps its outcome");
    world.resolve(calls[1], Resolution::Settle(Settlement::Happened { output: None })).unwrap();
    assert_eq!(world.open().turn, 2, "and the run goes on");
}

// An approval that had been given and not yet used is not lost.
#[test]
fn d4_a_crash_between_approval_and_start_runs_the_approved_call_once() {
    let mut world = World::model();
    world.say("pay").unwrap();
    let call = world.answer(&[&charge()])[0];
    let resolved = world.resolved(call, ann(), approve());
    world.input_elsewhere(Input::Resolved(resolved)).unwrap();
    world.crash();
    assert_eq!(world.executions(call), 1);
    assert_eq!(plans(&world), [], "it had never started");
}

#[test]
fn a_late_report_of_a_dead_attempt_is_refused() {
    let (mut world, call) = running(&read());
    world.crash();
    let report = AttemptReport::Returned(Returned::from(ok("from the grave")));
    let late = world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report }));
    assert_eq!(late, Err(Refusal::Stale(Stale::OtherAttempt)));
}

// A call that kills its process every time is not run for ever.
#[test]
fn a_call_that_keeps_killing_its_process_is_parked() {
    let (mut world, call) = running(&read());
    for _ in 0..3 {
        world.crash();
        assert_eq!(world.executions(call), 1);
    }
    world.crash();
    assert_eq!(world.executions(call), 0);
    assert_eq!(plans(&world).last(), Some(&RecoveryPlan::Ask));
}

// A model that was being asked is asked again; an answer to the dead one is stale.
#[test]
fn a_crash_while_the_model_thinks_asks_it_again() {
    let mut world = World::model();
    world.say("hi").unwrap();
    world.crash();
    assert_eq!(world.effects, [Effect::RunModel { turn: 1, attempt: 2 }]);
    assert_eq!(world.open().activity, Activity::Thinking { attempt: 2 });
    world.answer(&[]);
    assert_eq!(world.open().activity, Activity::Idle);
}

#[test]
fn a_crash_after_an_interrupt_reports_what_is_known_and_runs_nothing() {
    for (tool, class) in [
        (read(), ErrorClass::Cancelled),
        (email(), ErrorClass::Interrupted),
        (keyed(), ErrorClass::Interrupted),
    ] {
        let (mut world, call) = running(&tool);
        world.interrupt().unwrap();
        assert!(world.phase(call).is_open(), "it is left to finish");
        world.crash();
        assert_eq!(plans(&world), [RecoveryPlan::Report]);
        assert_eq!(world.failure(call).class, class, "{}", tool.name);
        assert_eq!(world.executions(call), 0);
    }
    let stoppable = mutating("do_slowly", |definition| {
        definition.interrupt = InterruptBehavior::Cancel;
    });
    let (mut world, call) = running(&stoppable);
    world.interrupt().unwrap();
    world.crash();
    assert_eq!(world.failure(call).class, ErrorClass::Interrupted);
}

// A call in doubt stays in doubt when its tool changes or goes: the question is about the past.
#[test]
fn a_call_in_doubt_outlives_its_tool() {
    let (mut world, call) = running(&email());
    world.crash();
    world.input(Input::ToolChanged(ToolChanged { call, change: ToolChange::Gone })).unwrap();
    assert!(matches!(world.phase(call), Phase::Waiting(_)));
}

// Invariant 5: what starts is what was permitted, or the log is refused.
#[test]
fn a_log_that_starts_other_arguments_than_were_permitted_is_refused() {
    let (world, call) = running(&email());
    let mut state = haft_core::session::State::Unopened;
    for entry in &world.log {
        let mut event = entry.event().unwrap();
        if let Event::CallStarted { digest, .. } = &mut event {
            *digest = Digest::ZERO;
            let refused = haft_core::session::evolve(state, entry.at, &event).unwrap_err();
            assert!(refused.to_string().contains("not those that were permitted"), "{refused}");
            return;
        }
        state = haft_core::session::evolve(state, entry.at, &event).unwrap();
    }
    panic!("call {call} never started");
}

fn report(call: CallId, attempt: u32, text: &str) -> Input {
    let report = AttemptReport::Returned(Returned::from(ok(text)));
    Input::AttemptEnded(AttemptEnded { call, attempt, report })
}

// A process that was fenced and not dead: what it did is known, and nobody need decide it.
#[test]
fn the_late_word_of_a_fenced_process_settles_the_doubt_on_any_node() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    let early = world.input_elsewhere(report(call, 1, "sent"));
    assert_eq!(early, Err(Refusal::NeedsOwner), "while it runs, its owner speaks for it");
    world.crash();
    world.input_elsewhere(report(call, 1, "sent")).unwrap();
    let outcome = world.outcome(call).unwrap();
    assert_eq!((outcome.result, outcome.attempt), (ok("sent"), 1));
    let settled = world.resolve(call, Resolution::Settle(Settlement::RunAgain));
    assert!(matches!(settled, Err(Refusal::Stale(_))), "{settled:?}");
}

#[test]
fn the_late_word_is_not_heard_once_the_call_runs_again_or_is_settled() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    world.crash();
    world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap();
    assert_eq!(world.input_elsewhere(report(call, 1, "late")), Err(Refusal::NeedsOwner));
    world.crash();
    let other = world.input_elsewhere(report(call, 1, "late"));
    assert_eq!(other, Err(Refusal::Stale(Stale::OtherAttempt)), "it is about the second attempt");
    world.resolve(call, Resolution::Settle(Settlement::Happened { output: None })).unwrap();
    assert!(world.input_elsewhere(report(call, 2, "late")).is_err());
}

// A node that is about to go records what happened and leaves what follows to the next one.
#[test]
fn a_leaving_owner_records_and_starts_nothing() {
    let mut world = World::caller();
    let first = world
        .propose(&mutating("do_alone", |d| d.concurrency = Concurrency::Exclusive), &json!({}));
    let second = world.propose(&email(), &json!({}));
    world.is_leaving = true;
    world.returns(first, ok("done")).unwrap();
    assert!(world.outcome(first).is_some());
    assert_eq!(world.executions(second), 0);
    world.crash();
    assert_eq!(world.executions(second), 1, "the next owner goes on from there");
}

#[test]
fn a_leaving_owner_begins_no_turn() {
    let mut world = World::model();
    world.say("send it").unwrap();
    let calls = world.answer(&[&email()]);
    world.is_leaving = true;
    world.effects.clear();
    world.returns(calls[0], ok("sent")).unwrap();
    assert_eq!(world.effects, []);
    world.crash();
    assert!(matches!(world.effects[..], [Effect::RunModel { turn: 2, .. }]), "{:?}", world.effects);
}
