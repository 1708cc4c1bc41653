//! Calls that wait for room in a pool: started means sent.

use crate::world::{World, ann, approve, email, grant_for, ok, pooled, read};
use haft_core::session::{
    CallCancelled, Driver, Effect, Input, Limits, Phase, Refusal, SlotTaken, Stale, ToolChange,
    ToolChanged,
};
use haft_core::tool::{Concurrency, Pool};
use haft_core::{CallId, ErrorClass};
use serde_json::json;

fn slot(call: CallId) -> Input {
    Input::SlotTaken(SlotTaken { call })
}

// E3: a call counts as started only when it is sent.
#[test]
fn a_call_is_started_when_it_has_a_place_in_its_pool() {
    let mut world = World::caller();
    let call = world.propose(&pooled(), &json!({}));
    assert!(world.phase(call).is_queued());
    assert_eq!(world.effects, [Effect::Queue { call }]);
    assert_eq!(world.executions(call), 0);
    world.input(slot(call)).unwrap();
    assert!(matches!(world.phase(call), Phase::Running { attempt: 1, .. }));
    assert_eq!(world.executions(call), 1);
    let again = world.input(slot(call)).unwrap_err();
    assert!(matches!(again, Refusal::Stale(Stale::OtherAttempt)), "{again:?}");
    world.returns(call, ok("sent")).unwrap();
    assert!(world.outcome(call).unwrap().is_ok());
}

#[test]
fn a_call_without_a_pool_is_not_queued() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    assert!(!world.names().contains(&"call.queued"));
    assert_eq!(world.executions(call), 1);
}

// E3: what was never sent is certain, although its tool cannot be repeated.
#[test]
fn a_queued_call_that_is_cancelled_was_never_sent() {
    let mut world = World::caller();
    let call = world.propose(&pooled(), &json!({}));
    let cancelled = CallCancelled { call, by: ann(), note: None };
    world.input_elsewhere(Input::CallCancelled(cancelled)).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Cancelled);
    assert!(!world.names().contains(&"call.started"));
    assert!(world.input(slot(call)).is_err());
    assert_eq!(world.executions(call), 0);
}

// E3: after a crash it is queued again, and nobody is asked whether it happened.
#[test]
fn a_queued_call_outlives_its_process_without_doubt() {
    let mut world = World::caller();
    let call = world.propose(&pooled(), &json!({}));
    world.crash();
    assert_eq!(world.effects, [Effect::Queue { call }]);
    assert!(!world.names().contains(&"call.interrupted"));
    world.input(slot(call)).unwrap();
    world.crash();
    assert!(world.names().contains(&"call.interrupted"), "now it was sent");
}

#[test]
fn a_node_that_leaves_starts_no_queued_call() {
    let mut world = World::caller();
    let call = world.propose(&pooled(), &json!({}));
    world.is_leaving = true;
    assert!(world.input(slot(call)).is_err());
    assert!(world.phase(call).is_queued());
}

// A queued call stands in the session's order like one that runs.
#[test]
fn a_queued_call_takes_part_in_the_limits_of_its_session() {
    let limits = Limits { parallel: 1, ..Limits::default() };
    let config =
        haft_core::session::Config { limits, driver: Driver::Caller, ..Default::default() };
    let mut world = World::with(config);
    let first = world.propose(&pooled(), &json!({}));
    let second = world.propose(&read(), &json!({}));
    assert!(world.phase(first).is_queued());
    assert_eq!(world.executions(second), 0);
    world.input(slot(first)).unwrap();
    world.returns(first, ok("")).unwrap();
    assert_eq!(world.executions(second), 1);
}

#[test]
fn an_exclusive_call_waits_for_a_queued_one() {
    let mut world = World::caller();
    let queued = world.propose(&pooled(), &json!({}));
    let alone = crate::world::mutating("alone", |d| d.concurrency = Concurrency::Exclusive);
    let alone = world.propose(&alone, &json!({}));
    assert_eq!(world.executions(alone), 0);
    world.input(slot(queued)).unwrap();
    world.returns(queued, ok("")).unwrap();
    assert_eq!(world.executions(alone), 1);
}

// A call that waits in a queue is like one that waits for its turn: what changed is noticed.
#[test]
fn a_queued_call_does_not_outlive_its_tool_or_its_grant() {
    let mut world = World::caller();
    let call = world.propose(&pooled(), &json!({}));
    world.input(Input::ToolChanged(ToolChanged { call, change: ToolChange::Gone })).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::UnknownTool);

    let mut world = World::caller();
    let letter = crate::world::mutating("letter", |d| {
        d.gate = haft_core::tool::Gate::Ask;
        d.pools = vec![Pool { name: "post".into(), limit: 1 }];
    });
    let grant = grant_for(&mut world, &letter);
    let id = grant.id;
    world.input(Input::Granted(haft_core::session::Granted { grant })).unwrap();
    let call = world.propose(&letter, &json!({}));
    assert!(world.phase(call).is_queued());
    let revoked = haft_core::session::GrantRevoked { grant: id, by: ann() };
    world.input(Input::GrantRevoked(revoked)).unwrap();
    assert!(matches!(world.phase(call), Phase::Waiting(_)));
    world.resolve(call, approve()).unwrap();
    assert!(world.phase(call).is_queued());
}
