//! What a hostile reader found, or looked for: each test states what holds.

use std::sync::Arc;

use haft_core::permission::Exposure;
use haft_core::session::Preview;
use haft_core::session::*;
use haft_core::tool::*;
use haft_core::*;
use serde_json::{Value, json};

use crate::world::*;

fn one_use(world: &mut World, tool: &ToolSpec) -> permission::StandingGrant {
    let mut grant = grant_for(world, tool);
    grant.uses_left = Some(1);
    grant
}

#[test]
fn outside_grant_count_is_kept_within_a_batch() {
    let mut world = World::caller();
    let grant = one_use(&mut world, &charge());
    let mut calls = vec![
        world.proposal(&charge(), &json!({"n": 1})),
        world.proposal(&charge(), &json!({"n": 2})),
    ];
    for call in &mut calls {
        let Check::Sound(sound) = &mut call.check else { panic!() };
        sound.grants = vec![grant.clone()];
    }
    world.input(Input::CallsProposed(CallsProposed { calls })).unwrap();
    let runs = world.effects.iter().filter(|e| matches!(e, Effect::Execute { .. })).count();
    assert_eq!(runs, 1, "a grant for one call ran {runs}");
}

#[test]
fn adding_the_same_grant_twice_does_not_make_it_unlimited() {
    let mut world = World::caller();
    let grant = one_use(&mut world, &charge());
    world.input(Input::Granted(Granted { grant: grant.clone() })).unwrap();
    assert_eq!(world.input(Input::Granted(Granted { grant })), Ok(Reply::AlreadyRecorded));
    let mut runs = 0;
    for n in 0..5 {
        let call = world.propose(&charge(), &json!({ "n": n }));
        runs += world.executions(call);
    }
    assert_eq!(runs, 1, "a grant for one call, given twice");
}

#[test]
fn what_is_nested_too_deeply_is_never_stored() {
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    world.returns(call, CallResult::Ok(Output::of_value(deep.clone()))).unwrap();
    assert!(world.failure(call).message.contains("deeper than 64 levels"));
    let call = world.proposal(&email(), &json!({ "deep": deep }));
    world.input(Input::CallsProposed(CallsProposed { calls: vec![call] })).unwrap();
    assert!(world.names().contains(&"call.rejected"));
    let call = world.propose(&browser(Gate::Auto), &json!({}));
    let result = CallResult::Ok(Output::of_value(deep));
    let directives = Directives::default();
    let refused = world.resolve(call, Resolution::Result { result, directives, fit: Fit::Fits });
    assert_eq!(refused.unwrap_err().code(), "misfit");
}

#[test]
fn floats_replay_exactly() {
    let world = World::caller();
    let mut bad = vec![];
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    for _ in 0..20000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let float = (seed >> 11) as f64 / (1u64 << 53) as f64;
        let event = Event::CallFinished {
            outcome: Outcome {
                call: CallId::from_bits(1),
                tool: "x".parse().unwrap(),
                attempt: 1,
                started_at: world.now,
                finished_at: world.now,
                result: CallResult::Ok(Output::of_value(json!(float))),
                directives: Directives::default(),
                provenance: Provenance { executor: Executor::Server, trust: Trust::Trusted },
                provider_meta: None,
                extra: serde_json::Map::new(),
            },
        };
        let text = serde_json::to_string(&event).unwrap();
        let back: Event = json::read_stored(text.as_bytes()).unwrap();
        if back != event {
            bad.push(float);
        }
    }
    assert!(
        bad.is_empty(),
        "{} of 20000 floats differ after a round trip, e.g. {:?}",
        bad.len(),
        bad.first()
    );
}

#[test]
fn float_arguments_keep_their_digest_through_the_log() {
    // strict-JSON arguments, as a model would send them
    let mut differ = 0;
    let mut example = String::new();
    for n in 0..200_000u64 {
        let text = format!("{{\"x\":0.{:017}}}", n * 499_999_999_999);
        let Ok(map) = json::parse_object(text.as_bytes(), Default::default()) else {
            continue;
        };
        let arguments = Arguments::plain(map);
        let stored = serde_json::to_string(&arguments).unwrap();
        let back: Arguments = json::read_stored(stored.as_bytes()).unwrap();
        if Arguments::plain(back.record().clone()).digest() != back.digest() {
            differ += 1;
            example = text;
        }
    }
    assert_eq!(
        differ, 0,
        "{differ} arguments no longer match their digest after revival, e.g. {example}"
    );
}

#[test]
fn a_client_result_is_never_trusted_after_redefinition() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Auto), &json!({}));
    let server = tool("get_location", |_| {});
    let change = ToolChange::Redefined {
        contract: Arc::clone(server.contract()),
        fit: Fit::Fits,
        changes: "now runs here".into(),
    };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::InvalidArgs, "the wait was for other hands");
    assert_eq!(world.outcome(call).unwrap().provenance.trust, Trust::Untrusted);
}

#[test]
fn approving_a_tool_that_the_session_may_no_longer_use_does_not_run_it() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let mut config = Config::clone(&world.open().config);
    config.exposure = Exposure { allow: None, deny: [charge().name.clone()].into() };
    world.input(Input::Reconfigured(Reconfigured { config, by: ann() })).unwrap();
    world.resolve(call, approve()).unwrap();
    assert_eq!(world.executions(call), 0, "a denied tool ran");
}

#[test]
fn a_grant_does_not_run_what_the_session_may_no_longer_use() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let mut config = Config::clone(&world.open().config);
    config.exposure = Exposure { allow: None, deny: [charge().name.clone()].into() };
    world.input(Input::Reconfigured(Reconfigured { config, by: ann() })).unwrap();
    let grant = grant_for(&mut world, &charge());
    world.input(Input::Granted(Granted { grant })).unwrap();
    assert_eq!(world.executions(call), 0, "a denied tool ran by a grant");
}

#[test]
fn a_deny_under_a_reused_resolution_id_is_not_reported_as_recorded() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let yes = world.resolved(call, ann(), approve());
    let mut no = world.resolved(call, bob(), deny());
    no.id = yes.id;
    world.input(Input::Resolved(yes)).unwrap();
    let reply = world.input(Input::Resolved(no));
    assert!(reply.is_err(), "a deny was told {reply:?} though an approval was recorded");
}

#[test]
fn a_second_round_is_resolvable_with_the_same_client_key() {
    let mut world = World::caller();
    let tool = browser(Gate::Ask);
    let call = world.propose(&tool, &json!({}));
    let yes = world.resolved(call, ann(), approve());
    let id = yes.id;
    world.input(Input::Resolved(yes)).unwrap();
    let mut result = world.resolved(
        call,
        ann(),
        Resolution::Result { result: ok("x"), directives: Directives::default(), fit: Fit::Fits },
    );
    result.id = id;
    result.round = Some(2);
    let reply = world.input(Input::Resolved(result)).unwrap();
    assert_eq!(
        (reply, world.outcome(call).is_some()),
        (Reply::Accepted, true),
        "the result was swallowed"
    );
}

#[test]
fn retrying_an_accepted_resolution_after_the_turn_moved_on_is_already_recorded() {
    let mut world = World::model();
    world.say("go").unwrap();
    let call = world.answer(&[&charge()])[0];
    let yes = world.resolved(call, ann(), approve());
    world.input(Input::Resolved(yes.clone())).unwrap();
    world.returns(call, ok("done")).unwrap();
    let reply = world.input(Input::Resolved(yes));
    assert_eq!(reply, Ok(Reply::AlreadyRecorded));
}

#[test]
fn retrying_the_approval_of_a_client_call_after_its_result_is_already_recorded() {
    let mut world = World::caller();
    world.propose(&charge(), &json!({}));
    let call = world.propose(&browser(Gate::Ask), &json!({}));
    let yes = world.resolved(call, ann(), approve());
    world.input(Input::Resolved(yes.clone())).unwrap();
    world
        .resolve(
            call,
            Resolution::Result {
                result: ok("x"),
                directives: Directives::default(),
                fit: Fit::Fits,
            },
        )
        .unwrap();
    assert_eq!(world.input(Input::Resolved(yes)), Ok(Reply::AlreadyRecorded));
}

fn provider() -> ToolSpec {
    tool("web_search", |d| d.executor = Executor::Provider)
}

#[test]
fn an_answer_whose_only_call_the_provider_already_ran_is_the_last_word() {
    let mut world = World::model();
    world.say("go").unwrap();
    let call = world.proposal(&provider(), &json!({}));
    let provider_id = call.provider_id.clone();
    let answer = ModelAnswered {
        turn: 1,
        attempt: 1,
        content: vec![ContentBlock::Text { text: "It rains.".into() }],
        advertised: Arc::new([provider().name.clone()].into()),
        calls: vec![call],
        provider_results: vec![ProviderResult { provider_id, result: ok("rain"), meta: None }],
        narrowed: vec![],
        details: AnswerDetails::default(),
    };
    world.effects.clear();
    world.input(Input::ModelAnswered(answer)).unwrap();
    assert_eq!(world.open().activity, Activity::Idle, "{:?}", world.effects);
}

#[test]
fn a_bystander_cannot_declare_the_owner_dead() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    assert_eq!(world.input_elsewhere(Input::Revived), Err(Refusal::NeedsOwner));
    assert!(matches!(world.phase(call), Phase::Running { .. }));
    let answer = ModelAnswered {
        turn: 1,
        attempt: 1,
        content: vec![],
        advertised: Arc::default(),
        calls: vec![],
        provider_results: vec![],
        narrowed: vec![],
        details: AnswerDetails::default(),
    };
    let answered = world.input_elsewhere(Input::ModelAnswered(answer));
    assert_eq!(answered, Err(Refusal::NeedsOwner));
}

#[test]
fn a_caller_driven_session_is_not_blocked_by_one_waiting_call() {
    let mut world = World::caller();
    world.propose(&charge(), &json!({}));
    for n in 0..200 {
        let call = world.propose(&email(), &json!({ "n": n }));
        assert!(
            world.open().call(call).is_some(),
            "call {n} was rejected: {:?}",
            world.events().last()
        );
        world.returns(call, ok("done")).unwrap();
    }
}

#[test]
fn an_explicitly_unsafe_tool_is_not_rerun_because_of_its_name() {
    let pop = tool("get_next_job", |d| d.facets.idempotency = Some(Idempotency::Unsafe));
    assert_ne!(pop.contract().recovery, Recovery::Rerun);
}

#[test]
fn a_tool_that_may_spend_is_not_rerun() {
    let pay = tool("get_premium_report", |d| d.facets.spend = Some(Spend::Possible));
    assert_ne!(pay.contract().recovery, Recovery::Rerun);
}

#[test]
fn a_tool_that_writes_files_is_not_a_read_by_its_name() {
    let write = tool("get_report", |d| {
        d.facets.fs = Some(FsAccess::ReadWrite { roots: vec!["/w".into()] })
    });
    assert_ne!(write.contract().mutates, Mutates::None);
}

#[test]
fn a_declared_mode_cannot_contradict_declared_facets() {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut d = Definition::new("wipe".parse().unwrap(), "Wipes.", schema);
    d.mode = Some(Mode::Read);
    d.facets.mutates = Some(Mutates::Irreversible);
    assert!(ToolSpec::new(d).is_err());
}

#[test]
fn a_provider_tool_that_policy_asks_about_is_not_allowed() {
    use permission::*;
    let spec = provider();
    let reports = [SourceReport {
        source: Source::Rule("no-search".into()),
        report: Report::Says { verdict: Verdict::Ask, reason: "rule".into() },
    }];
    let derivation = Question {
        contract: spec.contract(),
        arguments: &arguments_of(&json!({})),
        level: Level::Paranoid,
        profile: Default::default(),
        exposure: &Exposure::default(),
        reports: &reports,
        grants: &[],
        now: Timestamp::from_ms(0),
    }
    .derive();
    assert_ne!(derivation.decision, Verdict::Allow, "{derivation:?}");
}

#[test]
fn settling_does_not_run_arguments_that_do_not_fit_the_redefined_tool() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    world.crash();
    let new = mutating("send_email", |d| {
        d.input_schema = Schema::new(r#"{"type":"object","required":["to"]}"#).unwrap()
    });
    let change = ToolChange::Redefined {
        contract: Arc::clone(new.contract()),
        fit: Fit::Misfit { message: "`to` is missing".into() },
        changes: "to".into(),
    };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    let refused = world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap_err();
    assert!(refused.to_string().contains("`to` is missing"), "{refused}");
    assert_eq!(world.executions(call), 0, "ran with arguments that do not fit");
}

#[test]
fn a_redefinition_to_a_gate_asks_before_the_client_runs_it() {
    let mut world = World::caller();
    let call = world.propose(&browser(Gate::Auto), &json!({}));
    let change = ToolChange::Redefined {
        contract: Arc::clone(browser(Gate::AskAlways).contract()),
        fit: Fit::Fits,
        changes: "asks".into(),
    };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    let Phase::Waiting(s) = world.phase(call) else { panic!() };
    assert_eq!(s.kind, SuspensionKind::Approval);
}

/// Two calls of which the second may run and waits for the first.
fn one_ready(tool: &ToolSpec, give: bool) -> (World, CallId) {
    let limits = Limits { parallel: 1, ..Limits::default() };
    let mut world = World::with(Config { driver: Driver::Caller, limits, ..Config::default() });
    if give {
        let grant = grant_for(&mut world, tool);
        world.input(Input::Granted(Granted { grant })).unwrap();
    }
    world.propose(&read(), &json!({}));
    let call = world.propose(tool, &json!({}));
    assert!(matches!(world.phase(call), Phase::Ready { .. }));
    (world, call)
}

#[track_caller]
fn redefined(world: &mut World, call: CallId, tool: &ToolSpec) {
    let contract = Arc::clone(tool.contract());
    let change = ToolChange::Redefined { contract, fit: Fit::Fits, changes: "x".into() };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
}

// The gate is one of the sources that may ask, not the only one.
#[test]
fn a_redefinition_asks_whenever_the_new_tool_would_be_asked_about() {
    let (mut world, call) = one_ready(&email(), false);
    redefined(&mut world, call, &mutating("send_email", |d| d.gate = Gate::Unset));
    let Phase::Waiting(wait) = world.phase(call) else { panic!("it ran unasked") };
    assert_eq!((wait.kind, wait.reason), (SuspensionKind::Approval, SuspendReason::Redefined));

    let (mut world, call) = one_ready(&email(), false);
    redefined(&mut world, call, &mutating("send_email", |d| d.version.major = 2));
    assert!(matches!(world.phase(call), Phase::Ready { .. }), "nobody would be asked");
}

// What a person permitted was the tool as it was.
#[test]
fn a_redefinition_asks_again_about_what_a_person_permitted() {
    let (mut world, call) = one_ready(&charge(), true);
    redefined(&mut world, call, &mutating("charge_card", |d| d.gate = Gate::Auto));
    let Phase::Waiting(wait) = world.phase(call) else { panic!("it ran on an old grant") };
    assert_eq!(wait.reason, SuspendReason::Redefined);
}

#[test]
fn what_is_found_out_for_a_cancelled_call_is_stopped() {
    let edit = mutating("edit_file", |d| {
        d.gate = Gate::Ask;
        d.hooks.insert(Hook::Preview);
    });
    let mut world = World::caller();
    let call = world.propose(&edit, &json!({}));
    world.interrupt().unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Cancelled);
    assert!(world.effects.contains(&Effect::Cancel { call, attempt: 0 }), "{:?}", world.effects);

    let mut world = World::caller();
    let verifiable = mutating("send_email", |d| {
        d.hooks.insert(Hook::Verify);
    });
    let call = world.propose(&verifiable, &json!({}));
    world.crash();
    world.interrupt().unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Interrupted);
    assert!(world.effects.contains(&Effect::Cancel { call, attempt: 1 }), "{:?}", world.effects);
}

#[test]
fn a_settled_rerun_of_a_redefined_client_tool_is_not_executed_by_the_server() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    world.crash();
    let new = mutating("send_email", |d| d.executor = Executor::Client);
    let change = ToolChange::Redefined {
        contract: Arc::clone(new.contract()),
        fit: Fit::Fits,
        changes: "client".into(),
    };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    let refused = world.resolve(call, Resolution::Settle(Settlement::RunAgain)).unwrap_err();
    assert_eq!(refused.code(), "misfit");
    assert_eq!(world.executions(call), 0);
}

#[test]
fn the_reason_survives_a_preview() {
    let mut world = World::caller();
    let edit = mutating("edit_file", |d| {
        d.gate = Gate::Ask;
        d.hooks.insert(Hook::Preview);
    });
    let call = world.propose(&edit, &json!({}));
    let preview = || Preview {
        fingerprint: Digest::of_bytes(b"1"),
        targets: vec![],
        diff: None,
        trouble: None,
    };
    world.input(Input::Previewed(Previewed { call, preview: preview() })).unwrap();
    let change = ToolChange::Redefined {
        contract: Arc::clone(edit.contract()),
        fit: Fit::Fits,
        changes: "x".into(),
    };
    world.input(Input::ToolChanged(ToolChanged { call, change })).unwrap();
    world.input(Input::Previewed(Previewed { call, preview: preview() })).unwrap();
    let Phase::Waiting(s) = world.phase(call) else { panic!() };
    assert_eq!(s.reason, SuspendReason::Redefined);
}

#[test]
fn a_message_sent_twice_is_delivered_once() {
    let mut world = World::model();
    world.say("one").unwrap();
    let m = MessageArrived { message: MessageId::from_bits(9), from: ann(), content: vec![] };
    world.input(Input::MessageArrived(m.clone())).unwrap();
    assert_eq!(world.input(Input::MessageArrived(m)), Ok(Reply::AlreadyRecorded));
    assert_eq!(world.open().inbox.len(), 1);
}

#[test]
fn waiting_max_counts_previews() {
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    config.limits.waiting_max = 1;
    let mut world = World::with(config);
    let edit = mutating("edit_file", |d| {
        d.gate = Gate::Ask;
        d.hooks.insert(Hook::Preview);
    });
    let calls = (0..3).map(|n| world.proposal(&edit, &json!({ "n": n }))).collect();
    world.input(Input::CallsProposed(CallsProposed { calls })).unwrap();
    assert_eq!(world.open().calls().count(), 1);
}

#[test]
fn a_full_waiting_room_does_not_refuse_a_read() {
    let mut config = Config { driver: Driver::Caller, ..Config::default() };
    config.limits.waiting_max = 1;
    let mut world = World::with(config);
    world.propose(&charge(), &json!({}));
    let call = world.propose(&read(), &json!({}));
    assert!(world.open().call(call).is_some(), "{:?}", world.events().last());
}

#[test]
fn a_possibly_applied_keyed_call_that_is_stopped_is_not_called_merely_cancelled() {
    let keyed = mutating("charge_keyed", |d| {
        d.facets.idempotency = Some(Idempotency::Keyed);
        d.retry = Retry { max_attempts: 3, ..Retry::default() };
    });
    let mut world = World::caller();
    let call = world.propose(&keyed, &json!({}));
    world.returns(call, err(ErrorClass::Timeout)).unwrap();
    world.interrupt().unwrap();
    let failure = world.failure(call);
    assert_ne!((failure.class, failure.message.as_str()), (ErrorClass::Cancelled, "[cancelled]"));
}

#[test]
fn amounts_never_panic() {
    let far = "1.1234567890123e-2147483648".parse::<permission::Amount>();
    assert!(far.is_err());
}

#[test]
fn evolve_refuses_a_log_with_the_last_turn_number() {
    let opened = Event::SessionOpened {
        session: SessionId::from_bits(1),
        config: Arc::new(Config::default()),
        by: ann(),
        parent: None,
    };
    let state = evolve(State::Unopened, Timestamp::from_ms(0), &opened).unwrap();
    let mut v: Value = serde_json::to_value(&state).unwrap();
    v["open"]["turn"] = json!(u32::MAX);
    let state: State = serde_json::from_value(v).unwrap();
    let next = Event::TurnStarted { turn: 1, messages: vec![], wakes: vec![] };
    assert!(evolve(state, Timestamp::from_ms(0), &next).is_err());
}

#[test]
fn a_log_of_another_session_is_not_folded() {
    let mut head = journal::Head::EMPTY;
    let opened = Event::SessionOpened {
        session: SessionId::from_bits(1),
        config: Arc::new(Config::default()),
        by: ann(),
        parent: None,
    };
    let a = head.append(SessionId::from_bits(2), Timestamp::from_ms(0), &opened).unwrap();
    let b = head
        .append(SessionId::from_bits(3), Timestamp::from_ms(0), &Event::SessionEnded {})
        .unwrap();
    let mut check = journal::Head::EMPTY;
    let verified = check.verify(&a).and_then(|()| check.verify(&b));
    let replayed = journal::replay(State::Unopened, [&a, &b]);
    assert!(verified.is_err() || replayed.is_err());
}

#[test]
fn a_grant_does_not_cover_a_tool_that_can_now_do_more() {
    let base = mutating("refund", |d| d.gate = Gate::Ask);
    let more = mutating("refund", |d| {
        d.gate = Gate::Ask;
        d.facets.spend = Some(Spend::Possible);
        d.facets.process = Some(ProcessUse::Starts);
        d.facets.fs = Some(FsAccess::ReadWrite { roots: vec!["/".into()] });
    });
    assert_ne!(base.contract().digest, more.contract().digest);
}

#[test]
fn ids_of_another_kind_and_huge_ids_are_refused() {
    let session = SessionId::from_bits(5).to_string();
    assert!(session.parse::<CallId>().is_err());
    for bad in [
        "call_",
        "call_ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "call_0000000000000000000000000I",
        "CALL_00000000000000000000000001",
        "call_00000000000000000000000001 ",
        "call_000000000000000000000000001",
    ] {
        assert!(bad.parse::<CallId>().is_err(), "{bad}");
    }
    let max = CallId::from_bits(u128::MAX);
    assert_eq!(max.to_string().parse::<CallId>().unwrap(), max);
}

#[test]
fn stored_moments_never_panic() {
    for ms in [i64::MAX, i64::MIN] {
        let t: Timestamp = serde_json::from_value(json!(ms)).unwrap();
        assert!(!(t + Millis(u64::MAX)).to_string().is_empty());
        assert!(!t.to_string().is_empty());
        assert!(Timestamp::from_ms(0).since(t) <= Millis(u64::MAX));
    }
}

#[test]
fn a_call_id_of_an_earlier_turn_is_not_used_again() {
    let mut world = World::caller();
    let first = world.proposal(&email(), &json!({}));
    world.input(Input::CallsProposed(CallsProposed { calls: vec![first.clone()] })).unwrap();
    world.returns(first.id, ok("1")).unwrap();
    assert!(
        world.input(Input::CallsProposed(CallsProposed { calls: vec![first] })).is_err(),
        "one call id, two executions"
    );
}

#[test]
fn used_up_grants_do_not_pile_up() {
    let mut world = World::caller();
    for n in 0..100 {
        let grant = one_use(&mut world, &charge());
        world.input(Input::Granted(Granted { grant })).unwrap();
        let call = world.propose(&charge(), &json!({ "n": n }));
        world.returns(call, ok("x")).unwrap();
    }
    assert!(
        world.open().grants().len() < 10,
        "{} dead grants in the state",
        world.open().grants().len()
    );
}

#[test]
fn a_grant_of_zero_conditions_on_a_masked_secret_is_not_met_by_the_mask() {
    let redaction = Redaction { secret: vec!["/to".parse().unwrap()] };
    let seal = Seal { id: SealId::from_bits(1), salt: [1; 32] };
    let args = Arguments::sealed(json!({"to": "mallory"}).as_object().unwrap(), &redaction, seal);
    let mut world = World::caller();
    let mut grant = grant_for(&mut world, &charge());
    grant.when = vec![permission::Condition {
        field: "/to".parse().unwrap(),
        test: permission::Test::Equals(args.record()["to"].clone()),
    }];
    assert!(
        grant.covers(charge().contract(), &args, world.now).is_err(),
        "a condition on a secret is tested against the mask"
    );
}

#[test]
fn a_revoked_grant_no_longer_starts_a_call_that_waits_its_turn() {
    let mut world = World::with(Config {
        driver: Driver::Caller,
        limits: Limits { parallel: 1, ..Limits::default() },
        ..Config::default()
    });
    let grant = grant_for(&mut world, &charge());
    let id = grant.id;
    world.input(Input::Granted(Granted { grant })).unwrap();
    let runs = world.propose(&email(), &json!({}));
    let waits = world.propose(&charge(), &json!({}));
    world.input(Input::GrantRevoked(GrantRevoked { grant: id, by: ann() })).unwrap();
    world.returns(runs, ok("x")).unwrap();
    assert_eq!(world.executions(waits), 0, "it ran after its permission was taken back");
}

#[test]
fn a_tightened_exposure_stops_a_ready_call() {
    let mut world = World::with(Config {
        driver: Driver::Caller,
        limits: Limits { parallel: 1, ..Limits::default() },
        ..Config::default()
    });
    let runs = world.propose(&email(), &json!({}));
    let waits = world.propose(&mutating("wipe", |_| {}), &json!({}));
    let mut config = Config::clone(&world.open().config);
    config.exposure = Exposure { allow: None, deny: ["wipe".parse().unwrap()].into() };
    world.input(Input::Reconfigured(Reconfigured { config, by: ann() })).unwrap();
    world.returns(runs, ok("x")).unwrap();
    assert_eq!(world.executions(waits), 0, "it ran after the session lost the tool");
}

#[test]
fn a_verify_hook_that_kills_its_process_is_not_asked_for_ever() {
    let tool = mutating("charge_verifiable", |d| {
        d.hooks.insert(Hook::Verify);
    });
    let mut world = World::caller();
    let call = world.propose(&tool, &json!({}));
    for _ in 0..20 {
        world.crash();
    }
    assert!(
        !matches!(world.phase(call), Phase::Verifying { .. }),
        "asked 20 times, every time fatal"
    );
}

#[test]
fn a_model_turn_that_kills_its_process_is_not_retried_for_ever() {
    let mut world = World::model();
    world.say("x").unwrap();
    for _ in 0..20 {
        world.crash();
    }
    assert!(
        !matches!(world.open().activity, Activity::Thinking { .. }),
        "{:?}",
        world.open().activity
    );
}

#[test]
fn client_directives_do_not_end_the_run() {
    // S4-28: never used for a privileged decision.
    let mut world = World::model();
    world.say("x").unwrap();
    let call = world.answer(&[&browser(Gate::Auto)])[0];
    let directives = Directives { terminal: Some(true), ..Directives::default() };
    world
        .resolve(call, Resolution::Result { result: ok("x"), directives, fit: Fit::Fits })
        .unwrap();
    assert_ne!(world.open().activity, Activity::Idle, "an untrusted client ended the run");
}

#[test]
fn an_agent_cannot_interrupt_or_cancel() {
    let mut world = World::caller();
    let call = world.propose(&charge(), &json!({}));
    let r = world.input(Input::CallCancelled(CallCancelled { call, by: agent(), note: None }));
    assert!(r.is_err());
}

// A process that was only slow, not dead: its own word settles the doubt.
#[test]
fn a_late_true_report_settles_a_call_in_doubt() {
    let mut world = World::caller();
    let call = world.propose(&email(), &json!({}));
    world.crash();
    let report = AttemptReport::Returned(Returned::from(ok("sent after all")));
    let ended = AttemptEnded { call, attempt: 1, report };
    world.input(Input::AttemptEnded(ended.clone())).unwrap();
    assert!(world.outcome(call).unwrap().is_ok());
    assert_eq!(world.input(Input::AttemptEnded(ended)).unwrap_err().code(), "stale");
}

#[test]
fn a_model_that_failed_can_be_asked_again_without_a_new_message() {
    let mut world = World::model();
    assert_eq!(world.input(Input::TurnAsked(TurnAsked { by: ann() })), Err(Refusal::Busy));
    world.say("go").unwrap();
    let failure = Failure::new(ErrorClass::RateLimited, "later");
    world
        .input(Input::ModelFailed(ModelFailed { turn: 1, attempt: 1, failure, broke_off: false }))
        .unwrap();
    world.input(Input::TurnAsked(TurnAsked { by: ann() })).unwrap();
    assert_eq!(world.open().activity, Activity::Thinking { attempt: 1 });
}
