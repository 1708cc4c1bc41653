//! Golden files: what must not change unnoticed, and old logs that must still replay.
//!
//! `HAFT_BLESS=1 cargo test -p haft-core` writes them anew, except the old logs: those are what
//! earlier versions wrote and are never written again.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the golden files beside the tests; the ban is for the crate itself"
)]

use std::path::PathBuf;

use haft_core::journal::{Entry, FORMAT, Head, replay};
use haft_core::session::State;

use crate::world::{
    World, ann, approve, browser, charge, email, grant_for, mutating, ok, question, read,
};
use haft_core::session::{
    ClientGone, Goal, GoalSet, Granted, Input, Interrupted, Resolution, Settlement, Verification,
    Verified,
};
use haft_core::tool::{Gate, Hook};
use haft_core::{ErrorClass, Millis};
use serde_json::json;

fn path(name: &str) -> PathBuf {
    // Read at run time: checkouts that share a target directory share the test binary too.
    let root = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    PathBuf::from(root).join("tests/golden").join(name)
}

fn blessing() -> bool {
    std::env::var("HAFT_BLESS").is_ok()
}

#[track_caller]
pub(crate) fn assert_golden(name: &str, found: &str) {
    if blessing() {
        std::fs::write(path(name), found).unwrap();
    }
    let expected = std::fs::read_to_string(path(name)).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(old, new)| old != new);
    assert!(
        expected == found,
        "{name} is not what it was; if that is meant, run with HAFT_BLESS=1. First difference: \
         {differs:?}"
    );
}

/// A session in which as much happens as can: every event that the machine writes, or nearly.
fn story() -> World {
    let mut world = World::model();
    world.say("charge, ask, look and tell").unwrap();
    let calls = world.answer(&[&charge(), &question(), &read(), &email()]);
    world.returns(calls[2], ok("sunny")).unwrap();
    world.resolve(calls[0], approve()).unwrap();
    world.crash();
    world.wait(Millis(250));
    world.resolve(calls[0], Resolution::Settle(Settlement::RunAgain)).unwrap();
    world.returns(calls[0], ok("charged")).unwrap();
    world.resolve(calls[3], Resolution::Settle(Settlement::GiveUp)).unwrap();
    world.wait(Millis::from_secs(300));
    world.expire(calls[1]).unwrap();
    let verifiable = mutating("charge_verifiable", |d| {
        d.hooks.insert(Hook::Verify);
    });
    let calls = world.answer(&[&verifiable, &browser(Gate::Auto)]);
    world.crash();
    let verdict = Verification::Absent;
    world.input(Input::Verified(Verified { call: calls[0], attempt: 1, verdict })).unwrap();
    world.returns(calls[0], crate::world::err(ErrorClass::ToolError)).unwrap();
    world.input(Input::ClientGone(ClientGone { call: calls[1], round: 1 })).unwrap();
    let grant = grant_for(&mut world, &charge());
    world.input(Input::Granted(Granted { grant })).unwrap();
    let pay = charge();
    let call = world.proposal(&pay, &json!({"cents": 7}));
    let (id, offered) = (call.id, [pay.name.clone()].into());
    world.answer_with(vec![call], offered).unwrap();
    world
        .input(Input::Interrupted(Interrupted { by: ann(), note: Some("enough".into()) }))
        .unwrap();
    world.returns(id, ok("charged anyway")).unwrap();
    let goal = Goal::new("pay", Some("the bill"), ["charged"]).unwrap();
    world.input(Input::GoalSet(GoalSet { goal, by: ann() })).unwrap();
    world
}

#[test]
fn what_is_stored_today_is_what_was_stored_when_this_format_began() {
    let log = story().log;
    let lines: Vec<_> = log.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    assert_golden("stored-events.jsonl", &(lines.join("\n") + "\n"));
    let state = serde_json::to_string_pretty(&story().state).unwrap();
    assert_golden("stored-state.json", &(state + "\n"));
}

// Stored events are additive: logs of every earlier version verify, replay, and can go on.
#[test]
fn old_logs_still_verify_and_replay_to_the_same_state() {
    let old = std::fs::read_dir(path("old")).unwrap().map(|file| file.unwrap().path());
    let logs: Vec<_> = old.filter(|file| file.extension().is_some_and(|e| e == "jsonl")).collect();
    assert!(!logs.is_empty());
    for log in logs {
        let text = std::fs::read_to_string(&log).unwrap();
        let entries: Vec<Entry> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let mut head = Head::EMPTY;
        entries.iter().for_each(|entry| head.verify(entry).unwrap());
        let found = replay(State::Unopened, &entries).unwrap();
        let expected = std::fs::read_to_string(log.with_extension("state.json")).unwrap();
        assert_eq!(serde_json::from_str::<State>(&expected).unwrap(), found, "{log:?}");
    }
}

#[test]
fn a_snapshot_reads_back_and_goes_on_like_the_log() {
    let world = story();
    let text = serde_json::to_string(&world.state).unwrap();
    let snapshot: State = serde_json::from_str(&text).unwrap();
    assert_eq!(snapshot, world.state);
    assert_eq!(FORMAT, 1);
}
