//! Every (state, input) pair, exercised and written down as a readable table.
//!
//! The table is `tests/golden/transitions.txt`. A change of behaviour shows up there as a
//! difference; a state or input without its row or column fails the test.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use serde_json::json;

use crate::golden::assert_golden;
use crate::world::{
    World, ann, approve, browser, charge, child_opened, delegation, deny, effect_unknown, email,
    grant_for, mutating, offered_grant, ok, pooled, question, read, tool, wake_at,
};
use haft_core::session::{
    Activity, AnswerDetails, AttemptEnded, AttemptReport, CallCancelled, CallsProposed,
    ChildStopped, ClientGone, Config, ContextSummarised, Driver, Ended, Expired, Fit, Goal,
    GoalSet, GrantOffered, GrantRevoked, Granted, Input, Interrupted, Limits, MessageArrived,
    ModelAnswered, ModelFailed, Opened, ParentTold, Phase, PolicyFacts, Preview, Previewed,
    Reconfigured, Report, Resolution, Restored, RetryDue, Returned, Settlement, SlotTaken, State,
    Stopping, Summary, SuspensionKind, ToolChange, ToolChanged, TurnAsked, Verification, Verified,
    WakeCancelled, WakeQueued, Word,
};
use haft_core::tool::{Executor, Gate, Hook, InterruptBehavior};
use haft_core::{
    CallId, Digest, Directives, ErrorClass, Failure, GrantId, MessageId, Millis, Output, SessionId,
};

/// A state with the call that stands in it, if it is a state of a call.
type Row = (World, CallId);
type NamedRow = (&'static str, fn() -> Row);

const ROWS: [NamedRow; 19] = [
    ("unopened", || (World::unopened(), CallId::from_bits(404))),
    ("idle", || (World::model(), CallId::from_bits(404))),
    ("thinking", || {
        let mut world = World::model();
        world.say("go").unwrap();
        (world, CallId::from_bits(404))
    }),
    ("ended", || {
        let mut world = World::model();
        world.input(Input::Ended(Ended { by: ann(), note: None })).unwrap();
        (world, CallId::from_bits(404))
    }),
    ("call previewing", || {
        acting(|world| {
            let edit = mutating("edit_file", |d| {
                d.gate = Gate::Ask;
                d.hooks.insert(Hook::Preview);
            });
            world.answer(&[&edit])[0]
        })
    }),
    ("call waiting for approval", || acting(|world| world.answer(&[&charge()])[0])),
    ("call waiting for elicitation", || acting(|world| world.answer(&[&question()])[0])),
    ("call waiting for client_exec", || acting(|world| world.answer(&[&browser(Gate::Auto)])[0])),
    ("call waiting for settlement", || {
        acting(|world| {
            let call = world.answer(&[&email()])[0];
            world.crash();
            call
        })
    }),
    ("call waiting for child", || acting(|world| world.delegated().0)),
    ("call ready", || {
        let limits = Limits { parallel: 1, ..Limits::default() };
        let mut world = World::with(Config { limits, ..Config::default() });
        world.say("go").unwrap();
        let call = world.answer(&[&email(), &read()])[1];
        (world, call)
    }),
    ("call queued", || acting(|world| world.answer(&[&pooled()])[0])),
    ("call running, block", || acting(|world| world.answer(&[&email()])[0])),
    ("call running, cancel", || acting(|world| world.answer(&[&stoppable()])[0])),
    ("call verifying", || {
        acting(|world| {
            let verifiable = mutating("charge_verifiable", |d| {
                d.hooks.insert(Hook::Verify);
            });
            let call = world.answer(&[&verifiable])[0];
            world.crash();
            call
        })
    }),
    ("call cancelling", || {
        acting(|world| {
            let call = world.answer(&[&stoppable()])[0];
            world.interrupt().unwrap();
            call
        })
    }),
    ("call at the provider", || {
        acting(|world| {
            let search = tool("web_search", |d| d.executor = Executor::Provider);
            world.answer(&[&search])[0]
        })
    }),
    ("call settled, a sibling waits", || {
        acting(|world| {
            let calls = world.answer(&[&charge(), &question()]);
            world.resolve(calls[0], deny()).unwrap();
            calls[0]
        })
    }),
    ("call settled, turn over", || {
        let mut world = World::caller();
        let call = world.propose(&read(), &json!({}));
        world.returns(call, ok("")).unwrap();
        (world, call)
    }),
];

fn acting(make: impl FnOnce(&mut World) -> CallId) -> Row {
    let mut world = World::model();
    world.say("go").unwrap();
    let call = make(&mut world);
    (world, call)
}

fn stoppable() -> haft_core::tool::ToolSpec {
    mutating("do_slowly", |d| d.interrupt = InterruptBehavior::Cancel)
}

type Column = (&'static str, Input);

/// The inputs, as they would come in the row's state: with its turn, attempt and round.
fn inputs(world: &mut World, call: CallId) -> Vec<Column> {
    let mut inputs = session_inputs(world);
    inputs.extend(model_inputs(world));
    inputs.extend(call_inputs(world, call));
    inputs.extend(resolutions(world, call));
    inputs
}

fn session_inputs(world: &mut World) -> Vec<Column> {
    let open = world.state.as_open();
    let config = open.map_or_else(Config::default, |open| Config::clone(&open.config));
    let opened = Opened { session: SessionId::from_bits(7), config: config.clone(), by: ann() };
    let grant = grant_for(world, &charge());
    let cancelled = WakeCancelled { wake: wake_at(world.now).id, by: ann() };
    let revoked = GrantRevoked { grant: GrantId::from_bits(404), by: ann() };
    let goal = Goal::new("ship", None, ["tests pass"]).unwrap();
    let child = SessionId::from_bits(4);
    let report = Report { child, agent: None, seq: 3, word: Word::AtWork };
    vec![
        ("opened", Input::Opened(opened)),
        ("goal set", Input::GoalSet(GoalSet { goal, by: ann() })),
        ("reconfigured", Input::Reconfigured(Reconfigured { config, by: ann() })),
        ("granted", Input::Granted(Granted { grant })),
        ("grant revoked", Input::GrantRevoked(revoked)),
        ("interrupted", Input::Interrupted(Interrupted { by: ann(), note: None })),
        ("ended", Input::Ended(Ended { by: ann(), note: None })),
        ("turn asked", Input::TurnAsked(TurnAsked { by: ann() })),
        ("child opened", Input::ChildOpened(child_opened())),
        ("child stopped", Input::ChildStopped(ChildStopped { child: SessionId::from_bits(4) })),
        ("parent told", Input::ParentTold(ParentTold { turn: 1 })),
        ("child reported", Input::ChildReported(Arc::new(report))),
        ("root told", Input::RootTold),
        ("wake queued", Input::WakeQueued(WakeQueued { wake: wake_at(world.now), by: ann() })),
        ("wake cancelled", Input::WakeCancelled(cancelled)),
        ("restored", Input::Restored(Restored { by: ann(), backed_up_at: None })),
        ("revived", Input::Revived),
        ("woken", Input::Woken),
    ]
}

fn model_inputs(world: &mut World) -> Vec<Column> {
    let message = MessageId::from_bits(world.fresh());
    let proposal = world.proposal(&read(), &json!({"fresh": true}));
    let open = world.state.as_open();
    let turn = open.map_or(1, |open| open.turn);
    let attempt = match open.map(|open| open.activity) {
        Some(Activity::Thinking { attempt }) => attempt,
        _ => 1,
    };
    let arrived = MessageArrived { message, from: ann(), content: vec![] };
    let answered = ModelAnswered {
        turn,
        attempt,
        content: vec![],
        advertised: Arc::new(BTreeSet::from([read().name.clone()])),
        calls: vec![proposal.clone()],
        provider_results: vec![],
        narrowed: vec![],
        details: AnswerDetails::default(),
    };
    let failure = Failure::new(ErrorClass::Upstream, "down");
    let summary = Summary { text: "So far.".into(), through_turn: turn, after_seq: 1, usage: None };
    let summarised = ContextSummarised { turn, attempt, summary };
    vec![
        ("message arrived", Input::MessageArrived(arrived)),
        ("model answered", Input::ModelAnswered(answered)),
        ("context summarised", Input::ContextSummarised(summarised)),
        (
            "model failed",
            Input::ModelFailed(ModelFailed { turn, attempt, failure, broke_off: false }),
        ),
        ("calls proposed", Input::CallsProposed(CallsProposed { calls: vec![proposal] })),
    ]
}

fn call_inputs(world: &World, call: CallId) -> Vec<Column> {
    let found = world.state.as_open().and_then(|open| open.call(call));
    let attempt = found.map_or(1, |call| call.attempts);
    let round = found.map_or(1, |call| call.rounds);
    let contract =
        found.map_or_else(|| Arc::clone(read().contract()), |call| Arc::clone(&call.contract));
    let preview =
        || Preview { fingerprint: Digest::ZERO, targets: vec![], diff: None, trouble: None };
    let ended = |report| Input::AttemptEnded(AttemptEnded { call, attempt, report });
    let changed = |change| Input::ToolChanged(ToolChanged { call, change });
    let redefined = ToolChange::Redefined { contract, fit: Fit::Fits, changes: String::new() };
    let verdict = Verification::Absent;
    let (grant, policy) = (offered_grant(&charge()), PolicyFacts::default());
    vec![
        ("previewed", Input::Previewed(Previewed { call, preview: preview() })),
        ("slot taken", Input::SlotTaken(SlotTaken { call })),
        ("attempt ended", ended(AttemptReport::Returned(Returned::from(ok(""))))),
        ("attempt ended, world moved", ended(AttemptReport::WorldMoved { preview: preview() })),
        ("attempt ended, delegated", ended(AttemptReport::Delegated(delegation().into()))),
        ("attempt ended, unknown", ended(effect_unknown(ErrorClass::Timeout))),
        ("verified absent", Input::Verified(Verified { call, attempt, verdict })),
        ("retry due", Input::RetryDue(RetryDue { call })),
        ("grant offered", Input::GrantOffered(GrantOffered { call, round, grant, policy })),
        ("client gone", Input::ClientGone(ClientGone { call, round })),
        ("call cancelled", Input::CallCancelled(CallCancelled { call, by: ann(), note: None })),
        ("tool gone", changed(ToolChange::Gone)),
        ("tool redefined", changed(redefined)),
        ("expired early", Input::Expired(Expired { call, round })),
        ("expired when due", Input::Expired(Expired { call, round })),
    ]
}

fn resolutions(world: &mut World, call: CallId) -> Vec<Column> {
    let result = ok("");
    let directives = Directives::default();
    let ways = [
        ("resolved: approve", approve()),
        ("resolved: deny", deny()),
        ("resolved: answer", Resolution::Answer { output: Output::of_text(""), fit: Fit::Fits }),
        ("resolved: result", Resolution::Result { result, directives, fit: Fit::Fits }),
        ("resolved: settle", Resolution::Settle(Settlement::RunAgain)),
    ];
    ways.map(|(name, how)| (name, Input::Resolved(world.resolved(call, ann(), how)))).into()
}

/// Names the variant, so that a variant without a column is noticed.
fn variant(input: &Input) -> &'static str {
    match input {
        Input::Opened(_) => "opened",
        Input::MessageArrived(_) => "message arrived",
        Input::ModelAnswered(_) => "model answered",
        Input::ModelFailed(_) => "model failed",
        Input::ContextSummarised(_) => "context summarised",
        Input::WakeQueued(_) => "wake queued",
        Input::WakeCancelled(_) => "wake cancelled",
        Input::ChildOpened(_) => "child opened",
        Input::ChildStopped(_) => "child stopped",
        Input::ParentTold(_) => "parent told",
        Input::ChildReported(_) => "child reported",
        Input::RootTold => "root told",
        Input::CallsProposed(_) => "calls proposed",
        Input::Previewed(_) => "previewed",
        Input::SlotTaken(_) => "slot taken",
        Input::AttemptEnded(_) => "attempt ended",
        Input::Verified(_) => "verified",
        Input::RetryDue(_) => "retry due",
        Input::Resolved(_) => "resolved",
        Input::Expired(_) => "expired",
        Input::ClientGone(_) => "client gone",
        Input::CallCancelled(_) => "call cancelled",
        Input::ToolChanged(_) => "tool changed",
        Input::Interrupted(_) => "interrupted",
        Input::Reconfigured(_) => "reconfigured",
        Input::GoalSet(_) => "goal set",
        Input::Granted(_) => "granted",
        Input::GrantOffered(_) => "grant offered",
        Input::GrantRevoked(_) => "grant revoked",
        Input::Ended(_) => "ended",
        Input::TurnAsked(_) => "turn asked",
        Input::Restored(_) => "restored",
        Input::Revived => "revived",
        Input::Woken => "woken",
    }
}

const VARIANTS: usize = 34;

/// Names the phase, so that a phase without a row is noticed.
fn phase(phase: &Phase) -> &'static str {
    match phase {
        Phase::Proposed => "proposed",
        Phase::Previewing { .. } => "previewing",
        Phase::Waiting(wait) => match wait.kind {
            SuspensionKind::Approval => "waiting for approval",
            SuspensionKind::Elicitation => "waiting for elicitation",
            SuspensionKind::ClientExec => "waiting for client_exec",
            SuspensionKind::Settlement => "waiting for settlement",
            SuspensionKind::Child => "waiting for child",
        },
        phase if phase.is_queued() => "queued",
        Phase::Ready { .. } => "ready",
        Phase::Running { .. } => "running",
        Phase::Verifying { .. } => "verifying",
        Phase::Cancelling { .. } => "cancelling",
        Phase::AtProvider { .. } => "at the provider",
        Phase::Settled { .. } => "settled",
    }
}

/// Every phase in which a call can rest.
const PHASES: [&str; 13] = [
    "previewing",
    "waiting for approval",
    "waiting for elicitation",
    "waiting for client_exec",
    "waiting for settlement",
    "waiting for child",
    "ready",
    "queued",
    "running",
    "verifying",
    "cancelling",
    "at the provider",
    "settled",
];

fn describe(world: &World, call: CallId) -> String {
    let open = match &world.state {
        State::Unopened => return "unopened".into(),
        State::Ended { .. } => return "ended".into(),
        State::Open(open) => open,
    };
    let activity = match (open.activity, open.config.driver) {
        (Activity::Idle, _) => "idle",
        (Activity::Thinking { .. }, _) => "thinking",
        (Activity::Acting, Driver::Model | Driver::Caller) => "acting",
    };
    let stopping = match open.stopping {
        Stopping::No => "",
        Stopping::Turn => ", stopping",
        Stopping::Session => ", ending",
    };
    let call = match open.call(call) {
        Some(call) => format!(", call {}", phase(&call.phase)),
        None => String::new(),
    };
    format!("{activity}{stopping}{call}")
}

#[test]
fn every_pair_of_state_and_input_does_what_the_table_says() {
    let mut table = String::from(
        "What every input does in every state. Generated by tests/it/coverage.rs; see CONTRIBUTING.md.\n",
    );
    let mut variants = BTreeSet::new();
    let mut phases = BTreeSet::new();
    for (row, make) in ROWS {
        let (mut world, call) = make();
        writeln!(table, "\n{row} ({})", describe(&world, call)).unwrap();
        phases.extend(world.state.as_open().and_then(|o| o.call(call)).map(|c| phase(&c.phase)));
        for (column, input) in inputs(&mut world, call) {
            variants.insert(variant(&input));
            let (mut world, call) = make();
            if column == "expired when due" {
                world.wait(Millis::from_secs(8 * 24 * 3600));
            }
            let before = world.log.len();
            let found = match world.input(input) {
                Ok(_) => {
                    let events = world.names_since(before).join(" ");
                    format!("{} [{events}]", describe(&world, call))
                }
                Err(refusal) => format!("refused: {refusal}"),
            };
            assert!(!found.contains("internal:"), "{row}, {column}: {found}");
            writeln!(table, "  {column:<28} {found}").unwrap();
        }
    }
    assert_eq!(variants.len(), VARIANTS, "an input without a column: {variants:?}");
    assert_eq!(phases, PHASES.into(), "a phase without a row");
    assert_golden("transitions.txt", &table);
}
