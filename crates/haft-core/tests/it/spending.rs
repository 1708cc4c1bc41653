//! Limits on what is spent: counted before anything runs, and fail closed.

use crate::world::{
    World, ann, approve, arguments_of, delegation, deny, err, mutating, ok, question, tool,
};
use haft_core::journal::replay;
use haft_core::session::{
    Allowance, AttemptEnded, AttemptReport, Config, Decided, Delegation, Driver, Edit, Event, Fit,
    Input, Limits, Phase, Reconfigured, Refusal, RejectReason, Rejection, Resolution, State,
    ToolChange, ToolChanged,
};
use haft_core::tool::{
    Cost, Definition, Facets, Gate, Mutates, Ownership, Retry, Spend, Told, ToolSpec, Unit,
};
use haft_core::{CallId, ErrorClass};
use proptest::prelude::*;
use serde_json::{Value, json};

fn unit(name: &str) -> Unit {
    name.parse().unwrap()
}

fn allowance(units: &[(&str, &str)]) -> Option<Allowance> {
    Some(units.iter().map(|(name, most)| (unit(name), most.parse().unwrap())).collect())
}

fn priced(name: &str, gate: Gate) -> ToolSpec {
    mutating(name, |d| {
        d.gate = gate;
        d.facets.spend = Some(Spend::Possible);
        d.cost = Some(Cost {
            amount: Told::Field("/amount".parse().unwrap()),
            unit: Told::Field("/currency".parse().unwrap()),
        });
    })
}

fn pay() -> ToolSpec {
    priced("pay", Gate::Auto)
}

fn with(limits: Limits) -> World {
    World::with(Config { driver: Driver::Caller, limits, ..Config::default() })
}

fn per_session(units: &[(&str, &str)]) -> World {
    with(Limits { spend_per_session: allowance(units), ..Limits::default() })
}

fn euros(amount: u32) -> Value {
    json!({"amount": amount, "currency": "EUR"})
}

fn runs(world: &World, call: CallId) -> bool {
    matches!(world.open().call(call).map(|call| &call.phase), Some(Phase::Running { .. }))
}

fn spent(world: &World) -> String {
    world.open().spent_in_session(&unit("EUR")).to_string()
}

#[track_caller]
fn rejected(world: &World, id: CallId) -> Rejection {
    let found = world.events().into_iter().find_map(|event| match event {
        Event::CallRejected { call, rejection, .. } if call == id => Some(rejection),
        _ => None,
    });
    let rejection = found.expect("the call is refused in the log");
    assert_eq!(rejection.reason, RejectReason::Limit);
    rejection
}

#[test]
fn what_calls_spend_together_stays_within_the_limit_of_the_session_and_of_the_run() {
    let mut world = with(Limits {
        spend_per_run: allowance(&[("EUR", "30")]),
        spend_per_session: allowance(&[("EUR", "50"), ("USD", "5")]),
        ..Limits::default()
    });
    let first = world.propose(&pay(), &euros(20));
    let second = world.propose(&pay(), &json!({"amount": 10.000000001, "currency": "EUR"}));
    assert!(runs(&world, first) && !runs(&world, second));
    let told = rejected(&world, second).message;
    let expected = "expected to spend at most 10 EUR more, found 10.000000001";
    assert!(told.starts_with(expected), "{told}");
    world.returns(first, ok("paid")).unwrap();
    let next_run = world.propose(&pay(), &euros(30));
    assert!(runs(&world, next_run), "the run is another one");
    world.returns(next_run, ok("paid")).unwrap();
    let over_all = world.propose(&pay(), &euros(1));
    assert!(!runs(&world, over_all) && spent(&world) == "50");
    let dollars = world.propose(&pay(), &json!({"amount": 1, "currency": "USD"}));
    assert!(!runs(&world, dollars), "both limits must name a unit");
}

// Fail closed: what cannot be told is not run, whatever the gate says.
#[test]
fn a_call_whose_price_nobody_can_tell_is_refused_under_a_limit() {
    let untold = mutating("order", |d| {
        d.gate = Gate::Auto;
        d.facets.spend = Some(Spend::Possible);
    });
    let unclassified = tool("frobnicate", |d| d.gate = Gate::Auto);
    let harmless = mutating("note", |d| d.gate = Gate::Auto);
    let calls = [
        (untold.clone(), json!({})),
        (unclassified, json!({})),
        (pay(), json!({"currency": "EUR"})),
        (pay(), json!({"amount": "3", "currency": "EUR"})),
        (pay(), json!({"amount": -3, "currency": "EUR"})),
        (pay(), json!({"amount": 1e-12, "currency": "EUR"})),
        (pay(), json!({"amount": {"$ref": "art_1#/amount"}, "currency": "EUR"})),
        (pay(), json!({"amount": 3, "currency": "eur"})),
        (pay(), json!({"amount": 3, "currency": 7})),
        (pay(), json!({"amount": 3})),
    ];
    let mut world = per_session(&[("EUR", "100")]);
    for (tool, arguments) in &calls {
        let call = world.propose(tool, arguments);
        assert!(!runs(&world, call), "{arguments}");
        assert!(!rejected(&world, call).message.is_empty());
    }
    assert_eq!(spent(&world), "0");
    let call = world.propose(&harmless, &json!({}));
    assert!(runs(&world, call), "what does not spend is not limited");
    let mut free = World::caller();
    let call = free.propose(&untold, &json!({}));
    assert!(runs(&free, call), "without a limit nobody need tell");
}

// A question costs nothing, so asking is what a session without money can still do.
#[test]
fn a_question_to_a_person_is_asked_under_a_limit() {
    let mut world = per_session(&[("EUR", "1")]);
    let asked = world.propose(&question(), &json!({}));
    assert!(matches!(world.phase(asked), Phase::Waiting(_)), "{:?}", world.phase(asked));
}

// Another server's word, or a harmless name, is no price.
#[test]
fn a_mounted_tool_that_nobody_priced_is_refused_under_a_limit() {
    let mounted = |name: &str, mutates: Option<Mutates>| {
        tool(name, |d| {
            d.ownership = Ownership::Mcp;
            d.gate = Gate::Auto;
            d.facets.mutates = mutates;
        })
    };
    let tools = [
        mounted("get_weather", None),
        mounted("get_time", Some(Mutates::None)),
        mounted("delete_everything", Some(Mutates::Irreversible)),
    ];
    for spec in tools {
        let mut world = per_session(&[("EUR", "1")]);
        let call = world.propose(&spec, &json!({}));
        assert!(!runs(&world, call), "{}", spec.name);
        let message = rejected(&world, call).message;
        assert!(message.contains("may spend"), "{message}");
        let priced = Definition::clone(&spec);
        let priced = ToolSpec::new(Definition {
            facets: Facets { spend: Some(Spend::None), ..priced.facets.clone() },
            ..priced
        });
        let call = world.propose(&priced.unwrap(), &json!({}));
        assert!(runs(&world, call), "whoever mounts it may say that it spends nothing");
    }
}

#[test]
fn calls_that_wait_for_a_yes_are_counted_and_let_go_when_they_never_ran() {
    let ask = priced("ask_pay", Gate::Ask);
    let mut world = per_session(&[("EUR", "10")]);
    let first = world.propose(&ask, &euros(6));
    let second = world.propose(&ask, &euros(6));
    assert!(matches!(world.phase(first), Phase::Waiting(_)));
    rejected(&world, second);
    world.resolve(first, deny()).unwrap();
    assert_eq!(spent(&world), "0");
    let third = world.propose(&ask, &euros(6));
    world.resolve(third, approve()).unwrap();
    world.returns(third, err(ErrorClass::Upstream)).unwrap();
    assert_eq!(spent(&world), "6", "nobody knows what a failed call has spent");
}

#[test]
fn an_approver_can_edit_a_price_only_within_the_limit() {
    let ask = priced("ask_pay", Gate::Ask);
    let mut world = per_session(&[("EUR", "10")]);
    let call = world.propose(&ask, &euros(6));
    let edit = |amount| {
        let edit = Edit { arguments: arguments_of(&euros(amount)), fit: Fit::Fits };
        Resolution::Approve { edit: Some(edit), note: None, grant: None }
    };
    let refused = world.resolve(call, edit(11)).unwrap_err();
    assert!(matches!(refused, Refusal::Misfit { .. }), "{refused}");
    assert!(matches!(world.phase(call), Phase::Waiting(_)), "the call still waits");
    world.resolve(call, edit(10)).unwrap();
    assert!(runs(&world, call) && spent(&world) == "10");
}

#[test]
fn a_limit_that_was_lowered_holds_for_what_already_waits() {
    let ask = priced("ask_pay", Gate::Ask);
    let mut world = per_session(&[("EUR", "10")]);
    let call = world.propose(&ask, &euros(6));
    let limits = Limits { spend_per_session: allowance(&[("EUR", "5")]), ..Limits::default() };
    let config = Config { limits, ..Config::clone(&world.open().config) };
    world.input(Input::Reconfigured(Reconfigured { config, by: ann() })).unwrap();
    let refused = world.resolve(call, approve()).unwrap_err();
    assert_eq!(refused.code(), "misfit");
    world.resolve(call, deny()).unwrap();
    assert_eq!(spent(&world), "0");
}

#[test]
fn a_tool_that_became_dearer_while_its_call_waited_is_counted_anew() {
    let ask = priced("ask_pay", Gate::Ask);
    let dearer = |always: &str| {
        mutating("ask_pay", |d| {
            d.gate = Gate::Ask;
            d.facets.spend = Some(Spend::Possible);
            let amount = Told::Always(always.parse().unwrap());
            d.cost = Some(Cost { amount, unit: Told::Always(unit("EUR")) });
        })
    };
    let changed = |call, always| {
        let (contract, changes) = (dearer(always).contract().clone(), "its price".to_owned());
        let change = ToolChange::Redefined { contract, fit: Fit::Fits, changes };
        Input::ToolChanged(ToolChanged { call, change })
    };
    let mut world = per_session(&[("EUR", "10")]);
    let call = world.propose(&ask, &euros(6));
    world.input(changed(call, "9")).unwrap();
    assert_eq!(spent(&world), "9");
    world.input(changed(call, "11")).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Policy);
    assert_eq!(spent(&world), "0");
}

fn delegate() -> ToolSpec {
    mutating("delegate", |d| d.gate = Gate::Auto)
}

fn gives(world: &mut World, call: CallId, limits: Limits) -> Limits {
    let config = Config { limits, ..Config::default() };
    let given = Delegation { config, ..delegation() };
    let report = AttemptReport::Delegated(given.into());
    world.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
    let child = world.open().call(call).unwrap().child.clone().unwrap();
    child.config.limits.clone()
}

// S3-37: children together spend no more than their parent may.
#[test]
fn s3_37_a_child_spends_what_is_set_aside_for_it_and_its_parent_then_has_less() {
    let mut world = per_session(&[("EUR", "10"), ("USD", "3")]);
    let aside = |units| Limits { spend_per_session: allowance(units), ..Limits::default() };
    let first = world.propose(&delegate(), &json!({}));
    let given = gives(&mut world, first, aside(&[("EUR", "7"), ("CHF", "9")]));
    assert_eq!(given.spend_per_session, allowance(&[("EUR", "7")]));
    let second = world.propose(&delegate(), &json!({"n": 2}));
    let given = gives(&mut world, second, aside(&[("EUR", "7")]));
    assert_eq!(given.spend_per_session, allowance(&[("EUR", "3")]));
    let third = world.propose(&delegate(), &json!({"n": 3}));
    let given = gives(&mut world, third, Limits::default());
    assert_eq!(given.spend_per_session, allowance(&[]), "nothing was set aside for it");
    let own = world.propose(&pay(), &euros(1));
    rejected(&world, own);
}

#[test]
fn attempts_are_made_again_only_as_often_as_the_run_allows() {
    let flaky = mutating("sync", |d| {
        d.gate = Gate::Auto;
        d.facets.idempotency = Some(haft_core::tool::Idempotency::Idempotent);
        d.retry = Retry { max_attempts: 9, ..Retry::default() };
        d.retry.on.insert(ErrorClass::Upstream);
    });
    let mut world = with(Limits { retries_per_run: Some(2), ..Limits::default() });
    let call = world.propose(&flaky, &json!({}));
    for _ in 0..2 {
        world.returns(call, err(ErrorClass::Upstream)).unwrap();
        let Phase::Ready { due: Some(due), .. } = world.phase(call) else { panic!("it retries") };
        world.now = *due;
        world.input(Input::RetryDue(haft_core::session::RetryDue { call })).unwrap();
    }
    world.returns(call, err(ErrorClass::Upstream)).unwrap();
    assert_eq!(world.failure(call).class, ErrorClass::Upstream);
}

#[derive(Debug, Clone)]
enum Step {
    Pay(u32),
    Ask(u32),
    Approve(usize),
    ApproveFor(usize, u32),
    Deny(usize),
    Return(usize),
    Fail(usize),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..40u32).prop_map(Step::Pay),
        (0..40u32).prop_map(Step::Ask),
        (0..8usize).prop_map(Step::Approve),
        (0..8usize, 0..60u32).prop_map(|(pick, amount)| Step::ApproveFor(pick, amount)),
        (0..8usize).prop_map(Step::Deny),
        (0..8usize).prop_map(Step::Return),
        (0..8usize).prop_map(Step::Fail),
        Just(Step::Crash),
    ]
}

/// What does not apply is refused, and changes nothing.
fn perform(world: &mut World, step: &Step) {
    let picked = |world: &World, pick: usize| {
        let calls: Vec<_> = world.open().calls().map(|call| call.id).collect();
        calls.get(pick % calls.len().max(1)).copied()
    };
    let _refused = match step {
        Step::Pay(amount) => {
            world.propose(&pay(), &euros(*amount));
            None
        }
        Step::Ask(amount) => {
            world.propose(&priced("ask_pay", Gate::Ask), &euros(*amount));
            None
        }
        Step::Approve(pick) => picked(world, *pick).map(|call| world.resolve(call, approve())),
        Step::ApproveFor(pick, amount) => picked(world, *pick).map(|call| {
            let edit = Edit { arguments: arguments_of(&euros(*amount)), fit: Fit::Fits };
            let edited = Resolution::Approve { edit: Some(edit), note: None, grant: None };
            world.resolve(call, edited)
        }),
        Step::Deny(pick) => picked(world, *pick).map(|call| world.resolve(call, deny())),
        Step::Return(pick) => picked(world, *pick).map(|call| world.returns(call, ok("paid"))),
        Step::Fail(pick) => {
            picked(world, *pick).map(|call| world.returns(call, err(ErrorClass::Upstream)))
        }
        Step::Crash => {
            world.crash();
            None
        }
    };
}

/// What the log says was started, each call once, with the arguments that ran.
fn started(events: &[Event]) -> u64 {
    let mut arguments = std::collections::BTreeMap::new();
    let mut ran = std::collections::BTreeMap::new();
    for event in events {
        match event {
            Event::CallProposed { call, arguments: with, .. } => {
                arguments.insert(*call, with.record()["amount"].as_u64().unwrap());
            }
            Event::CallResolved {
                call,
                decision: Decided::Approve { arguments: Some(with), .. },
                ..
            } => {
                arguments.insert(*call, with.record()["amount"].as_u64().unwrap());
            }
            Event::CallStarted { call, .. } => {
                ran.insert(*call, arguments[call]);
            }
            _ => {}
        }
    }
    ran.values().sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // Whatever the order of proposals, answers and crashes, no more is started than the limit
    // lets, and a session read back from its log counts the same.
    #[test]
    fn no_more_is_ever_started_than_the_limit_lets(
        steps in prop::collection::vec(step(), 1..50),
        most in 0..100u32,
    ) {
        let mut world = per_session(&[("EUR", &most.to_string())]);
        for step in &steps {
            perform(&mut world, step);
            let total = started(&world.events());
            prop_assert!(total <= u64::from(most), "{total} of {most}");
            let counted: u64 = spent(&world).parse().unwrap();
            prop_assert!((total..=u64::from(most)).contains(&counted), "{total}, {counted}");
        }
        let revived = replay(State::Unopened, &world.log).unwrap();
        prop_assert_eq!(revived, world.state);
    }
}
