//! A store that was put back from a backup: what was open then may have happened since.

use haft_core::session::{
    Activity, Event, Input, Phase, Resolution, Restored, Settlement, SuspendReason, SuspensionKind,
    TurnEnding, WakeQueued,
};
use haft_core::tool::{Gate, Hook};
use haft_core::{CallId, Millis};
use serde_json::json;

use crate::world::{
    World, ann, approve, browser, charge, email, mutating, ok, question, read, wake_at,
};

/// Puts the session back as it is, and lets a process take it over.
fn restore(world: &mut World) {
    world.effects.clear();
    let restored = Restored { by: ann(), backed_up_at: Some(world.now) };
    world.input_elsewhere(Input::Restored(restored)).unwrap();
    world.crash();
}

fn waits(world: &World, call: CallId) -> (SuspensionKind, SuspendReason) {
    let Phase::Waiting(wait) = world.phase(call) else { panic!("{:?}", world.phase(call)) };
    (wait.kind, wait.reason)
}

const IN_DOUBT: (SuspensionKind, SuspendReason) =
    (SuspensionKind::Settlement, SuspendReason::Restored);

#[test]
fn a_call_that_waited_for_approval_is_in_doubt_and_not_asked_about_as_if_nothing_happened() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({"cents": 5}));
    assert_eq!(waits(&world, call).0, SuspensionKind::Approval);
    // The approval would have run out meanwhile, which is not what happened to it.
    world.wait(Millis::from_secs(30 * 24 * 3600));
    restore(&mut world);
    assert_eq!(waits(&world, call), IN_DOUBT);
    assert_eq!(world.resolve(call, approve()).unwrap_err().code(), "wrong_kind");
    assert_eq!(world.executions(call), 0);
}

#[test]
fn a_call_that_nobody_had_approved_is_asked_about_once_someone_says_that_it_did_not_happen() {
    let edit = mutating("edit_file", |definition| {
        definition.gate = Gate::Ask;
        definition.hooks.insert(Hook::Preview);
    });
    for (tool, asks_with_preview) in [(charge(), false), (edit, true)] {
        let mut world = World::caller();
        let call = world.propose(&tool, &json!({"cents": 5}));
        restore(&mut world);
        assert_eq!(waits(&world, call), IN_DOUBT);
        world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap();
        assert_eq!(world.executions(call), 0, "it was never approved");
        if asks_with_preview {
            assert!(matches!(world.phase(call), Phase::Previewing { .. }));
            continue;
        }
        let asked = (SuspensionKind::Approval, SuspendReason::Restored);
        assert_eq!(waits(&world, call), asked);
        world.resolve(call, approve()).unwrap();
        assert_eq!(world.executions(call), 1);
        world.returns(call, ok("charged")).unwrap();
    }
}

#[test]
fn what_was_running_or_about_to_run_is_in_doubt_unless_it_only_looks() {
    let mut world = World::caller();
    let sent = world.propose(&email(), &json!({"cents": 5}));
    let looked = world.propose(&read(), &json!({}));
    restore(&mut world);
    assert_eq!(waits(&world, sent), IN_DOUBT);
    assert_eq!((world.executions(sent), world.executions(looked)), (0, 1));
    world.resolve(sent, Resolution::Settle(Settlement::RunAgain)).unwrap();
    assert_eq!(world.executions(sent), 1, "it had been let through");
}

#[test]
fn what_was_given_to_a_client_or_a_sub_agent_is_in_doubt_and_a_question_is_asked_anew() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&browser(Gate::Auto), &question()]);
    restore(&mut world);
    let asked_anew = (SuspensionKind::Elicitation, SuspendReason::Restored);
    assert_eq!(waits(&world, calls[1]), asked_anew);
    assert_eq!(waits(&world, calls[0]).1, SuspendReason::Restored);
    let mut world = World::model();
    world.say("go").unwrap();
    let (call, _) = world.delegated();
    restore(&mut world);
    assert_eq!(waits(&world, call), IN_DOUBT);
    assert!(world.effects.is_empty(), "nothing is opened again: {:?}", world.effects);
}

#[test]
fn a_model_is_not_asked_again_before_somebody_speaks() {
    let mut world = World::model();
    world.say("go").unwrap();
    assert!(matches!(world.open().activity, Activity::Thinking { .. }));
    let soon = WakeQueued { wake: wake_at(world.now + Millis::from_secs(60)), by: ann() };
    world.input(Input::WakeQueued(soon)).unwrap();
    world.wait(Millis::from_secs(3600));
    restore(&mut world);
    assert_eq!(world.open().activity, Activity::Idle);
    assert!(world.open().wakes.is_empty(), "its time has passed before the store was put back");
    assert!(world.effects.is_empty(), "{:?}", world.effects);
    let ended =
        |event: &Event| matches!(event, Event::TurnEnded { ending: TurnEnding::Interrupted, .. });
    assert!(world.events().iter().any(ended));
    world.say("go on").unwrap();
    assert!(matches!(world.open().activity, Activity::Thinking { .. }));
}

#[test]
fn a_model_that_waited_for_what_only_looks_does_not_go_on_by_itself() {
    let mut world = World::model();
    world.say("go").unwrap();
    let looked = world.answer(&[&read()])[0];
    restore(&mut world);
    assert_eq!(world.open().activity, Activity::Idle);
    assert!(world.effects.is_empty(), "{:?}", world.effects);
    assert!(world.outcome(looked).is_some());
    world.say("go on").unwrap();
    assert!(matches!(world.open().activity, Activity::Thinking { .. }));
}

#[test]
fn a_message_that_nobody_had_taken_up_does_not_start_the_model_by_itself() {
    let mut world = World::model();
    let message = haft_core::session::MessageArrived {
        message: haft_core::MessageId::from_bits(9),
        from: ann(),
        content: Vec::new(),
    };
    world.input_elsewhere(Input::MessageArrived(message)).unwrap();
    restore(&mut world);
    assert_eq!(world.open().activity, Activity::Idle);
    assert!(world.effects.is_empty(), "{:?}", world.effects);
}
