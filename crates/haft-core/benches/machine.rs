//! What one call costs the machine, from request to outcome, beside a floor in the same run.
//!
//! The floor is what nobody can do without: writing the call's JSON once and hashing it.

use std::collections::BTreeSet;
use std::sync::Arc;

use divan::{Bencher, black_box};
use haft_core::journal::Head;
use haft_core::session::{
    AnswerDetails, AttemptEnded, AttemptReport, CallsProposed, Check, Config, Driver, Input,
    ModelAnswered, Opened, PolicyFacts, Proposal, Resolution, Resolved, Returned, SoundCall, State,
    decide, evolve,
};
use haft_core::tool::{Definition, Gate, Schema, ToolSpec};
use haft_core::{
    Actor, Arguments, CallId, CallResult, Digest, Output, ProviderCallId, ResolutionId, SessionId,
    Timestamp,
};
use serde_json::json;

fn main() {
    divan::main();
}

const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);

fn tool(gate: Gate) -> ToolSpec {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}}}"#;
    let schema = Schema::new(schema).unwrap_or_else(|error| panic!("{error}"));
    let name = "get_weather".parse().unwrap_or_else(|error| panic!("{error}"));
    let mut definition = Definition::new(name, "Current weather for a city.", schema);
    definition.gate = gate;
    ToolSpec::new(definition).unwrap_or_else(|error| panic!("{error}"))
}

fn arguments() -> Arguments {
    let value = json!({"city": "Oslo", "unit": "celsius", "days": 3});
    Arguments::plain(value.as_object().cloned().unwrap_or_default())
}

fn step(state: &mut State, input: Input) -> usize {
    let decision = decide(state, NOW, input).unwrap_or_else(|error| panic!("{error}"));
    *state = decision.state;
    decision.events.len() + decision.effects.len()
}

fn opened(driver: Driver) -> State {
    let config = Config { driver, ..Config::default() };
    let opened = Opened { session: SessionId::from_bits(1), config, by: Actor::system() };
    let mut state = State::Unopened;
    step(&mut state, Input::Opened(opened));
    state
}

fn proposal(spec: &ToolSpec, id: u128) -> Proposal {
    Proposal {
        id: CallId::from_bits(id),
        provider_id: ProviderCallId::new("toolu_1").unwrap_or_else(|error| panic!("{error}")),
        name: spec.name.to_string(),
        check: Check::Sound(SoundCall {
            contract: Arc::clone(spec.contract()),
            arguments: arguments(),
            policy: PolicyFacts::default(),
            grants: Vec::new(),
        }),
    }
}

fn ended(call: CallId) -> Input {
    let returned = Returned::from(CallResult::Ok(Output::of_text("sunny")));
    Input::AttemptEnded(AttemptEnded {
        call,
        attempt: 1,
        report: AttemptReport::Returned(returned),
    })
}

#[divan::bench]
fn floor_write_and_hash_the_arguments(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| {
        Digest::of_bytes(black_box(json!({"city": "Oslo"})).to_string().as_bytes())
    });
}

/// Request to outcome of one ungated call: two decisions, five events.
#[divan::bench]
fn one_call_request_to_outcome(bencher: Bencher<'_, '_>) {
    let (spec, state) = (tool(Gate::Auto), opened(Driver::Caller));
    bencher.bench_local(|| {
        let mut state = state.clone();
        let calls = vec![proposal(&spec, 7)];
        step(&mut state, Input::CallsProposed(CallsProposed { calls }));
        step(&mut state, ended(CallId::from_bits(7)));
        state
    });
}

/// The same with a gate: proposed, suspended, approved, run.
#[divan::bench]
fn one_gated_call_request_to_outcome(bencher: Bencher<'_, '_>) {
    let (spec, state) = (tool(Gate::Ask), opened(Driver::Caller));
    bencher.bench_local(|| {
        let mut state = state.clone();
        let call = CallId::from_bits(7);
        step(&mut state, Input::CallsProposed(CallsProposed { calls: vec![proposal(&spec, 7)] }));
        let resolution = Resolution::Approve { edit: None, note: None, grant: None };
        let id = ResolutionId::from_bits(1);
        let policy = PolicyFacts::default();
        let by = Actor::system();
        let resolved = Resolved { id, call, round: None, by, resolution, policy };
        step(&mut state, Input::Resolved(resolved));
        step(&mut state, ended(call));
        state
    });
}

/// The journal's part: the events of one call as chained entries, and folded back from text.
#[divan::bench]
fn one_call_journalled_and_replayed(bencher: Bencher<'_, '_>) {
    let (spec, state) = (tool(Gate::Auto), opened(Driver::Caller));
    bencher.bench_local(|| {
        let calls = vec![proposal(&spec, 7)];
        let input = Input::CallsProposed(CallsProposed { calls });
        let decision = decide(&state, NOW, input).unwrap_or_else(|error| panic!("{error}"));
        let mut head = Head::EMPTY;
        decision.events.iter().fold(state.clone(), |state, event| {
            let entry = head.append(SessionId::from_bits(1), NOW, event);
            let entry = entry.unwrap_or_else(|error| panic!("{error}"));
            let event = entry.event().unwrap_or_else(|error| panic!("{error}"));
            evolve(state, entry.at, &event).unwrap_or_else(|error| panic!("{error}"))
        })
    });
}

/// A turn of sixteen calls, proposed by a model at once.
#[divan::bench]
fn sixteen_calls_proposed_at_once(bencher: Bencher<'_, '_>) {
    let spec = tool(Gate::Auto);
    let mut state = opened(Driver::Model);
    let message = haft_core::session::MessageArrived {
        message: haft_core::MessageId::from_bits(1),
        from: Actor::system(),
        content: Vec::new(),
    };
    step(&mut state, Input::MessageArrived(message));
    let advertised = Arc::new(BTreeSet::from([spec.name.clone()]));
    bencher.bench_local(|| {
        let mut state = state.clone();
        let mut calls: Vec<_> = (0..16).map(|n| proposal(&spec, n)).collect();
        for (n, call) in calls.iter_mut().enumerate() {
            let id = ProviderCallId::new(format!("toolu_{n}"));
            call.provider_id = id.unwrap_or_else(|error| panic!("{error}"));
        }
        let answer = ModelAnswered {
            turn: 1,
            attempt: 1,
            content: Vec::new(),
            advertised: Arc::clone(&advertised),
            calls,
            provider_results: Vec::new(),
            narrowed: vec![],
            details: AnswerDetails::default(),
        };
        step(&mut state, Input::ModelAnswered(answer));
        state
    });
}
