//! Waiting for someone, and ending the wait exactly once.

use crate::world::{
    World, agent, ann, approve, arguments_of, bob, browser, charge, deny, mutating, ok, question,
    tool,
};
use haft_core::permission::{Report, Source, SourceReport, Verdict};
use haft_core::session::{
    Activity, AttemptEnded, AttemptReport, ClientGone, Decided, DecidedKind, Edit, Effect, Event,
    Expired, Fit, Input, Phase, Preview, Previewed, Refusal, Reply, Resolution, Stale,
    SuspendReason, Suspension, SuspensionKind, ToolChange, ToolChanged,
};
use haft_core::tool::{Gate, Hook, Schema};
use haft_core::{
    CallId, CallResult, Digest, Directives, ErrorClass, Millis, Output, Timestamp, Trust,
};
use serde_json::json;
use std::sync::Arc;

fn suspension(world: &World, call: CallId) -> Suspension {
    match world.phase(call) {
        Phase::Waiting(suspension) => suspension.clone(),
        other => panic!("expected a wait, found {other:?}"),
    }
}

fn answer(text: &str) -> Resolution {
    Resolution::Answer { output: Output::of_text(text), fit: Fit::Fits }
}

fn result(text: &str) -> Resolution {
    Resolution::Result { result: ok(text), directives: Directives::default(), fit: Fit::Fits }
}

// S4-8, S1-15, S2-8, S2-16, D2: nothing runs before the yes; then exactly the stored call, once.
#[test]
fn s4_8_a_gated_call_runs_only_after_approval_and_exactly_as_stored() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({"cents": 500}));
    assert_eq!(world.executions(call), 0);
    let stored = world.open().call(call).unwrap().arguments.clone();
    world.resolve(call, approve()).unwrap();
    let effects: Vec<_> = world.effects.clone();
    let digest = stored.digest();
    assert_eq!(effects, [Effect::Execute { call, attempt: 1, digest, fingerprint: None }]);
    assert_eq!(world.open().call(call).unwrap().arguments, stored);
    world.returns(call, ok("charged")).unwrap();
    assert!(world.outcome(call).unwrap().is_ok());
}

// S4-8, S2-13, C18: a no is an error result with the note; the tool is never entered.
#[test]
fn s2_13_a_denial_reaches_the_model_with_its_note() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    world.resolve(call, Resolution::Deny { note: Some("too much".into()) }).unwrap();
    let failure = world.failure(call);
    assert_eq!(failure.class, ErrorClass::Denied);
    assert_eq!(failure.message, "denied by approver: too much");
    assert_eq!(world.executions(call), 0);
}

// S4-19, S4-20, S4-30: one winner; the loser is told who and when.
#[test]
fn s4_20_a_second_resolution_is_stale_and_says_who_decided_and_when() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    world.resolve(call, approve()).unwrap();
    let at = world.now;
    world.wait(Millis(5));
    let later = world.resolved(call, bob(), deny());
    let refused = world.input(Input::Resolved(later.clone())).unwrap_err();
    let decided = Stale::Decided { by: ann(), decision: DecidedKind::Approve, at };
    assert_eq!(refused, Refusal::Stale(decided.clone()));
    assert_eq!(refused.to_string(), format!("stale: `ann` decided `approve` at {at}"));
    world.returns(call, ok("")).unwrap();
    assert_eq!(world.input(Input::Resolved(later)), Err(Refusal::Stale(decided)));
    assert_eq!(world.executions(call), 1);
}

// S4-20: unknown ids are stale and change nothing.
#[test]
fn s4_20_an_unknown_call_is_stale() {
    let mut world = World::caller();
    let refused = world.resolve(CallId::from_bits(404), approve()).unwrap_err();
    assert_eq!(refused, Refusal::Stale(Stale::Unknown));
    assert_eq!(world.names(), ["session.opened"]);
}

// S4-25: the same resolution sent again is acknowledged again, and recorded once.
#[test]
fn s4_25_a_retry_of_the_same_resolution_is_acknowledged_and_not_recorded_twice() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let resolved = world.resolved(call, ann(), approve());
    assert_eq!(world.input(Input::Resolved(resolved.clone())), Ok(Reply::Accepted));
    let length = world.log.len();
    assert_eq!(world.input(Input::Resolved(resolved)), Ok(Reply::AlreadyRecorded));
    assert_eq!(world.log.len(), length);
    assert_eq!(world.executions(call), 1);
}

// S4-5: the answer is the result and nothing runs.
#[test]
fn s4_5_a_persons_answer_is_the_result() {
    let mut world = World::caller();
    let call = world.propose(&question(), &json!({"question": "which one?"}));
    let wait = suspension(&world, call);
    assert_eq!((wait.kind, wait.reason), (SuspensionKind::Elicitation, SuspendReason::Executor));
    world.resolve(call, answer("the blue one")).unwrap();
    let outcome = world.outcome(call).unwrap();
    assert_eq!(outcome.result, ok("the blue one"));
    assert_eq!((outcome.attempt, outcome.provenance.trust), (0, Trust::Untrusted));
    assert!(world.effects.is_empty());
}

// S4-6: run at the client, returned through resolve.
#[test]
fn s4_6_a_client_call_returns_through_resolve() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Auto), &json!({}));
    assert_eq!(suspension(&world, call).kind, SuspensionKind::ClientExec);
    world.resolve(call, result("59.9 N")).unwrap();
    assert_eq!(world.outcome(call).unwrap().result, ok("59.9 N"));
}

// S4-9: a gated client call waits twice, and a result before the yes is refused.
#[test]
fn s4_9_a_gated_client_call_suspends_twice() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Ask), &json!({}));
    assert_eq!(suspension(&world, call).kind, SuspensionKind::Approval);
    let early = world.resolve(call, result("forged")).unwrap_err();
    assert_eq!(early, Refusal::WrongKind { expected: SuspensionKind::Approval, found: "result" });
    world.resolve(call, approve()).unwrap();
    let second = suspension(&world, call);
    assert_eq!((second.kind, second.round), (SuspensionKind::ClientExec, 2));
    world.crash();
    assert_eq!(suspension(&world, call), second, "revival does not ask again");
    let late = world.resolve(call, approve()).unwrap_err();
    let Refusal::Stale(Stale::Decided { decision, .. }) = late else { panic!("{late}") };
    assert_eq!(decision.to_string(), "approve", "whoever approves second is told who was first");
    world.resolve(call, result("59.9 N")).unwrap();
    let rounds: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::CallResolved { round, .. } => Some(round),
            _ => None,
        })
        .collect();
    assert_eq!(rounds, [1, 2]);
}

#[test]
fn a_resolution_of_the_wrong_kind_says_what_is_awaited() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let refused = world.resolve(call, answer("yes")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the call waits for an approval (`approve` or `deny`), which `answer` is not"
    );
    assert!(matches!(world.phase(call), Phase::Waiting(_)), "nothing changed");
}

// S2-12: what was decided upon must be what is waiting.
#[test]
fn s2_12_a_resolution_of_an_earlier_wait_is_stale() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Ask), &json!({}));
    world.resolve(call, approve()).unwrap();
    let mut seen_before = world.resolved(call, bob(), result("x"));
    seen_before.round = Some(1);
    let refused = world.input(Input::Resolved(seen_before)).unwrap_err();
    assert_eq!(refused, Refusal::Stale(Stale::OtherRound { seen: 1, current: 2 }));
}

// D16: a model never approves, answers, grants or ends anything.
#[test]
fn d16_an_agents_credentials_carry_no_decision() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let resolved = world.resolved(call, agent(), approve());
    let refused = world.input(Input::Resolved(resolved)).unwrap_err();
    assert_eq!(refused.code(), "not_allowed");
    assert_eq!(world.executions(call), 0);
}

// S4-24: an expiry is a recoverable error, fires once, and not early.
#[test]
fn s4_24_an_unanswered_call_expires_into_a_recoverable_error() {
    let mut world = World::model();
    world.say("pay").unwrap();
    let call = world.answer(&[&charge()])[0];
    let due = suspension(&world, call).expires_at;
    assert_eq!(due, world.now + Millis::from_secs(300));
    assert_eq!(world.expire(call), Err(Refusal::NotDue { due }), "a clock that runs ahead");
    world.wait(Millis::from_secs(300));
    let late = world.resolve(call, approve()).unwrap_err();
    assert_eq!(late, Refusal::Stale(Stale::Expired { at: due }), "before anyone swept it up");
    world.expire(call).unwrap();
    assert_eq!(world.failure(call).message, "user did not respond");
    assert_eq!(world.failure(call).class, ErrorClass::Expired);
    assert!(world.effects.contains(&Effect::RunModel { turn: 2, attempt: 1 }), "it resumes itself");
    let late = world.resolve(call, approve()).unwrap_err();
    assert_eq!(late.code(), "stale");
}

// S4-20: expiry of a wait that has ended, or of another round, changes nothing.
#[test]
fn an_expiry_after_a_resolution_is_stale() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Ask), &json!({}));
    world.resolve(call, approve()).unwrap();
    world.wait(Millis::from_secs(301));
    let other_round = world.input(Input::Expired(Expired { call, round: 1 })).unwrap_err();
    assert_eq!(other_round, Refusal::Stale(Stale::OtherRound { seen: 1, current: 2 }));
    world.expire(call).unwrap();
    assert_eq!(world.failure(call).message, "the client did not respond");
    assert_eq!(world.expire(call).unwrap_err().code(), "stale");
}

// With no client there, a client call fails at once.
#[test]
fn a_client_call_without_a_client_fails_fast_and_recoverably() {
    let mut world = World::model();
    world.say("where?").unwrap();
    let call = world.answer(&[&browser(Gate::Auto)])[0];
    world.input(Input::ClientGone(ClientGone { call, round: 1 })).unwrap();
    assert!(world.failure(call).message.contains("no client is connected"));
    assert_eq!(world.open().turn, 2);
    let gone = world.input(Input::ClientGone(ClientGone { call, round: 1 }));
    assert_eq!(gone.unwrap_err().code(), "stale");
}

// C17: what runs after an edit is the edit, under its own digest.
#[test]
fn an_edited_approval_runs_the_edited_arguments_and_nothing_else() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({"cents": 500}));
    let edit = |fit| Resolution::Approve {
        edit: Some(Edit { arguments: arguments_of(&json!({"cents": 100})), fit }),
        note: None,
        grant: None,
    };
    let misfit = Fit::Misfit { message: "`/cents`: expected at least 200, found 100".into() };
    let refused = world.resolve(call, edit(misfit)).unwrap_err();
    assert_eq!(refused.code(), "misfit");
    assert!(matches!(world.phase(call), Phase::Waiting(_)), "it still waits");
    world.resolve(call, edit(Fit::Fits)).unwrap();
    let edited = arguments_of(&json!({"cents": 100}));
    let expected = Effect::Execute { call, attempt: 1, digest: edited.digest(), fingerprint: None };
    assert_eq!(world.effects, [expected]);
    assert_eq!(world.open().call(call).unwrap().arguments, edited);
}

// S4-28: an answer or a client's result that does not fit is refused, and the wait goes on.
#[test]
fn s4_28_an_unfit_answer_is_refused_and_the_call_still_waits() {
    let mut world = World::caller();
    let call = world.propose(&question(), &json!({}));
    let fit = Fit::Misfit { message: "expected a number, found a string".into() };
    let refused =
        world.resolve(call, Resolution::Answer { output: Output::default(), fit: fit.clone() });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "it does not fit: expected a number, found a string"
    );
    world.resolve(call, answer("7")).unwrap();
    let call = world.propose(&browser(Gate::Auto), &json!({}));
    let unfit = Resolution::Result { result: ok("x"), directives: Directives::default(), fit };
    assert_eq!(world.resolve(call, unfit).unwrap_err().code(), "misfit");
    assert!(matches!(world.phase(call), Phase::Waiting(_)));
}

// C5: policy is heard once more before an approved call runs.
#[test]
fn an_approval_does_not_outlive_a_policy_that_now_denies() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let mut resolved = world.resolved(call, ann(), approve());
    let report = Report::Says { verdict: Verdict::Deny, reason: "payments are frozen".into() };
    resolved.policy.reports = vec![SourceReport { source: Source::Rule("freeze".into()), report }];
    world.input(Input::Resolved(resolved)).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Policy);
    assert!(world.failure(call).message.contains("payments are frozen"));
    assert_eq!(world.executions(call), 0);
}

// A resolution needs no owner; whoever owns the session goes on when woken.
#[test]
fn a_resolution_is_recorded_on_any_node_and_acted_upon_by_the_owner() {
    let mut world = World::model();
    world.say("pay").unwrap();
    let call = world.answer(&[&charge()])[0];
    let resolved = world.resolved(call, bob(), approve());
    world.input_elsewhere(Input::Resolved(resolved)).unwrap();
    assert_eq!(world.executions(call), 0, "the node that took it does nothing");
    let again = world.resolved(call, ann(), deny());
    assert_eq!(world.input_elsewhere(Input::Resolved(again)).unwrap_err().code(), "stale");
    world.input(Input::Woken).unwrap();
    assert_eq!(world.executions(call), 1);
    world.input(Input::Woken).unwrap();
    assert_eq!(world.executions(call), 1, "waking again starts nothing twice");
}

#[test]
fn an_interrupt_is_recorded_anywhere_while_the_model_is_asked() {
    let mut world = World::model();
    world.say("think").unwrap();
    assert!(matches!(world.open().activity, Activity::Thinking { .. }));
    let interrupt = haft_core::session::Interrupted { by: ann(), note: None };
    world.input_elsewhere(Input::Interrupted(interrupt)).unwrap();
    assert_eq!(world.open().activity, Activity::Idle, "its owner sees that nobody waits");
    world.effects.clear();
    world.say("something else").unwrap();
    assert_eq!(world.effects, [Effect::RunModel { turn: 2, attempt: 1 }]);
}

// Issue 8: a client may cancel while the process that runs the call is dead, or is another one.
#[test]
fn that_a_call_is_to_stop_is_recorded_anywhere_and_done_by_its_owner() {
    let mut world = World::caller();
    let cancellable = mutating("do_slowly", |definition| {
        definition.interrupt = haft_core::tool::InterruptBehavior::Cancel;
    });
    let call = world.propose(&cancellable, &json!({}));
    let cancelled = haft_core::session::CallCancelled { call, by: ann(), note: None };
    world.input_elsewhere(Input::CallCancelled(cancelled)).unwrap();
    assert!(matches!(world.phase(call), Phase::Cancelling { .. }));
    world.effects.clear();
    world.input(Input::Woken).unwrap();
    assert_eq!(world.effects, [Effect::Cancel { call, attempt: 1 }], "its owner stops it");
    world.input(Input::Revived).unwrap();
    let Phase::Waiting(wait) = world.phase(call) else { panic!("its owner is gone") };
    assert_eq!(wait.kind, SuspensionKind::Settlement, "it may have taken effect");
}

fn preview(state: &str) -> Preview {
    Preview {
        fingerprint: Digest::of_bytes(state.as_bytes()),
        targets: vec!["notes.md".into()],
        diff: Some(format!("+{state}")),
        trouble: None,
    }
}

/// A tool that shows what it would do, with one call of it waiting for approval.
fn previewed() -> (World, CallId) {
    let edit = mutating("edit_file", |definition| {
        definition.gate = Gate::Ask;
        definition.hooks.insert(Hook::Preview);
    });
    let mut world = World::caller();
    let call = world.propose(&edit, &json!({}));
    assert_eq!(world.effects, [Effect::Preview { call }]);
    world.effects.clear();
    assert_eq!(
        world.resolve(call, approve()).unwrap_err().code(),
        "stale",
        "nothing was shown yet"
    );
    world.input(Input::Previewed(Previewed { call, preview: preview("v1") })).unwrap();
    (world, call)
}

// Preview-bound approval: what was shown is what runs.
#[test]
fn an_approval_is_bound_to_what_was_shown_and_asked_again_when_the_world_moved() {
    let (mut world, call) = previewed();
    world.resolve(call, approve()).unwrap();
    let shown = Some(Digest::of_bytes(b"v1"));
    assert!(
        matches!(world.effects[0], Effect::Execute { fingerprint, .. } if fingerprint == shown)
    );
    let report = AttemptReport::WorldMoved { preview: preview("v2") };
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    let again = suspension(&world, call);
    assert_eq!((again.reason, again.round), (SuspendReason::WorldMoved, 2));
    world.effects.clear();
    world.resolve(call, approve()).unwrap();
    let shown = Some(Digest::of_bytes(b"v2"));
    assert!(
        matches!(world.effects[0], Effect::Execute { attempt: 2, fingerprint, .. } if fingerprint == shown)
    );
    world.returns(call, ok("written")).unwrap();
}

// What an approver changed is shown before it runs, and called what it is.
#[test]
fn edited_arguments_that_would_do_something_else_are_shown_as_edited() {
    let (mut world, call) = previewed();
    let arguments = arguments_of(&json!({"n": 9}));
    let edit = Some(Edit { arguments, fit: Fit::Fits });
    let approve_other = Resolution::Approve { edit, note: None, grant: None };
    world.resolve(call, approve_other).unwrap();
    let report = AttemptReport::WorldMoved { preview: preview("of 9") };
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    let again = suspension(&world, call);
    assert_eq!((again.reason, again.round), (SuspendReason::Edited, 2));
    assert_eq!(again.fingerprint, Some(Digest::of_bytes(b"of 9")));
    world.resolve(call, approve()).unwrap();
    let report = AttemptReport::WorldMoved { preview: preview("later") };
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 2, report })).unwrap();
    assert_eq!(suspension(&world, call).reason, SuspendReason::WorldMoved);
}

#[test]
fn a_crash_while_previewing_asks_for_the_preview_again() {
    let (mut world, call) = previewed();
    let late = Input::Previewed(Previewed { call, preview: preview("v1") });
    assert_eq!(world.input(late).unwrap_err().code(), "stale");
    let edit = mutating("edit_file", |definition| {
        definition.gate = Gate::Ask;
        definition.hooks.insert(Hook::Preview);
    });
    let second = world.propose(&edit, &json!({"n": 2}));
    world.crash();
    assert_eq!(world.effects, [Effect::Preview { call: second }]);
}

// Pending calls survive upgrades, with drift checks.
#[test]
fn a_call_whose_tool_changed_is_asked_again_or_closed_with_a_reason() {
    let waiting = || {
        let mut world = World::caller();
        let call = world.propose(&charge(), &json!({"cents": 5}));
        (world, call)
    };
    let stricter = tool("charge_card", |definition| {
        definition.gate = Gate::Ask;
        definition.input_schema = Schema::new(r#"{"type":"object","required":["cents"]}"#).unwrap();
    });
    let redefined = |fit| ToolChange::Redefined {
        contract: Arc::clone(stricter.contract()),
        fit,
        changes: "`cents` is required".into(),
    };
    let (mut world, call) = waiting();
    world.input(Input::ToolChanged(ToolChanged { call, change: redefined(Fit::Fits) })).unwrap();
    let again = suspension(&world, call);
    assert_eq!((again.reason, again.round), (SuspendReason::Redefined, 2));
    let mut before = world.resolved(call, ann(), approve());
    before.round = Some(1);
    assert_eq!(world.input(Input::Resolved(before)).unwrap_err().code(), "stale");
    world.resolve(call, approve()).unwrap();
    assert_eq!(world.open().call(call).unwrap().contract.digest, stricter.contract().digest);

    let (mut world, call) = waiting();
    let misfit = Fit::Misfit { message: "`/cents` is missing".into() };
    world.input(Input::ToolChanged(ToolChanged { call, change: redefined(misfit) })).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::InvalidArgs);

    let (mut world, call) = waiting();
    world.input(Input::ToolChanged(ToolChanged { call, change: ToolChange::Gone })).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::UnknownTool);
    let gone = world.input(Input::ToolChanged(ToolChanged { call, change: ToolChange::Gone }));
    assert_eq!(gone.unwrap_err().code(), "stale");
}

// S4-18: what is persisted as pending is exactly what waits outside.
#[test]
fn s4_18_running_and_waiting_calls_are_told_apart() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&crate::world::read(), &charge(), &question()]);
    let running: Vec<_> = world.open().in_flight().map(|call| call.id).collect();
    let waiting: Vec<_> = world.open().waiting().map(|(call, wait)| (call.id, wait.kind)).collect();
    assert_eq!(running, [calls[0]]);
    let kinds = [SuspensionKind::Approval, SuspensionKind::Elicitation];
    assert_eq!(waiting, [(calls[1], kinds[0]), (calls[2], kinds[1])]);
}

// S4-17: the kinds by the names that a renderer switches on.
#[test]
fn s4_17_the_kinds_have_the_documents_names() {
    let names = [SuspensionKind::Approval, SuspensionKind::Elicitation, SuspensionKind::ClientExec]
        .map(|kind| serde_json::to_value(kind).unwrap());
    assert_eq!(names, ["approval", "elicitation", "client_exec"]);
}

// S4-36, C32: a resolution and a result are different records, both in the log.
#[test]
fn s4_36_suspension_resolution_and_result_are_separate_events() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    world.resolve(call, approve()).unwrap();
    world.returns(call, CallResult::Ok(Output::default())).unwrap();
    let tail = world.names_since(2);
    assert_eq!(
        tail,
        [
            "call.proposed",
            "call.suspended",
            "call.resolved",
            "call.started",
            "call.finished",
            "turn.ended"
        ]
    );
    let decided = world.events().into_iter().find_map(|event| match event {
        Event::CallResolved { decision, by, .. } => Some((decision, by)),
        _ => None,
    });
    assert_eq!(decided, Some((Decided::Approve { arguments: None, note: None }, ann())));
}

// S2-9: the wait is in the log with its deadline, so it survives everything that the log does.
#[test]
fn s2_9_a_wait_survives_any_number_of_crashes() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let before = suspension(&world, call);
    for _ in 0..5 {
        world.crash();
    }
    assert_eq!(suspension(&world, call), before);
    assert_eq!(before.since, Timestamp::from_ms(1_000_000));
    world.resolve(call, approve()).unwrap();
    assert_eq!(world.executions(call), 1);
}

// D1: one approval runs one call; others of the same name ask for themselves.
#[test]
fn d1_one_approval_runs_one_call() {
    let mut world = World::model();
    world.say("pay thrice").unwrap();
    let pay = charge();
    let calls: Vec<_> = (0..3).map(|n| world.proposal(&pay, &json!({ "n": n }))).collect();
    let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
    world.answer_with(calls, [pay.name.clone()].into()).unwrap();
    world.resolve(ids[1], approve()).unwrap();
    assert_eq!(ids.iter().map(|id| world.executions(*id)).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(world.open().waiting().count(), 2);
}

fn two_keys() -> haft_core::tool::ToolSpec {
    mutating("wire_money", |definition| definition.gate = Gate::AskTwo)
}

// S4-8, S4-20, D2: where two people must agree, the first yes is recorded and nothing runs.
#[test]
fn a_call_for_two_people_runs_when_the_second_agrees() {
    let mut world = World::caller();
    let call = world.propose(&two_keys(), &json!({"cents": 900}));
    let first = world.resolved(call, ann(), approve());
    assert_eq!(world.input(Input::Resolved(first.clone())), Ok(Reply::Endorsed));
    assert_eq!(world.executions(call), 0);
    assert_eq!(suspension(&world, call).endorsed.len(), 1);
    assert_eq!(world.input(Input::Resolved(first)), Ok(Reply::AlreadyRecorded));
    let again = world.resolved(call, ann(), approve());
    let refused = world.input(Input::Resolved(again)).unwrap_err();
    let expected = "`ann` may not approve this call twice: it needs the yes of another person";
    assert_eq!(refused.to_string(), expected);
    world.crash();
    let second = world.resolved(call, bob(), approve());
    assert_eq!(world.input(Input::Resolved(second)), Ok(Reply::Accepted));
    assert_eq!(world.executions(call), 1);
    world.returns(call, ok("wired")).unwrap();
    assert!(world.outcome(call).unwrap().is_ok());
}

// S4-8, D2: one no is enough, and neither of two approvers changes what the other sees.
#[test]
fn one_of_two_can_deny_and_none_can_edit() {
    let mut world = World::caller();
    let call = world.propose(&two_keys(), &json!({"cents": 900}));
    let edit = Edit { arguments: arguments_of(&json!({"cents": 1})), fit: Fit::Fits };
    let edited = Resolution::Approve { edit: Some(edit), note: None, grant: None };
    let edited = world.resolved(call, ann(), edited);
    assert_eq!(world.input(Input::Resolved(edited)).unwrap_err().code(), "misfit");
    let yes = world.resolved(call, ann(), approve());
    world.input(Input::Resolved(yes)).unwrap();
    let no = world.resolved(call, bob(), deny());
    world.input(Input::Resolved(no)).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Denied);
    assert_eq!(world.executions(call), 0);
}

// S4-8: a yes is for the tool as it was shown, so a changed one is asked about from the start.
#[test]
fn the_first_yes_does_not_outlive_a_change_of_the_tool() {
    let mut world = World::caller();
    let call = world.propose(&two_keys(), &json!({"cents": 900}));
    let yes = world.resolved(call, ann(), approve());
    world.input(Input::Resolved(yes)).unwrap();
    let other = mutating("wire_money", |definition| {
        definition.gate = Gate::AskTwo;
        definition.input_schema =
            Schema::new(r#"{"type":"object","properties":{"to":{"type":"string"}}}"#).unwrap();
    });
    let (contract, fit) = (Arc::clone(other.contract()), Fit::Fits);
    let change = ToolChange::Redefined { contract, fit, changes: "it takes `to`".to_owned() };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    let again = suspension(&world, call);
    assert_eq!((again.reason, again.endorsed.len()), (SuspendReason::Redefined, 0));
}
