//! From proposed to finished: order, batches, limits, concurrency, retries.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::world::{World, ann, bob, charge, email, err, ok, read, tool, with_reports};
use haft_core::permission::{Report, Source, SourceReport, Verdict};
use haft_core::session::{
    Activity, AnswerDetails, Check, Config, Effect, Event, Input, Limits, MODEL_ASKS_MAX,
    MessageRule, MisuseRule, ModelAnswered, ModelFailed, Phase, ProviderResult, Reconfigured,
    Refusal, RejectReason, Reply, RetryDue, Returned, Seen, Stale, StartCause, TurnEnding,
};
use haft_core::tool::{Concurrency, Executor, Idempotency, Mutates, Retry};
use haft_core::{
    CallResult, Directives, ErrorClass, Failure, Millis, Output, ProviderCallId, Trust,
};
use serde_json::json;

fn rejections(world: &World) -> Vec<RejectReason> {
    let events = world.events().into_iter();
    let reasons = events.filter_map(|event| match event {
        Event::CallRejected { rejection, .. } => Some(rejection.reason),
        _ => None,
    });
    reasons.collect()
}

fn last_ending(world: &World) -> Option<TurnEnding> {
    world.events().into_iter().rev().find_map(|event| match event {
        Event::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    })
}

// C25: one event per step, in order, exactly one terminal event.
#[test]
fn a_plain_call_leaves_one_event_per_step_in_the_documents_order() {
    let mut world = World::model();
    world.say("hello").unwrap();
    let call = world.answer(&[&read()])[0];
    assert_eq!(world.executions(call), 1);
    world.returns(call, ok("sunny")).unwrap();
    assert_eq!(
        world.names(),
        [
            "session.opened",
            "message.received",
            "turn.started",
            "turn.answered",
            "call.proposed",
            "call.admitted",
            "call.started",
            "call.finished",
            "turn.started",
        ]
    );
    assert!(world.effects.contains(&Effect::RunModel { turn: 2, attempt: 1 }));
}

// S4-15: the next turn starts only when no call is open; ungated siblings run at once.
#[test]
fn s4_15_a_mixed_batch_runs_what_it_can_and_waits_for_the_rest() {
    let mut world = World::model();
    world.say("pay and tell").unwrap();
    let calls = world.answer(&[&email(), &charge()]);
    let (mail, pay) = (calls[0], calls[1]);
    assert_eq!((world.executions(mail), world.executions(pay)), (1, 0));
    assert!(matches!(world.phase(pay), Phase::Waiting(_)));
    world.returns(mail, ok("sent")).unwrap();
    assert_eq!(world.open().activity, Activity::Acting, "one call is still open");
    world.resolve(pay, crate::world::approve()).unwrap();
    world.returns(pay, ok("charged")).unwrap();
    assert_eq!(world.open().activity, Activity::Thinking { attempt: 1 });
    let runs = world.names().iter().filter(|name| **name == "turn.started").count();
    assert_eq!(runs, 2, "the turn resumed exactly once");
}

// S3-9, S3-16, S3-18, S3-19, C28: calls are checked against what was offered in this turn.
#[test]
fn s3_9_s3_16_unknown_and_unoffered_tools_never_run_and_come_back_with_their_ids() {
    let mut world = World::model();
    world.say("go").unwrap();
    let mut unknown = world.proposal(&read(), &json!({}));
    unknown.name = "does not exist".into();
    unknown.check = Check::UnknownTool { message: "no such tool".into() };
    let unoffered = world.proposal(&email(), &json!({}));
    let id = unoffered.provider_id.clone();
    let offered = BTreeSet::from([read().name.clone()]);
    world.answer_with(vec![unknown, unoffered], offered).unwrap();
    assert_eq!(rejections(&world), [RejectReason::UnknownTool, RejectReason::NotAdvertised]);
    let kept = world
        .events()
        .into_iter()
        .any(|event| matches!(event, Event::CallRejected { provider_id, .. } if provider_id == id));
    assert!(kept, "the provider's id is in the error");
    assert!(!world.effects.iter().any(|effect| matches!(effect, Effect::Execute { .. })));
    assert_eq!(world.open().turn, 2, "the model hears of it and goes on");
    assert_eq!(RejectReason::NotAdvertised.class(), ErrorClass::UnknownTool);
}

// S3-17: malformed and unfitting arguments are rejections, with the raw text kept.
#[test]
fn s3_17_malformed_arguments_are_kept_raw_and_never_run() {
    let mut world = World::model();
    world.say("go").unwrap();
    let mut malformed = world.proposal(&email(), &json!({}));
    malformed.check =
        Check::Malformed { raw: "{\"to\":".into(), message: "expected a JSON value".into() };
    let mut unfit = world.proposal(&email(), &json!({}));
    unfit.check = Check::Invalid { message: "`/to`: expected a string, found 7".into() };
    world.answer_with(vec![malformed, unfit], BTreeSet::from([email().name.clone()])).unwrap();
    assert_eq!(rejections(&world), [RejectReason::Malformed, RejectReason::InvalidArguments]);
    let raw = world.events().into_iter().find_map(|event| match event {
        Event::CallRejected { rejection, .. } => rejection.raw_arguments,
        _ => None,
    });
    assert_eq!(raw.as_deref(), Some("{\"to\":"));
}

// S3-24: limits fail closed, and each refused call still has its answer.
#[test]
fn s3_24_calls_over_a_limit_are_rejected_each_with_an_answer() {
    let limits = Limits { calls_per_turn: 2, ..Limits::default() };
    let mut world = World::with(Config { limits, ..Config::default() });
    world.say("go").unwrap();
    let tool = read();
    let calls: Vec<_> = (0..5).map(|n| world.proposal(&tool, &json!({ "n": n }))).collect();
    world.answer_with(calls, BTreeSet::from([tool.name.clone()])).unwrap();
    assert_eq!(rejections(&world), [RejectReason::Limit; 3]);
    assert_eq!(world.open().calls().count(), 2);
}

// A run that keeps calling ends by itself.
#[test]
fn an_endless_loop_of_calls_ends_at_a_limit() {
    let limits = Limits { turns_per_run: 3, ..Limits::default() };
    let mut world = World::with(Config { limits, ..Config::default() });
    world.say("go").unwrap();
    while world.open().activity != Activity::Idle {
        let call = world.answer(&[&read()])[0];
        world.returns(call, ok("again")).unwrap();
    }
    assert_eq!(world.open().turn, 3);
    assert_eq!(last_ending(&world), Some(TurnEnding::Limit { limit: "turns_per_run".into() }));
    world.say("more").unwrap();
    assert_eq!(world.open().turn, 4, "a new message starts a new run");

    let limits = Limits { calls_per_run: 2, ..Limits::default() };
    let mut world = World::with(Config { limits, ..Config::default() });
    world.say("go").unwrap();
    while world.open().activity != Activity::Idle {
        let mut bad = world.proposal(&read(), &json!({}));
        bad.check = Check::UnknownTool { message: "no".into() };
        world.answer_with(vec![bad], BTreeSet::new()).unwrap();
    }
    assert_eq!(last_ending(&world), Some(TurnEnding::Limit { limit: "calls_per_run".into() }));
}

// S0-3, C10: the provider's id is kept and never a key; one that comes again is noticed.
#[test]
fn the_same_provider_id_twice_in_a_turn_gives_two_calls_each_paired() {
    let mut world = World::model();
    world.say("go").unwrap();
    let tool = read();
    let mut one = world.proposal(&tool, &json!({"city": "Oslo"}));
    let mut two = world.proposal(&tool, &json!({"city": "Bergen"}));
    let mut replay = world.proposal(&tool, &json!({"city": "Oslo"}));
    let shared = ProviderCallId::new("call_0").unwrap();
    for call in [&mut one, &mut two, &mut replay] {
        call.provider_id = shared.clone();
    }
    let (first, second) = (one.id, two.id);
    world.answer_with(vec![one, two, replay], BTreeSet::from([tool.name.clone()])).unwrap();
    assert_eq!(rejections(&world), [RejectReason::Repeated], "an exact repeat is not run twice");
    let seen: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::CallProposed { provider_id_seen, .. } => Some(provider_id_seen),
            _ => None,
        })
        .collect();
    assert_eq!(seen, [Seen::First, Seen::Again]);
    world.returns(second, ok("rain")).unwrap();
    world.returns(first, ok("sun")).unwrap();
    let text = |call| match world.outcome(call).unwrap().result {
        CallResult::Ok(output) => output.first_text().unwrap().to_owned(),
        CallResult::Err(_) => unreachable!(),
    };
    assert_eq!((text(first).as_str(), text(second).as_str()), ("sun", "rain"));
}

// D23: each result reaches its own call, whatever the order.
#[test]
fn d23_parallel_results_reach_their_own_calls() {
    let mut world = World::caller();
    let calls: Vec<_> = (0..4).map(|n| world.propose(&read(), &json!({ "n": n }))).collect();
    for (n, call) in calls.iter().enumerate().rev() {
        world.returns(*call, ok(&format!("result {n}"))).unwrap();
    }
    for (n, call) in calls.iter().enumerate() {
        let CallResult::Ok(output) = world.outcome(*call).unwrap().result else { panic!() };
        assert_eq!(output.first_text(), Some(format!("result {n}").as_str()));
    }
    assert_eq!(last_ending(&world), Some(TurnEnding::Settled));
}

#[test]
fn one_id_for_two_calls_is_a_drivers_mistake() {
    let mut world = World::caller();
    let one = world.proposal(&read(), &json!({}));
    let two = one.clone();
    let id = one.id;
    let calls = haft_core::session::CallsProposed { calls: vec![one, two] };
    let refused = world.input(Input::CallsProposed(calls)).unwrap_err();
    assert_eq!(refused, Refusal::DuplicateCall { call: id });
    assert_eq!(world.names(), ["session.opened"], "nothing was recorded");
}

// S3-23: a bound on what runs beside each other; an exclusive call is a barrier.
#[test]
fn s3_23_concurrency_is_bounded_and_exclusive_calls_are_barriers() {
    let limits = Limits { parallel: 2, ..Limits::default() };
    let mut world = World::with(Config { limits, ..Config::default() });
    world.say("go").unwrap();
    let alone = tool("get_lock", |definition| definition.concurrency = Concurrency::Exclusive);
    let shared = read();
    let (a, b, c) = (
        world.proposal(&shared, &json!({"n": 1})),
        world.proposal(&shared, &json!({"n": 2})),
        world.proposal(&shared, &json!({"n": 3})),
    );
    let (x, d) = (world.proposal(&alone, &json!({})), world.proposal(&shared, &json!({"n": 4})));
    let ids = [a.id, b.id, c.id, x.id, d.id];
    let offered = BTreeSet::from([shared.name.clone(), alone.name.clone()]);
    world.answer_with(vec![a, b, c, x, d], offered).unwrap();
    let running = |world: &World| ids.map(|id| matches!(world.phase(id), Phase::Running { .. }));
    assert_eq!(running(&world), [true, true, false, false, false]);
    world.returns(ids[0], ok("")).unwrap();
    assert_eq!(running(&world), [false, true, true, false, false]);
    world.returns(ids[1], ok("")).unwrap();
    assert_eq!(running(&world), [false, false, true, false, false], "the barrier waits");
    world.returns(ids[2], ok("")).unwrap();
    assert_eq!(running(&world), [false, false, false, true, false], "alone");
    world.returns(ids[3], ok("")).unwrap();
    assert_eq!(running(&world), [false, false, false, false, true]);
}

#[test]
fn an_exclusive_call_that_waits_for_a_person_holds_nobody_up() {
    let mut world = World::model();
    world.say("go").unwrap();
    let gated = tool("get_lock", |definition| {
        definition.concurrency = Concurrency::Exclusive;
        definition.gate = haft_core::tool::Gate::Ask;
    });
    let calls = world.answer(&[&gated, &read()]);
    assert_eq!(world.executions(calls[1]), 1);
}

// S3-38: only what is declared retryable and safe is tried again, under the same id.
#[test]
fn s3_38_a_retryable_failure_is_tried_again_when_due_and_not_before() {
    let keyed = tool("get_quote", |definition| {
        definition.facets.mutates = Some(Mutates::Irreversible);
        definition.facets.idempotency = Some(Idempotency::Keyed);
        definition.gate = haft_core::tool::Gate::Auto;
        definition.retry = Retry { max_attempts: 2, ..Retry::default() };
    });
    let mut world = World::caller();
    let call = world.propose(&keyed, &json!({}));
    world.returns(call, err(ErrorClass::Upstream)).unwrap();
    let Phase::Ready { cause: StartCause::Retry, due: Some(due), .. } = world.phase(call) else {
        panic!("expected a scheduled retry")
    };
    let due = *due;
    assert!(world.effects.contains(&Effect::ScheduleRetry { call, due }));
    let early = world.input(Input::RetryDue(RetryDue { call })).unwrap_err();
    assert_eq!(early, Refusal::NotDue { due });
    world.wait(Millis(200));
    world.input(Input::RetryDue(RetryDue { call })).unwrap();
    assert_eq!(world.executions(call), 2);
    world.returns(call, err(ErrorClass::Upstream)).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Upstream);
    assert_eq!(world.outcome(call).unwrap().attempt, 2);
    let mut world = World::caller();
    let call = world.propose(&keyed, &json!({}));
    world.returns(call, err(ErrorClass::InvalidArgs)).unwrap();
    assert!(world.outcome(call).is_some(), "not worth another attempt");
}

// S0-31: a terminal result ends the run.
#[test]
fn s0_31_a_terminal_result_ends_the_run() {
    let mut world = World::model();
    world.say("go").unwrap();
    let call = world.answer(&[&read()])[0];
    let directives = Directives { terminal: Some(true), ..Directives::default() };
    world.returned(call, Returned { directives, ..ok("done").into() }).unwrap();
    assert_eq!(last_ending(&world), Some(TurnEnding::Terminal));
    assert_eq!(world.open().activity, Activity::Idle);
}

// D22: a deny is a repairable rejection that says why.
#[test]
fn d22_a_denied_call_is_rejected_with_the_deciding_reason() {
    let mut world = World::model();
    world.say("go").unwrap();
    let mut call = world.proposal(&read(), &json!({}));
    let report = Report::Failed { reason: "the rule file is unreadable".into() };
    with_reports(&mut call, vec![SourceReport { source: Source::Environment, report }]);
    world.answer_with(vec![call], BTreeSet::from([read().name.clone()])).unwrap();
    let message = world.events().into_iter().find_map(|event| match event {
        Event::CallRejected { rejection, .. } => Some(rejection.message),
        _ => None,
    });
    let expected = "not permitted: it could not be asked: the rule file is unreadable";
    assert_eq!(message.as_deref(), Some(expected));
}

// A precondition cannot be waved through.
#[test]
fn an_unmet_precondition_rejects_with_the_next_step() {
    let mut world = World::model();
    world.say("go").unwrap();
    let mut call = world.proposal(&charge(), &json!({}));
    let Check::Sound(sound) = &mut call.check else { panic!() };
    sound.policy.unmet_precondition = Some("the outcome is not `pass`; see outcome_history".into());
    world.answer_with(vec![call], BTreeSet::from([charge().name.clone()])).unwrap();
    assert_eq!(rejections(&world), [RejectReason::Precondition]);
    assert_eq!(RejectReason::Precondition.class(), ErrorClass::Gate);
}

// S4-7: a provider's call is never dispatched here; its result is recorded, others are ignored.
#[test]
fn s4_7_a_provider_call_is_passed_through_and_its_result_recorded() {
    let search = tool("web_search", |definition| definition.executor = Executor::Provider);
    let mut world = World::model();
    world.say("search").unwrap();
    let call = world.proposal(&search, &json!({"q": "x"}));
    let (id, provider_id) = (call.id, call.provider_id.clone());
    let result = |provider_id| ProviderResult {
        provider_id,
        result: ok("found"),
        meta: Some(json!({"n": 1})),
    };
    let answer = ModelAnswered {
        turn: 1,
        attempt: 1,
        content: vec![],
        advertised: Arc::new(BTreeSet::from([search.name.clone()])),
        calls: vec![call],
        provider_results: vec![
            result(provider_id),
            result(ProviderCallId::new("nobody's").unwrap()),
        ],
        narrowed: vec![],
        details: AnswerDetails::default(),
    };
    world.input(Input::ModelAnswered(answer)).unwrap();
    assert_eq!(world.executions(id), 0);
    let outcome = world.outcome(id).unwrap();
    assert_eq!(outcome.provenance.trust, Trust::Untrusted);
    assert_eq!(outcome.provider_meta, Some(json!({"n": 1})));
    assert!(world.names().contains(&"provider.result_ignored"));
}

#[test]
fn a_provider_result_may_come_with_the_next_answer_or_never() {
    let search = tool("web_search", |definition| definition.executor = Executor::Provider);
    let mut world = World::model();
    world.say("search").unwrap();
    let calls = world.answer(&[&search]);
    assert_eq!(world.open().activity, Activity::Thinking { attempt: 1 });
    assert_eq!(world.open().in_flight().count(), 1, "it is still at the provider");
    world.answer(&[]);
    assert_eq!(world.failure(calls[0]).class, ErrorClass::Upstream);
    assert_eq!(world.open().activity, Activity::Idle, "the model said its last word");
}

#[test]
fn a_late_or_foreign_answer_of_the_model_is_stale() {
    let mut world = World::model();
    world.say("go").unwrap();
    let answer = |turn, attempt| {
        Input::ModelAnswered(ModelAnswered {
            turn,
            attempt,
            content: vec![],
            advertised: Arc::default(),
            calls: vec![],
            provider_results: vec![],
            narrowed: vec![],
            details: AnswerDetails::default(),
        })
    };
    let stale = Err(Refusal::Stale(Stale::OtherAttempt));
    assert_eq!(world.input(answer(2, 1)), stale);
    assert_eq!(world.input(answer(1, 2)), stale);
    world.input(answer(1, 1)).unwrap();
    assert_eq!(world.input(answer(1, 1)), stale);
    assert_eq!(last_ending(&world), Some(TurnEnding::Completed));
}

#[test]
fn a_model_that_cannot_be_asked_ends_the_turn_with_the_reason() {
    let mut world = World::model();
    world.say("go").unwrap();
    let failure = Failure::new(ErrorClass::RateLimited, "try later");
    let failed = ModelFailed { turn: 1, attempt: 1, failure: failure.clone(), broke_off: false };
    world.input(Input::ModelFailed(failed)).unwrap();
    assert_eq!(last_ending(&world), Some(TurnEnding::Failed { failure }));
    world.say("again").unwrap();
    assert_eq!(world.open().turn, 2);
}

#[test]
fn a_model_whose_answer_broke_off_is_asked_again_a_few_times() {
    let mut world = World::model();
    world.say("go").unwrap();
    let failure = Failure::new(ErrorClass::Upstream, "the stream ended early");
    let broke = |attempt| {
        let failure = failure.clone();
        Input::ModelFailed(ModelFailed { turn: 1, attempt, failure, broke_off: true })
    };
    for attempt in 1..MODEL_ASKS_MAX {
        world.input(broke(attempt)).unwrap();
        let next = attempt + 1;
        assert_eq!(world.open().activity, Activity::Thinking { attempt: next });
        assert_eq!(world.effects.last(), Some(&Effect::RunModel { turn: 1, attempt: next }));
        assert_eq!(world.input(broke(attempt)), Err(Refusal::Stale(Stale::OtherAttempt)));
    }
    world.input(broke(MODEL_ASKS_MAX)).unwrap();
    assert_eq!(last_ending(&world), Some(TurnEnding::Failed { failure }));
}

#[test]
fn a_message_while_busy_follows_the_declared_rule() {
    let busy = |rule| {
        let mut world = World::with(Config { on_message: rule, ..Config::default() });
        world.say("pay").unwrap();
        let call = world.answer(&[&charge()])[0];
        (world, call)
    };
    let (mut world, call) = busy(MessageRule::Queue);
    assert_eq!(world.say("hello?"), Ok(Reply::Queued));
    assert!(world.phase(call).is_open(), "the call still waits");
    world.resolve(call, crate::world::deny()).unwrap();
    assert!(world.open().inbox.is_empty(), "it went along with the next turn");

    let (mut world, call) = busy(MessageRule::Refuse);
    assert_eq!(world.say("hello?"), Err(Refusal::Busy));
    assert!(world.phase(call).is_open());

    let (mut world, call) = busy(MessageRule::Steer);
    assert_eq!(world.say("stop that"), Ok(Reply::Queued));
    let failure = world.failure(call);
    assert_eq!(failure.class, ErrorClass::Cancelled);
    assert!(failure.message.contains("withdrawn because of a new message"), "{}", failure.message);
    assert_eq!(world.open().activity, Activity::Thinking { attempt: 1 });
}

#[test]
fn a_session_keeps_its_driver_and_takes_other_changes() {
    let mut world = World::model();
    let wrong =
        world.input(Input::CallsProposed(haft_core::session::CallsProposed { calls: vec![] }));
    assert!(matches!(wrong, Err(Refusal::WrongDriver { .. })));
    let mut caller = World::caller();
    assert!(matches!(caller.say("hi"), Err(Refusal::WrongDriver { .. })));
    let config = Config { driver: haft_core::session::Driver::Caller, ..Config::default() };
    let changed = Input::Reconfigured(Reconfigured { config, by: ann() });
    assert!(matches!(world.input(changed), Err(Refusal::WrongDriver { .. })));
    let config = Config { on_message: MessageRule::Refuse, ..Config::default() };
    world.input(Input::Reconfigured(Reconfigured { config, by: bob() })).unwrap();
    assert_eq!(world.open().config.on_message, MessageRule::Refuse);
}

// The tools offered in a turn are in the log, and only written when they change.
#[test]
fn what_was_offered_is_logged_when_it_changes() {
    let mut world = World::model();
    world.say("go").unwrap();
    for _ in 0..2 {
        let call = world.answer(&[&read()])[0];
        world.returns(call, ok("")).unwrap();
    }
    world.answer(&[]);
    let offered: Vec<_> = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::TurnAnswered { advertised, .. } => Some(advertised),
            _ => None,
        })
        .collect();
    assert_eq!(offered, [Some(vec![read().name.clone()]), None, Some(vec![])]);
}

// S4-28: what comes from outside is marked as such.
#[test]
fn s4_28_only_our_own_code_is_trusted() {
    let mut world = World::caller();
    let trusted = world.propose(&read(), &json!({}));
    world.returns(trusted, ok("")).unwrap();
    assert_eq!(world.outcome(trusted).unwrap().provenance.trust, Trust::Trusted);
    let mcp = tool("get_remote", |definition| {
        definition.ownership = haft_core::tool::Ownership::Mcp;
        definition.gate = haft_core::tool::Gate::Auto;
    });
    let untrusted = world.propose(&mcp, &json!({}));
    world.returns(untrusted, CallResult::Ok(Output::default())).unwrap();
    assert_eq!(world.outcome(untrusted).unwrap().provenance.trust, Trust::Untrusted);
}

// Every decision carries what led to it.
#[test]
fn every_proposed_call_carries_its_derivation() {
    let mut world = World::caller();
    world.propose(&charge(), &json!({}));
    let derivation = world.events().into_iter().find_map(|event| match event {
        Event::CallProposed { derivation, .. } => Some(derivation),
        _ => None,
    });
    let derivation = derivation.unwrap();
    assert_eq!(derivation.decision, Verdict::Ask);
    assert_eq!(derivation.deciding_reason(), "declared to ask");
}

// S3-15: arguments that do not fit come back to the model, unless the session forbids repair.
#[test]
fn s3_15_what_does_not_fit_is_repaired_or_fails_the_run_as_the_session_says() {
    for (rule, goes_on) in [(MisuseRule::Repair, true), (MisuseRule::Fail, false)] {
        let mut world = World::with(Config { on_misuse: rule, ..Config::default() });
        world.say("go").unwrap();
        let mut misfit = world.proposal(&read(), &json!({}));
        misfit.check = Check::Invalid { message: "`/city`: expected a string".into() };
        let sound = world.proposal(&read(), &json!({"n": 1}));
        let call = sound.id;
        world.answer_with(vec![misfit, sound], BTreeSet::from([read().name.clone()])).unwrap();
        world.returns(call, ok("sunny")).unwrap();
        assert!(world.outcome(call).unwrap().is_ok(), "what was right was done");
        let thinks = matches!(world.open().activity, Activity::Thinking { .. });
        assert_eq!(thinks, goes_on);
        let failed = world.events().into_iter().find_map(|event| match event {
            Event::TurnEnded { ending: TurnEnding::Failed { failure }, .. } => Some(failure),
            _ => None,
        });
        assert_eq!(failed.is_none(), goes_on);
        assert!(failed.is_none_or(|failure| failure.message.contains("/city")));
        if !goes_on {
            world.say("again").unwrap();
            assert_eq!(world.open().turn, 2, "the next message begins anew");
        }
    }
}
