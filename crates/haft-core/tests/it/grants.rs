//! Standing grants in a session: bounded, revocable, and applied to what already waits.

use crate::world::{
    World, agent, ann, approve, bob, charge, grant_for, mutating, offered_grant, ok, question,
};
use haft_core::permission::{Budget, Condition, Test};
use haft_core::session::{
    Check, Decided, Event, GrantOffered, GrantRevoked, Granted, Input, Phase, PolicyFacts, Refusal,
    Resolution, Stale,
};
use haft_core::tool::{Gate, ToolSpec};
use haft_core::{CallId, ErrorClass, Millis};
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

fn offer(call: CallId, round: u32, tool: &ToolSpec) -> GrantOffered {
    GrantOffered { call, round, grant: offered_grant(tool), policy: PolicyFacts::default() }
}

#[test]
fn a_grant_from_outside_ends_one_wait_once_on_any_node() {
    let mut world = World::caller();
    let call = cents(&mut world, 5);
    world.input_elsewhere(Input::GrantOffered(offer(call, 1, &charge()))).unwrap();
    assert!(matches!(world.phase(call), Phase::Ready { .. } | Phase::Running { .. }));
    assert!(world.open().grants().is_empty(), "the session does not keep it");
    let again = world.input_elsewhere(Input::GrantOffered(offer(call, 1, &charge())));
    assert!(matches!(again, Err(Refusal::Stale(Stale::Decided { .. }))), "{again:?}");
    assert!(matches!(world.resolve(call, approve()), Err(Refusal::Stale(_))));
}

#[test]
fn a_grant_from_outside_ends_no_other_wait() {
    let mut world = World::caller();
    let call = cents(&mut world, 5);
    let offered = |world: &mut World, offer| world.input_elsewhere(Input::GrantOffered(offer));
    let other = offered(&mut world, offer(call, 2, &charge()));
    assert!(matches!(other, Err(Refusal::Stale(Stale::OtherRound { .. }))), "{other:?}");
    let mut bounded = offer(call, 1, &charge());
    bounded.grant.when = vec![Condition {
        field: "/cents".parse().unwrap(),
        test: Test::AtMost("4".parse().unwrap()),
    }];
    let other = offered(&mut world, bounded).unwrap_err();
    assert!(other.to_string().contains("`/cents` does not meet its condition"), "{other}");
    let mut by_agent = offer(call, 1, &charge());
    by_agent.grant.by = agent();
    let other = offered(&mut world, by_agent);
    assert!(matches!(other, Err(Refusal::NotAllowed { .. })), "{other:?}");

    let asked = world.propose(&question(), &json!({}));
    let other = offered(&mut world, offer(asked, 1, &question()));
    assert_eq!(other, Err(Refusal::GrantNeverApplies));
    let always = mutating("wire_money", |definition| definition.gate = Gate::AskAlways);
    let wired = world.propose(&always, &json!({}));
    assert_eq!(offered(&mut world, offer(wired, 1, &always)), Err(Refusal::GrantNeverApplies));
    world.wait(Millis::from_secs(3_600));
    let late = offered(&mut world, offer(call, 1, &charge()));
    assert!(matches!(late, Err(Refusal::Stale(Stale::Expired { .. }))), "{late:?}");
}

#[test]
fn what_policy_denies_by_now_is_not_let_through_by_a_grant() {
    let mut world = World::caller();
    let call = cents(&mut world, 5);
    let mut offer = offer(call, 1, &charge());
    offer.policy.unmet_precondition = Some("the outcome has not passed".to_owned());
    world.input_elsewhere(Input::GrantOffered(offer)).unwrap();
    let ended = world.phase(call);
    assert!(matches!(ended, Phase::Settled { failed: Some(ErrorClass::Gate), .. }), "{ended:?}");
}
