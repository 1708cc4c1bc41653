//! Whatever happens, somebody is told to do what is left to do, and a session that is ended ends.

use proptest::prelude::*;

use crate::properties::{Step, check_log, config, perform, pick_call, step};
use crate::world::{World, ann, ok};
use haft_core::session::{
    Activity, AttemptEnded, AttemptReport, Config, Driver, Effect, Ended, Expired, Input, Limits,
    MessageArrived, Phase, Reconfigured, Refusal, Reply, State, Stopping,
};
use haft_core::{MessageId, Timestamp};

#[derive(Debug, Clone)]
enum Wild {
    Plain(Step),
    ClockGoesBack(i64),
    Limit(u8),
    MessageElsewhere,
    ExpiryElsewhere(usize),
    EndElsewhere,
    LateReport(usize),
    End,
}

fn wild() -> impl Strategy<Value = Wild> {
    prop_oneof![
        30 => step().prop_map(Wild::Plain),
        2 => (0..500_000i64).prop_map(Wild::ClockGoesBack),
        2 => (0..6u8).prop_map(Wild::Limit),
        2 => Just(Wild::MessageElsewhere),
        2 => (0..64usize).prop_map(Wild::ExpiryElsewhere),
        1 => Just(Wild::EndElsewhere),
        1 => (0..64usize).prop_map(Wild::LateReport),
        1 => Just(Wild::End),
    ]
}

fn no_bug(refused: Result<Reply, Refusal>) {
    if let Err(Refusal::Internal(bug)) = refused {
        panic!("{bug}");
    }
}

fn act(world: &mut World, wild: &Wild) {
    let Some(open) = world.state.as_open() else { return };
    let ended = || Input::Ended(Ended { by: ann(), note: None });
    match wild {
        Wild::Plain(step) => perform(world, step),
        Wild::ClockGoesBack(ms) => world.now = Timestamp::from_ms(world.now.ms() - ms),
        Wild::Limit(which) => {
            let config = limited(&open.config, *which);
            no_bug(world.input(Input::Reconfigured(Reconfigured { config, by: ann() })));
        }
        Wild::MessageElsewhere => {
            let message = MessageId::from_bits(world.fresh());
            let arrived = MessageArrived { message, from: ann(), content: vec![] };
            no_bug(world.input_elsewhere(Input::MessageArrived(arrived)));
        }
        Wild::ExpiryElsewhere(pick) => {
            let call = pick_call(world, *pick);
            let round = world.open().call(call).map_or(1, |call| call.rounds);
            no_bug(world.input_elsewhere(Input::Expired(Expired { call, round })));
        }
        Wild::LateReport(pick) => {
            let call = pick_call(world, *pick);
            let attempt = world.open().call(call).map_or(1, |call| call.attempts);
            let report = AttemptReport::Returned(ok("late").into());
            no_bug(world.input(Input::AttemptEnded(AttemptEnded { call, attempt, report })));
        }
        Wild::EndElsewhere => no_bug(world.input_elsewhere(ended())),
        Wild::End => no_bug(world.input(ended())),
    }
}

fn limited(config: &Config, which: u8) -> Config {
    let mut config = config.clone();
    match which {
        0 => config.limits.parallel = 0,
        1 => config.limits.calls_per_run = 0,
        2 => config.limits.calls_per_turn = 0,
        3 => config.limits.turns_per_run = 0,
        4 => config.limits.waiting_max = 0,
        _ => config.limits = Limits::default(),
    }
    config
}

/// Somebody is told of everything that is left to do.
fn check_live(world: &World) {
    let State::Open(open) = &world.state else { return };
    match open.activity {
        Activity::Idle => {
            let read = open.inbox.is_empty() || open.config.driver == Driver::Caller;
            assert!(read, "idle with mail");
            assert_eq!(open.stopping, Stopping::No, "idle and stopping");
        }
        Activity::Thinking { attempt } => {
            let asked = Effect::RunModel { turn: open.turn, attempt };
            assert!(world.effects.contains(&asked), "thinking, and nobody asks the model");
        }
        Activity::Acting => {
            let left = open.calls().filter(|call| is_looked_after(world, call)).count();
            assert!(left > 0, "stuck: {open:?}");
        }
    }
}

/// Returns whether the call keeps the turn open, having checked that somebody sees to it.
fn is_looked_after(world: &World, call: &haft_core::session::Call) -> bool {
    let id = call.id;
    let told = |effect: Effect| assert!(world.effects.contains(&effect), "nobody does {effect:?}");
    match &call.phase {
        Phase::Proposed => panic!("a call rests where none can"),
        Phase::Previewing { .. } => told(Effect::Preview { call: id }),
        Phase::Waiting(_) => {}
        phase if phase.is_queued() => told(Effect::Queue { call: id }),
        Phase::Ready { due, .. } => {
            let busy = |phase: &Phase| phase.is_in_flight() || phase.is_queued();
            let mut others = world.open().calls().filter(|other| busy(&other.phase));
            let scheduled = |due| world.effects.contains(&Effect::ScheduleRetry { call: id, due });
            assert!(
                others.next().is_some() || due.is_some_and(scheduled),
                "nobody starts {call:?}"
            );
        }
        Phase::Running { attempt, .. } => {
            let runs = |effect: &Effect| {
                matches!(effect,
                Effect::Execute { call, attempt: a, .. } if *call == id && a == attempt)
            };
            assert!(world.effects.iter().any(runs), "nobody runs {call:?}");
        }
        Phase::Verifying { attempt, .. } => told(Effect::Verify { call: id, attempt: *attempt }),
        Phase::Cancelling { attempt, .. } => told(Effect::Cancel { call: id, attempt: *attempt }),
        Phase::AtProvider { .. } | Phase::Settled { .. } => return false,
    }
    true
}

fn finish(world: &mut World) {
    if world.state.as_open().is_some_and(|open| open.stopping != Stopping::Session) {
        no_bug(world.input(Input::Ended(Ended { by: ann(), note: None })));
    }
    while let State::Open(open) = &world.state {
        let running = open.in_flight().next().map(|call| call.id);
        let call = running.unwrap_or_else(|| panic!("it does not end: {open:?}"));
        world.returns(call, ok("at last")).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left_that_nobody_does(
        config in config(),
        steps in prop::collection::vec(wild(), 1..60),
    ) {
        let mut world = World::with(config);
        for step in &steps {
            act(&mut world, step);
            if world.state.as_open().is_some() {
                no_bug(world.input(Input::Woken));
            }
            check_live(&world);
            let text = serde_json::to_string(&world.state).unwrap();
            let snapshot: State = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&snapshot, &world.state);
        }
        finish(&mut world);
        check_log(&world);
    }
}
