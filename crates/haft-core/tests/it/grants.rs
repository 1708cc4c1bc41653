//! Standing grants in a session: bounded, revocable, and applied to what already waits.

use crate::world::{World, agent, ann, approve, bob, charge, grant_for, mutating, ok};
use haft_core::permission::{Budget, Condition, Test};
use haft_core::session::{
    Check, Decided, Event, GrantRevoked, Granted, Input, Phase, Refusal, Resolution,
};
use haft_core::tool::Gate;
use haft_core::{CallId, Millis};
use serde_json::json;

fn cents(world: &mut World, amount: u32) -> CallId {
    world.propose(&charge(), &json!({ "cents": amount }))
}

#[test]
fn a_grant_lets_calls_through_until_its_budget_or_count_runs_out() {
    let mut world = World::caller();
    let mut grant = grant_for(&mut world, &charge());
    grant.when = vec![Condition {
        field: "/cents".parse().unwrap(),
        test: Test::AtMost("50".parse().unwrap()),
    }];
    grant.uses_left = Some(3);
    grant.budget = Some(Budget { field: "/cents".parse().unwrap(), left: "70".parse().unwrap() });
    world.input(Input::Granted(Granted { grant })).unwrap();
    let runs = |world: &World, call| matches!(world.phase(call), Phase::Running { .. });
    let first = cents(&mut world, 40);
    let too_big = cents(&mut world, 51);
    let over_budget = cents(&mut world, 31);
    let second = cents(&mut world, 30);
    assert!(runs(&world, first) && runs(&world, second));
    assert!(!runs(&world, too_big) && !runs(&world, over_budget));
    assert_eq!(world.open().grants()[0].uses_left, Some(1));
    let third = cents(&mut world, 0);
    let fourth = world.propose(&charge(), &json!({"cents": 0, "n": 4}));
    assert!(runs(&world, third) && !runs(&world, fourth), "three uses, no more");
}

// Demand 34: "allow for session" clears the matching calls that already wait.
#[test]
fn an_approval_with_a_grant_settles_the_matching_calls_that_wait() {
    let mut world = World::caller();
    let small: Vec<_> = (1..=3).map(|n| cents(&mut world, n)).collect();
    let large = cents(&mut world, 900);
    let mut grant = grant_for(&mut world, &charge());
    grant.when = vec![Condition {
        field: "/cents".parse().unwrap(),
        test: Test::AtMost("5".parse().unwrap()),
    }];
    grant.uses_left = Some(1);
    let resolution = Resolution::Approve { edit: None, note: None, grant: Some(Box::new(grant)) };
    world.resolve(small[0], resolution).unwrap();
    let running = |call: &CallId| matches!(world.phase(*call), Phase::Running { .. });
    assert_eq!(small.iter().map(running).collect::<Vec<_>>(), [true, true, false]);
    assert!(matches!(world.phase(large), Phase::Waiting(_)));
    let granted = world.events().into_iter().any(|event| {
        matches!(event, Event::CallResolved { decision: Decided::Granted { .. }, call, .. } if call == small[1])
    });
    assert!(granted, "the log says which grant let it through");
    let late = world.resolve(small[1], approve()).unwrap_err();
    assert!(late.to_string().contains("`ann` decided `granted`"), "{late}");
}

#[test]
fn a_grant_ends_when_it_is_revoked_or_runs_out() {
    let mut world = World::caller();
    let mut grant = grant_for(&mut world, &charge());
    grant.expires_at = Some(world.now + Millis(10));
    let id = grant.id;
    world.input(Input::Granted(Granted { grant })).unwrap();
    let call = cents(&mut world, 1);
    assert!(matches!(world.phase(call), Phase::Running { .. }));
    world.wait(Millis(10));
    let late = cents(&mut world, 2);
    assert!(matches!(world.phase(late), Phase::Waiting(_)));
    world.input(Input::GrantRevoked(GrantRevoked { grant: id, by: bob() })).unwrap();
    let again = world.input(Input::GrantRevoked(GrantRevoked { grant: id, by: bob() }));
    assert_eq!(again, Err(Refusal::UnknownGrant));
    assert!(world.open().grants().is_empty());
}

#[test]
fn a_tool_that_always_asks_cannot_be_granted_away() {
    let always = mutating("wire_money", |definition| definition.gate = Gate::AskAlways);
    let mut world = World::caller();
    let call = world.propose(&always, &json!({}));
    let grant = grant_for(&mut world, &always);
    let resolution = Resolution::Approve { edit: None, note: None, grant: Some(Box::new(grant)) };
    assert_eq!(world.resolve(call, resolution), Err(Refusal::GrantNeverApplies));
    assert!(matches!(world.phase(call), Phase::Waiting(_)), "nothing changed");
    world.resolve(call, approve()).unwrap();
    world.returns(call, ok("sent")).unwrap();
}

// D16: an agent gives itself nothing.
#[test]
fn d16_an_agent_cannot_give_or_take_grants() {
    let mut world = World::caller();
    let mut grant = grant_for(&mut world, &charge());
    let id = grant.id;
    grant.by = agent();
    let refused = world.input(Input::Granted(Granted { grant })).unwrap_err();
    assert_eq!(refused.code(), "not_allowed");
    let mut grant = grant_for(&mut world, &charge());
    (grant.id, grant.by) = (id, ann());
    world.input(Input::Granted(Granted { grant })).unwrap();
    let revoked = GrantRevoked { grant: id, by: agent() };
    assert_eq!(world.input(Input::GrantRevoked(revoked)).unwrap_err().code(), "not_allowed");
}

#[test]
fn a_grant_given_while_a_preview_is_made_applies_once_it_is_shown() {
    let edit = mutating("edit_file", |definition| {
        definition.gate = Gate::Ask;
        definition.hooks.insert(haft_core::tool::Hook::Preview);
    });
    let mut world = World::caller();
    let call = world.propose(&edit, &json!({}));
    let grant = grant_for(&mut world, &edit);
    world.input(Input::Granted(Granted { grant })).unwrap();
    assert!(matches!(world.phase(call), Phase::Previewing { .. }));
    let preview = haft_core::session::Preview {
        fingerprint: haft_core::Digest::ZERO,
        targets: vec![],
        diff: None,
        trouble: None,
    };
    world.input(Input::Previewed(haft_core::session::Previewed { call, preview })).unwrap();
    assert!(matches!(world.phase(call), Phase::Running { .. }));
}

#[test]
fn a_grant_from_outside_is_not_spent_twice_by_the_calls_of_one_batch() {
    let mut world = World::model();
    world.say("pay twice").unwrap();
    let mut grant = grant_for(&mut world, &charge());
    grant.budget = Some(Budget { field: "/cents".parse().unwrap(), left: "50".parse().unwrap() });
    let calls: Vec<_> = [40, 20, 10]
        .map(|cents| {
            let mut call = world.proposal(&charge(), &json!({ "cents": cents }));
            let Check::Sound(sound) = &mut call.check else { panic!("not a sound call") };
            sound.grants = vec![grant.clone()];
            call
        })
        .into();
    let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
    world.answer_with(calls, [charge().name.clone()].into()).unwrap();
    let running = |call: &CallId| matches!(world.phase(*call), Phase::Running { .. });
    assert_eq!(ids.iter().map(running).collect::<Vec<_>>(), [true, false, true]);
}
