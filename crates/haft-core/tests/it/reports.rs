//! What the session at the top hears of those that work below it.

use std::sync::Arc;

use haft_core::SessionId;
use haft_core::session::{Effect, Input, Reply, Report, State, TurnEnding, Word};

use crate::world::{World, approve, charge, child_opened, read};

const ROOT: SessionId = SessionId::from_bits(77);

fn child() -> World {
    let mut world = World::unopened();
    world.input(Input::ChildOpened(child_opened())).unwrap();
    world
}

/// Whether the top is to be told something, since this was last asked.
fn reports(world: &mut World) -> bool {
    let reports = world.effects.contains(&Effect::ReportUp { root: ROOT });
    world.effects.clear();
    reports
}

fn word(state: &State) -> Word {
    Word::of(state, |_| TurnEnding::Completed)
}

// S2-41: the top hears what a child asks, that it goes on, and that it rests; also after a crash.
#[test]
fn s2_41_a_child_reports_whenever_what_it_does_changes() {
    let mut world = child();
    assert!(reports(&mut world));
    assert_eq!(word(&world.state), Word::AtWork);
    let call = world.answer(&[&charge()])[0];
    assert!(reports(&mut world));
    let Word::Asking { asks } = word(&world.state) else { panic!("it asks") };
    assert_eq!((asks.len(), asks[0].call, asks[0].tool.as_str()), (1, call, "charge_card"));
    world.input(Input::RootTold).unwrap();
    assert!(!reports(&mut world), "it is told");
    world.crash();
    assert!(reports(&mut world), "whoever takes over does not know that");
    world.resolve(call, approve()).unwrap();
    assert!(reports(&mut world));
    assert_eq!(word(&world.state), Word::AtWork);
    world.returns(call, crate::world::ok("done")).unwrap();
    assert!(!reports(&mut world), "it goes on as before");
    world.answer(&[]);
    assert!(reports(&mut world));
    assert_eq!(word(&world.state), Word::AtRest { turn: 2, ending: TurnEnding::Completed });
}

#[test]
fn a_session_at_the_top_reports_to_nobody() {
    let mut world = World::model();
    world.say("go").unwrap();
    world.answer(&[&charge()]);
    world.crash();
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::ReportUp { .. })));
}

fn told(world: &mut World, child: u128, seq: u64, word: Word) -> Reply {
    let report = Report { child: SessionId::from_bits(child), agent: None, seq, word };
    world.input_elsewhere(Input::ChildReported(Arc::new(report))).unwrap()
}

// S2-41: what is told again, or comes late, is recorded once and changes nothing.
#[test]
fn s2_41_a_report_is_recorded_once_and_never_after_a_later_one() {
    let mut world = World::model();
    world.say("go").unwrap();
    let rest = Word::AtRest { turn: 1, ending: TurnEnding::Completed };
    assert_eq!(told(&mut world, 5, 3, Word::AtWork), Reply::Accepted);
    let mark = world.events().len();
    assert_eq!(told(&mut world, 5, 3, Word::AtWork), Reply::AlreadyRecorded);
    assert_eq!(told(&mut world, 5, 4, Word::AtWork), Reply::AlreadyRecorded, "it is no news");
    assert_eq!(told(&mut world, 5, 9, rest), Reply::Accepted);
    assert_eq!(told(&mut world, 5, 8, Word::AtWork), Reply::AlreadyRecorded, "it comes late");
    assert_eq!(told(&mut world, 6, 2, Word::AtWork), Reply::Accepted, "another one");
    assert_eq!(world.names_since(mark), ["child.reported", "child.reported"]);
}

// S2-41: that a child asks is known at the top until it is told otherwise.
#[test]
fn s2_41_the_top_knows_that_it_is_asked_below() {
    let mut below = child();
    below.answer(&[&charge(), &read()]);
    assert_eq!(word(&below.state), Word::AtWork, "one of its calls still runs");
    let mut below = child();
    below.answer(&[&charge()]);
    let mut world = World::model();
    assert!(!world.open().is_asked_below());
    told(&mut world, 5, 7, word(&below.state));
    assert!(world.open().is_asked_below());
    told(&mut world, 5, 8, Word::AtWork);
    assert!(!world.open().is_asked_below());
}

// The state does not grow with its history: those at rest are forgotten, those at work are not.
#[test]
fn of_those_at_rest_only_the_newest_are_remembered() {
    let mut world = World::model();
    told(&mut world, 1, 1, Word::AtWork);
    let rest = || Word::AtRest { turn: 1, ending: TurnEnding::Completed };
    for child in 2..=200 {
        told(&mut world, child, 1, rest());
    }
    let size = serde_json::to_string(&world.state).unwrap().len();
    for child in 201..=400 {
        told(&mut world, child, 1, rest());
    }
    assert!(serde_json::to_string(&world.state).unwrap().len() <= size + 40);
    assert_eq!(told(&mut world, 1, 2, Word::AtWork), Reply::AlreadyRecorded, "it is at work");
}
