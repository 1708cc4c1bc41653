//! What a session is to achieve, and whose it is.

use crate::world::{World, agent, ann};
use haft_core::session::{Agent, Config, Goal, GoalSet, Input, Reconfigured, Reply};

// D16, S2-44: an agent sets a goal in its own name, and never in the place of a person's.
#[test]
fn d16_s2_44_an_agent_does_not_replace_a_goal_that_a_person_set() {
    let goal = |title| Goal::new(title, None, ["tests pass"]).unwrap();
    let set = |world: &mut World, title, by| {
        world.input(Input::GoalSet(GoalSet { goal: goal(title), by }))
    };
    let mut world = World::model();
    set(&mut world, "its own", agent()).unwrap();
    set(&mut world, "its own, again", agent()).unwrap();
    set(&mut world, "a person's", ann()).unwrap();
    let again = set(&mut world, "a person's", ann()).unwrap();
    assert_eq!(again, Reply::AlreadyRecorded);
    assert_eq!(set(&mut world, "laxer", agent()).unwrap_err().code(), "not_allowed");
    let active = world.state.as_open().unwrap().goal.as_ref().unwrap();
    assert_eq!((active.goal.title(), &active.by), ("a person's", &ann()));
    world.crash();
    assert_eq!(world.state.as_open().unwrap().goal.as_ref().unwrap().goal, goal("a person's"));
}

// Whose session it is does not change: what it may read hangs on that.
#[test]
fn nobody_changes_whose_session_it_is() {
    let mut world = World::model();
    let config = Config::clone(&world.state.as_open().unwrap().config);
    let (id, model) = ("other".to_owned(), "scripted".to_owned());
    let agent = Some(Agent { id, version: 1, model, instructions: None, environment: None });
    let moved = Config { agent, ..config };
    let moved = Input::Reconfigured(Reconfigured { config: moved, by: ann() });
    assert_eq!(world.input(moved).unwrap_err().code(), "not_allowed");
}
