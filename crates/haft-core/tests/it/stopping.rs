//! Interrupt, cancel and end, from every state: each open call gets its outcome.

use crate::world::{World, agent, ann, approve, charge, email, mutating, ok, question, read};
use haft_core::session::{
    Activity, CallCancelled, Effect, Ended, Event, Input, InterruptCause, Interrupted, Phase,
    Refusal, State, Stopping, TurnEnding,
};
use haft_core::tool::{InterruptBehavior, ToolSpec};
use haft_core::{CallId, ErrorClass};
use serde_json::json;

fn stoppable() -> ToolSpec {
    mutating("do_slowly", |definition| definition.interrupt = InterruptBehavior::Cancel)
}

fn end(world: &mut World) {
    world.input(Input::Ended(Ended { by: ann(), note: None })).unwrap();
}

fn cancel(world: &mut World, call: CallId, note: Option<&str>) -> Result<(), Refusal> {
    let note = note.map(str::to_owned);
    world.input(Input::CallCancelled(CallCancelled { call, by: ann(), note })).map(|_| ())
}

// S4-38, S2-15, C19: waiting calls are cancelled, and the session is redirected.
#[test]
fn s4_38_s2_15_an_interrupt_gives_every_waiting_call_an_outcome() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&charge(), &question()]);
    world.interrupt().unwrap();
    for call in &calls {
        assert_eq!(world.failure(*call).message, "[cancelled]");
    }
    assert_eq!(world.open().activity, Activity::Idle);
    assert_eq!(world.open().stopping, Stopping::No);
    let late = world.resolve(calls[0], approve()).unwrap_err();
    assert_eq!(late.code(), "stale", "a cleared wait cannot be revived");
    world.say("something else").unwrap();
    assert_eq!(world.open().turn, 2);
}

// S2-4: `block` finishes first, `cancel` is asked to stop; both keep what they report.
#[test]
fn s2_4_a_running_call_is_stopped_or_finished_as_it_declares() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&email(), &stoppable()]);
    world.interrupt().unwrap();
    assert!(matches!(world.phase(calls[0]), Phase::Running { .. }));
    assert!(matches!(world.phase(calls[1]), Phase::Cancelling { .. }));
    assert!(world.effects.contains(&Effect::Cancel { call: calls[1], attempt: 1 }));
    world.returns(calls[1], crate::world::err(ErrorClass::Cancelled)).unwrap();
    assert_eq!(world.open().activity, Activity::Acting, "the other one finishes first");
    world.returns(calls[0], ok("sent after all")).unwrap();
    assert!(world.outcome(calls[0]).unwrap().is_ok());
    assert_eq!(world.open().activity, Activity::Idle);
    let ending = world.events().into_iter().rev().find_map(|event| match event {
        Event::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    });
    assert_eq!(ending, Some(TurnEnding::Interrupted));
}

#[test]
fn a_call_that_finished_before_it_could_be_stopped_keeps_its_result() {
    let mut world = World::caller();
    let call = world.propose(&stoppable(), &json!({}));
    world.interrupt().unwrap();
    world.returns(call, ok("done")).unwrap();
    assert!(world.outcome(call).unwrap().is_ok());
}

#[test]
fn an_interrupt_while_the_model_thinks_stops_asking_it() {
    let mut world = World::model();
    world.say("go").unwrap();
    world.interrupt().unwrap();
    assert!(world.effects.contains(&Effect::AbortModel { turn: 1 }));
    assert_eq!(world.open().activity, Activity::Idle);
}

#[test]
fn an_interrupt_of_an_idle_session_is_recorded_and_changes_nothing() {
    let mut world = World::model();
    let interrupted = Interrupted { by: ann(), note: Some("just in case".into()) };
    world.input(Input::Interrupted(interrupted)).unwrap();
    assert_eq!(world.open().stopping, Stopping::No);
    let cause = InterruptCause::Asked;
    let event = Event::SessionInterrupted { by: ann(), note: Some("just in case".into()), cause };
    assert_eq!(world.events().pop(), Some(event));
}

// S4-38: one call can be stopped without the others.
#[test]
fn s4_38_one_call_can_be_cancelled_alone() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&charge(), &question(), &stoppable(), &email()]);
    cancel(&mut world, calls[0], Some("changed my mind")).unwrap();
    assert_eq!(world.failure(calls[0]).message, "[cancelled] by ann: changed my mind");
    assert!(world.phase(calls[1]).is_open());
    cancel(&mut world, calls[2], None).unwrap();
    assert!(matches!(world.phase(calls[2]), Phase::Cancelling { .. }));
    assert_eq!(cancel(&mut world, calls[3], None), Err(Refusal::NotCancellable));
    assert_eq!(cancel(&mut world, calls[0], None).unwrap_err().code(), "stale");
}

// S4-38: ending a session settles everything first.
#[test]
fn s4_38_an_ending_session_settles_its_calls_and_then_takes_nothing_more() {
    let mut world = World::model();
    world.say("go").unwrap();
    let calls = world.answer(&[&charge(), &email()]);
    end(&mut world);
    assert_eq!(world.failure(calls[0]).class, ErrorClass::Cancelled);
    assert_eq!(world.say("wait"), Err(Refusal::Ended));
    world.returns(calls[1], ok("sent")).unwrap();
    assert!(matches!(world.state, State::Ended { .. }));
    assert_eq!(world.names().last(), Some(&"session.ended"));
    for input in [Input::Revived, Input::Woken] {
        assert_eq!(world.input(input), Err(Refusal::Ended));
    }
    assert_eq!(world.say("hello?"), Err(Refusal::Ended));
}

#[test]
fn an_idle_or_thinking_session_ends_at_once() {
    let mut idle = World::model();
    end(&mut idle);
    assert!(matches!(idle.state, State::Ended { .. }));
    let mut thinking = World::model();
    thinking.say("go").unwrap();
    end(&mut thinking);
    assert!(matches!(thinking.state, State::Ended { .. }));
    let mut agents = World::model();
    let refused = agents.input(Input::Ended(Ended { by: agent(), note: None })).unwrap_err();
    assert_eq!(refused.code(), "not_allowed");
}

#[test]
fn a_session_is_opened_once() {
    let mut world = World::unopened();
    assert_eq!(world.say("hi"), Err(Refusal::NotOpen));
    assert_eq!(world.input(Input::Revived), Err(Refusal::NotOpen));
    let mut world = World::model();
    let again = haft_core::session::Opened {
        session: haft_core::SessionId::from_bits(1),
        config: haft_core::session::Config::default(),
        by: ann(),
    };
    assert_eq!(world.input(Input::Opened(again)), Err(Refusal::AlreadyOpen));
}

#[test]
fn what_was_ready_but_had_no_room_is_cancelled_without_running() {
    let limits = haft_core::session::Limits { parallel: 1, ..Default::default() };
    let config = haft_core::session::Config { limits, ..Default::default() };
    let mut world = World::with(config);
    world.say("go").unwrap();
    let tool = read();
    let calls: Vec<_> = (0..2).map(|n| world.proposal(&tool, &json!({ "n": n }))).collect();
    let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
    world.answer_with(calls, [tool.name.clone()].into()).unwrap();
    world.interrupt().unwrap();
    assert_eq!(world.failure(ids[1]).class, ErrorClass::Cancelled);
    assert_eq!(world.executions(ids[1]), 0);
}
