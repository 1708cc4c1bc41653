//! The loop around the turns: limits, summaries, wakes, children.

use std::sync::Arc;

use haft_core::permission::{Exposure, Level};
use haft_core::session::{
    Activity, AnswerDetails, AttemptEnded, AttemptReport, ChildStopped, Config, ContextSummarised,
    Delegation, Directive, Effect, Event, FollowUp, Goal, GoalSet, Input, Learning, LearningKind,
    Limits, ModelAnswered, Next, ParentTold, Phase, Priority, Refusal, Reply, Resolution, Stale,
    Summary, SuspensionKind, TurnEnding, Usage, Wake, WakeCancelled, WakeQueued,
};
use haft_core::{
    Actor, CallResult, Directives, ErrorClass, Millis, Output, SessionId, Timestamp, WakeId,
};

use crate::world::{
    World, agent, agent_tool, ann, charge, child_opened, delegation, ok, own_work, read, wake_at,
};

fn limited(limits: Limits) -> World {
    let mut world = World::with(Config { limits, ..Config::default() });
    world.say("go").unwrap();
    world
}

/// The model answers without calls, and with this beside it.
fn answer_about(world: &mut World, details: AnswerDetails) {
    let open = world.open();
    let Activity::Thinking { attempt } = open.activity else { panic!("the model is not asked") };
    let answer = ModelAnswered {
        turn: open.turn,
        attempt,
        content: vec![],
        advertised: Arc::default(),
        calls: vec![],
        provider_results: vec![],
        narrowed: vec![],
        details,
    };
    world.effects.clear();
    world.input(Input::ModelAnswered(answer)).unwrap();
}

/// The model asks for a call, having read and written so many tokens.
fn call_for(world: &mut World, tokens: u64) -> haft_core::CallId {
    let usage = Usage { input: tokens - 1, output: 1, ..Usage::default() };
    let call = world.proposal(&read(), &serde_json::json!({}));
    let (id, open) = (call.id, world.open());
    let Activity::Thinking { attempt } = open.activity else { panic!("the model is not asked") };
    let answer = ModelAnswered {
        turn: open.turn,
        attempt,
        content: vec![],
        advertised: Arc::new([read().name.clone()].into()),
        calls: vec![call],
        provider_results: vec![],
        narrowed: vec![],
        details: AnswerDetails { usage: Some(usage), ..AnswerDetails::default() },
    };
    world.input(Input::ModelAnswered(answer)).unwrap();
    id
}

fn ending(world: &World) -> TurnEnding {
    let ended = world.events().into_iter().rev().find_map(|event| match event {
        Event::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    });
    ended.expect("a turn has ended")
}

fn limit(name: &str) -> TurnEnding {
    TurnEnding::Limit { limit: name.to_owned() }
}

// S0-36, S3-24: tokens are counted over the turns of a run, through a crash, and end it.
#[test]
fn s0_36_a_run_ends_at_its_tokens_also_when_its_process_died_in_between() {
    let mut world = limited(Limits { tokens_per_run: Some(100), ..Limits::default() });
    let first = call_for(&mut world, 60);
    world.crash();
    world.returns(first, ok("sunny")).unwrap();
    assert_eq!(world.open().tokens_in_run(), 60);
    let third = call_for(&mut world, 40);
    world.returns(third, ok("sunny")).unwrap();
    assert_eq!(ending(&world), limit("tokens_per_run"));
    world.say("again").unwrap();
    assert_eq!(world.open().tokens_in_run(), 0, "a new run counts anew");
}

#[test]
fn a_run_ends_when_its_time_is_over_and_waiting_for_people_takes_none_of_it() {
    let mut world = limited(Limits { time_per_run: Some(Millis(1000)), ..Limits::default() });
    world.wait(Millis(400));
    let asked = world.answer(&[&charge()])[0];
    world.wait(Millis(200_000));
    world.resolve(asked, crate::world::approve()).unwrap();
    assert_eq!(world.open().worked(), Millis(400));
    world.wait(Millis(500));
    world.returns(asked, ok("charged")).unwrap();
    let look = world.answer(&[&read()])[0];
    world.wait(Millis(100));
    world.crash();
    assert_eq!(world.open().worked(), Millis(1000));
    world.effects.clear();
    world.returns(look, ok("sunny")).unwrap();
    assert_eq!(ending(&world), limit("time_per_run"));
    assert!(world.effects.is_empty(), "nothing new begins");
}

fn summary(through_turn: u32, text: &str) -> Summary {
    let usage = Some(Usage { input: 30, output: 3, ..Usage::default() });
    Summary { text: text.to_owned(), through_turn, after_seq: 7, usage }
}

#[test]
fn a_summary_is_recorded_before_the_model_is_asked_with_it_and_covers_more_each_time() {
    let mut world = World::model();
    for _ in 0..3 {
        world.say("go on").unwrap();
        world.answer(&[]);
    }
    world.say("and now").unwrap();
    world.effects.clear();
    let summarise = |world: &mut World, through, text: &str| {
        let summary = summary(through, text);
        let summarised = ContextSummarised { turn: 4, attempt: 1, summary };
        world.input(Input::ContextSummarised(summarised))
    };
    assert!(matches!(summarise(&mut world, 4, "too much"), Err(Refusal::Misfit { .. })));
    assert!(matches!(summarise(&mut world, 2, ""), Err(Refusal::Misfit { .. })));
    summarise(&mut world, 2, "they went on twice").unwrap();
    assert_eq!(world.effects, [Effect::RunModel { turn: 4, attempt: 1 }]);
    assert!(matches!(summarise(&mut world, 2, "the same"), Err(Refusal::Misfit { .. })));
    assert_eq!(world.open().tokens_in_run(), 33, "it counts towards the run");
    world.crash();
    assert_eq!(world.open().summary.as_deref(), Some(&summary(2, "they went on twice")));
}

fn directive(next: Next) -> AnswerDetails {
    let directive =
        Directive { next, summary: Some("half done".into()), wakes: vec![], learnings: vec![] };
    AnswerDetails { directive: Some(directive), ..AnswerDetails::default() }
}

fn go_on(world: &mut World) -> AnswerDetails {
    let wake = WakeId::from_bits(world.fresh());
    directive(Next::Continue { wake, after: Millis::from_secs(300) })
}

// S2-6: going on by itself is a directive and a queued wake, never a tool; after three times in
// a row someone has to speak.
#[test]
fn s2_6_a_model_goes_on_by_itself_three_times_and_then_sleeps_until_someone_speaks() {
    let mut world = World::model();
    world.say("watch the build").unwrap();
    for turn in 1..=3 {
        let details = go_on(&mut world);
        answer_about(&mut world, details);
        assert_eq!(world.open().activity, Activity::Idle);
        world.wait(Millis::from_secs(299));
        world.input(Input::Woken).unwrap();
        assert_eq!((world.open().turn, world.open().activity), (turn, Activity::Idle));
        world.wait(Millis::from_secs(1));
        world.crash();
        assert_eq!(world.open().turn, turn + 1);
    }
    let details = go_on(&mut world);
    answer_about(&mut world, details);
    let directed = world.events().into_iter().rev().find_map(|event| match event {
        Event::LoopDirected { follow_up, .. } => Some(follow_up),
        _ => None,
    });
    assert_eq!((directed, world.open().wakes.len()), (Some(FollowUp::Refused), 0));
    world.say("go on").unwrap();
    let details = go_on(&mut world);
    answer_about(&mut world, details);
    assert_eq!(world.open().wakes.len(), 1);
}

fn queue(world: &mut World, bits: u128, change: impl FnOnce(&mut Wake)) -> Result<Reply, Refusal> {
    let mut wake = Wake { id: WakeId::from_bits(bits), ..wake_at(world.now + Millis(1000)) };
    change(&mut wake);
    world.input_elsewhere(Input::WakeQueued(WakeQueued { wake, by: ann() }))
}

fn taken(world: &World) -> Vec<u128> {
    let taken = world.events().into_iter().rev().find_map(|event| match event {
        Event::TurnStarted { wakes, .. } => Some(wakes),
        _ => None,
    });
    taken.unwrap_or_default().into_iter().map(WakeId::bits).collect()
}

#[test]
fn wakes_with_one_key_are_one_and_those_that_matter_are_answered_first() {
    let mut world = World::model();
    queue(&mut world, 1, |wake| wake.priority = Priority::Low).unwrap();
    queue(&mut world, 2, |wake| wake.dedupe_key = Some("build".into())).unwrap();
    let again = queue(&mut world, 3, |wake| wake.dedupe_key = Some("build".into()));
    assert_eq!(again, Ok(Reply::AlreadyRecorded));
    queue(&mut world, 4, |wake| wake.priority = Priority::High).unwrap();
    queue(&mut world, 5, |wake| wake.due = Timestamp::MAX).unwrap();
    world.wait(Millis(1000));
    world.input(Input::Woken).unwrap();
    assert_eq!(taken(&world), [4, 2, 1]);
    assert_eq!(world.open().wakes.len(), 1);
    let cancelled = WakeCancelled { wake: WakeId::from_bits(5), by: ann() };
    world.input(Input::WakeCancelled(cancelled.clone())).unwrap();
    assert!(matches!(world.input(Input::WakeCancelled(cancelled)), Err(Refusal::Misfit { .. })));
}

// A wake that falls due while a call waits for a person is noted once, and answered by the next
// turn.
#[test]
fn a_wake_that_falls_due_while_the_session_is_busy_waits_for_the_next_turn() {
    let mut world = World::model();
    world.say("pay").unwrap();
    let call = world.answer(&[&charge()])[0];
    queue(&mut world, 1, |_| {}).unwrap();
    world.wait(Millis(1000));
    world.input(Input::Woken).unwrap();
    let mark = world.log.len();
    world.input(Input::Woken).unwrap();
    assert_eq!(world.log.len(), mark, "nothing is left to note");
    world.resolve(call, crate::world::deny()).unwrap();
    assert_eq!(taken(&world), [1]);
}

// S2-15: whoever interrupts wants quiet.
#[test]
fn s2_15_an_interrupt_cancels_the_wakes_and_an_agent_queues_none() {
    let mut world = World::model();
    queue(&mut world, 1, |_| {}).unwrap();
    world.interrupt().unwrap();
    assert!(world.open().wakes.is_empty());
    let own = WakeQueued { wake: wake_at(world.now), by: agent() };
    assert!(matches!(world.input(Input::WakeQueued(own)), Err(Refusal::NotAllowed { .. })));
}

// S2-64: learnings are captured from the answer, few and short.
#[test]
fn s2_64_learnings_of_an_answer_are_captured_bounded() {
    let mut world = World::model();
    world.say("go").unwrap();
    let learning = |title: &str| Learning {
        kind: LearningKind::Lesson,
        title: title.repeat(200),
        detail: "é".repeat(500),
        promote: false,
        dedupe_key: None,
    };
    let learnings = ["a", "b", "c", "d"].map(learning).into();
    let mut details = directive(Next::Sleep);
    details.directive.as_mut().unwrap().learnings = learnings;
    answer_about(&mut world, details);
    let captured: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::LearningCaptured { learning } => Some(learning),
            _ => None,
        })
        .collect();
    assert_eq!(captured.len(), 3);
    assert_eq!(captured[0].title.chars().count(), 120);
    assert_eq!(captured[0].detail.chars().count(), 400);
}

// S3-37: whatever a child wishes, it may do nothing that its parent may not.
#[test]
fn s3_37_a_child_gets_at_most_what_its_parent_has() {
    let exposure = |names: &[&str]| Exposure {
        allow: Some(names.iter().map(|name| name.parse().unwrap()).collect()),
        deny: [].into(),
    };
    let limits = Limits { turns_per_run: 5, depth: 1, ..Limits::default() };
    let config = Config {
        level: Level::Standard,
        exposure: exposure(&["delegate", "get_weather"]),
        limits,
        ..Config::default()
    };
    let mut world = World::with(config);
    world.say("go").unwrap();
    let call = world.answer(&[&agent_tool()])[0];
    let wish = Config {
        level: Level::Autonomous,
        exposure: exposure(&["get_weather", "send_email"]),
        limits: Limits { turns_per_run: 99, tokens_per_run: Some(7), ..Limits::default() },
        ..Config::default()
    };
    let report = AttemptReport::Delegated(Delegation { config: wish, ..delegation() }.into());
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    let given = world.open().call(call).unwrap().child.clone().unwrap();
    assert_eq!(given.config.level, Level::Standard);
    assert_eq!(given.config.exposure, exposure(&["get_weather"]));
    let limits = &given.config.limits;
    assert_eq!((limits.turns_per_run, limits.tokens_per_run, limits.depth), (5, Some(7), 1));
}

// S2-41, S3-37: a child of the last level has none of its own.
#[test]
fn a_child_too_deep_is_not_opened_and_the_model_is_told() {
    let mut opened = child_opened();
    opened.parent.depth = 3;
    let mut world = World::unopened();
    world.input(Input::ChildOpened(opened)).unwrap();
    let call = world.answer(&[&agent_tool()])[0];
    world.effects.clear();
    let report = AttemptReport::Delegated(delegation().into());
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Policy);
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::OpenChild { .. })));
}

fn childs_word(world: &mut World, call: haft_core::CallId, by: Actor) -> Result<Reply, Refusal> {
    let (result, directives) = (ok("found it"), Directives::default());
    let how = Resolution::Result { result, directives, fit: haft_core::session::Fit::Fits };
    let resolved = world.resolved(call, by, how);
    world.input_elsewhere(Input::Resolved(resolved))
}

// S4-35: a sub-agent is a server tool with a session inside; its last word is the result, once.
#[test]
fn s4_35_a_childs_word_is_the_result_and_nobody_else_can_give_it() {
    let mut world = World::model();
    world.say("go").unwrap();
    let (call, _) = world.delegated();
    let Phase::Waiting(wait) = world.phase(call) else { panic!("it waits for its child") };
    assert_eq!((wait.kind, world.open().waiting().count()), (SuspensionKind::Child, 0));
    assert!(matches!(childs_word(&mut world, call, ann()), Err(Refusal::NotAllowed { .. })));
    world.crash();
    assert!(world.effects.contains(&Effect::OpenChild { call }), "opened again, if it was not");
    childs_word(&mut world, call, Actor::system()).unwrap();
    let again = childs_word(&mut world, call, Actor::system());
    assert!(matches!(again, Err(Refusal::Stale(Stale::Decided { .. }))), "{again:?}");
    let CallResult::Ok(output) = world.outcome(call).unwrap().result else { panic!() };
    assert_eq!(output, Output::of_text("found it"));
    world.effects.clear();
    world.input(Input::Woken).unwrap();
    assert_eq!(world.effects, [Effect::RunModel { turn: 2, attempt: 1 }], "no child is stopped");
}

#[test]
fn a_child_that_nobody_waits_for_is_stopped_until_that_is_done() {
    let mut world = World::model();
    world.say("go").unwrap();
    let (_, delegation) = world.delegated();
    let child = delegation.child;
    world.effects.clear();
    world.interrupt().unwrap();
    assert!(world.effects.contains(&Effect::StopChild { child }));
    world.crash();
    assert!(world.effects.contains(&Effect::StopChild { child }), "also after a crash");
    world.input(Input::ChildStopped(ChildStopped { child })).unwrap();
    world.crash();
    assert!(!world.effects.contains(&Effect::StopChild { child }));
    let unknown = ChildStopped { child: SessionId::from_bits(1) };
    assert!(world.input(Input::ChildStopped(unknown)).is_err());
}

#[test]
fn a_parent_is_told_of_every_run_until_it_knows() {
    let mut world = World::unopened();
    world.input(Input::ChildOpened(child_opened())).unwrap();
    assert_eq!(world.open().root(), SessionId::from_bits(77));
    world.answer(&[]);
    assert!(world.effects.contains(&Effect::TellParent { turn: 1 }));
    world.crash();
    assert!(world.effects.contains(&Effect::TellParent { turn: 1 }));
    world.input(Input::ParentTold(ParentTold { turn: 1 })).unwrap();
    world.crash();
    assert!(!world.effects.contains(&Effect::TellParent { turn: 1 }));
}

// S2-T15, S2-41: a child that works on its own is what the call comes to, once it is open; the
// parent goes on, and is not told of the child's runs.
#[test]
fn s2_t15_a_call_that_awaits_only_the_opening_lets_the_session_go_on() {
    let mut world = World::model();
    world.say("go").unwrap();
    let call = world.answer(&[&agent_tool()])[0];
    let report = AttemptReport::Delegated(own_work().into());
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    assert!(world.effects.contains(&Effect::OpenChild { call }));
    world.crash();
    assert!(world.effects.contains(&Effect::OpenChild { call }), "opened again, if it was not");
    childs_word(&mut world, call, Actor::system()).unwrap();
    world.effects.clear();
    world.input(Input::Woken).unwrap();
    assert_eq!(world.effects, [Effect::RunModel { turn: 2, attempt: 1 }]);
    world.interrupt().unwrap();
    let stops = |effect: &Effect| matches!(effect, Effect::StopChild { .. });
    assert!(!world.effects.iter().any(stops), "what works on its own goes on");
}

#[test]
fn s2_t15_a_child_on_its_own_has_its_goal_and_owes_its_parent_no_word() {
    let mut opened = child_opened();
    let goal = Goal::new("ship", None, ["it is out"]).unwrap();
    opened.delegation = Arc::new(Delegation { goal: Some(goal.clone()), ..own_work() });
    opened.parent.hears = opened.delegation.awaits.hears();
    let mut world = World::unopened();
    world.input(Input::ChildOpened(opened)).unwrap();
    assert_eq!(world.open().goal.as_ref().unwrap().goal, goal);
    let itself =
        Input::GoalSet(GoalSet { goal: Goal::new("rest", None, [""]).unwrap(), by: agent() });
    assert!(matches!(world.input(itself), Err(Refusal::NotAllowed { .. })));
    world.answer(&[]);
    world.crash();
    let tells = |effect: &Effect| matches!(effect, Effect::TellParent { .. });
    assert!(!world.effects.iter().any(tells));
}
