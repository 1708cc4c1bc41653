//! Whatever happens in whatever order, the invariants hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use crate::world::{
    World, agent_tool, ann, approve, arguments_of, bob, browser, charge, deny, email, err,
    grant_for, mutating, offered_grant, ok, own_work, pooled, question, read, tool, wake_at,
};
use haft_core::permission::{Level, Verdict};
use haft_core::session::{
    Activity, AnswerDetails, AttemptEnded, AttemptReport, CallCancelled, CallsProposed, ClientGone,
    Config, ContextSummarised, Decided, Delegation, Driver, Edit, Effect, EffectUnknown, Ended,
    Event, Expired, Fit, GrantOffered, GrantRevoked, Granted, Input, Limits, MessageRule,
    ModelAnswered, ModelFailed, Phase, PolicyFacts, Preview, Previewed, Proposal, Reconfigured,
    Refusal, Resolution, RetryDue, Settlement, SlotTaken, State, Summary, ToolChange, ToolChanged,
    Verification, Verified, VerifyFinding, Wake, WakeQueued,
};
use haft_core::tool::{
    Concurrency, Executor, Gate, Hook, Idempotency, InterruptBehavior, Recovery, Retry, ToolSpec,
};
use haft_core::{
    Actor, CallId, CallResult, Digest, Directives, ErrorClass, Failure, Millis, Output, SessionId,
    WakeId,
};

/// Something that happens next; numbers pick among what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say,
    Propose(Vec<(usize, u8)>),
    Return(usize, u8),
    /// An attempt ends without a result; whether its code may still run.
    EndUnknown(usize, bool),
    WorldMoves(usize),
    /// A tool gives its work to a child.
    Delegate(usize),
    /// A child says what came of its work.
    ChildTells(usize),
    /// A wake is queued, so many milliseconds ahead.
    Queue(u64),
    /// What the model is shown is shortened.
    Summarise(u32),
    Resolve(usize, u8, Where),
    Expire(usize),
    ClientGoes(usize),
    Retry(usize),
    Verify(usize, u8),
    Preview(usize),
    /// A queued call has a place in its pool.
    TakeSlot(usize),
    ToolChanges(usize, u8),
    CancelCall(usize),
    Interrupt,
    Reconfigure(u8),
    Grant(usize),
    /// A grant that no session keeps covers a call.
    Offer(usize),
    Revoke,
    ModelFails,
    Wake,
    Wait(u64),
    Crash,
    /// A process that was believed dead reports, about its latest attempt or an earlier one.
    LateReport(usize, u32),
    /// The owner starts nothing any more, until another takes over.
    Leave,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Where {
    Owner,
    Elsewhere,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let pick = 0..64usize;
    let places = prop::sample::select(vec![Where::Owner, Where::Elsewhere]);
    prop_oneof![
        3 => Just(Step::Say),
        6 => prop::collection::vec((0..TOOLS, 0..4u8), 0..5).prop_map(Step::Propose),
        6 => (pick.clone(), 0..5u8).prop_map(|(p, how)| Step::Return(p, how)),
        3 => (pick.clone(), any::<bool>()).prop_map(|(p, runs)| Step::EndUnknown(p, runs)),
        1 => pick.clone().prop_map(Step::WorldMoves),
        3 => pick.clone().prop_map(Step::Delegate),
        2 => pick.clone().prop_map(Step::ChildTells),
        1 => (0..400_000u64).prop_map(Step::Queue),
        1 => (0..5u32).prop_map(Step::Summarise),
        6 => (pick.clone(), 0..9u8, places).prop_map(|(p, how, at)| Step::Resolve(p, how, at)),
        2 => pick.clone().prop_map(Step::Expire),
        1 => pick.clone().prop_map(Step::ClientGoes),
        2 => pick.clone().prop_map(Step::Retry),
        2 => (pick.clone(), 0..3u8).prop_map(|(p, verdict)| Step::Verify(p, verdict)),
        3 => pick.clone().prop_map(Step::Preview),
        4 => pick.clone().prop_map(Step::TakeSlot),
        1 => (pick.clone(), 0..3u8).prop_map(|(p, change)| Step::ToolChanges(p, change)),
        1 => pick.clone().prop_map(Step::CancelCall),
        1 => Just(Step::Interrupt),
        1 => (0..4u8).prop_map(Step::Reconfigure),
        1 => (0..TOOLS).prop_map(Step::Grant),
        2 => pick.clone().prop_map(Step::Offer),
        1 => Just(Step::Revoke),
        1 => Just(Step::ModelFails),
        1 => Just(Step::Wake),
        2 => (0..400_000u64).prop_map(Step::Wait),
        3 => Just(Step::Crash),
        2 => (pick, 0..2u32).prop_map(|(p, ago)| Step::LateReport(p, ago)),
    ]
}

/// As [`step`], and the owner may be about to go.
fn step_or_leave() -> impl Strategy<Value = Step> {
    prop_oneof![20 => step(), 1 => Just(Step::Leave)]
}

const TOOLS: usize = 15;

fn tools() -> [ToolSpec; TOOLS] {
    [
        read(),
        email(),
        charge(),
        question(),
        browser(Gate::Auto),
        browser_gated(),
        tool("web_search", |d| d.executor = Executor::Provider),
        mutating("charge_keyed", |d| {
            d.facets.idempotency = Some(Idempotency::Keyed);
            d.retry = Retry { max_attempts: 3, ..Retry::default() };
        }),
        mutating("charge_verifiable", |d| {
            d.hooks.insert(Hook::Verify);
        }),
        mutating("edit_file", |d| {
            d.gate = Gate::AskAlways;
            d.hooks.insert(Hook::Preview);
        }),
        mutating("do_slowly", |d| d.interrupt = InterruptBehavior::Cancel),
        mutating("do_alone", |d| d.concurrency = Concurrency::Exclusive),
        agent_tool(),
        mutating("wire_money", |d| d.gate = Gate::AskTwo),
        pooled(),
    ]
}

fn browser_gated() -> ToolSpec {
    tool("pick_file", |d| {
        d.executor = Executor::Client;
        d.gate = Gate::Ask;
    })
}

pub(crate) fn config() -> impl Strategy<Value = Config> {
    let drivers = prop::sample::select(vec![Driver::Model, Driver::Caller]);
    let rules =
        prop::sample::select(vec![MessageRule::Queue, MessageRule::Steer, MessageRule::Refuse]);
    (drivers, rules, 1..4u32).prop_map(|(driver, on_message, parallel)| {
        let limits = Limits { parallel, calls_per_turn: 6, turns_per_run: 6, ..Limits::default() };
        Config { driver, on_message, limits, ..Config::default() }
    })
}

/// Performs one step, whatever comes of it.
pub(crate) fn perform(world: &mut World, step: &Step) {
    let call = |world: &World, pick: usize| pick_call(world, pick);
    let refused = match step {
        Step::Say => world.say("hello").err(),
        Step::Propose(picks) => propose(world, picks),
        Step::Resolve(pick, how, place) => {
            let call = call(world, *pick);
            let by = if how % 2 == 0 { bob() } else { ann() };
            let how = resolution(world, *how);
            let resolved = world.resolved(call, by, how);
            match place {
                Where::Owner => world.input(Input::Resolved(resolved)).err(),
                Where::Elsewhere => world.input_elsewhere(Input::Resolved(resolved)).err(),
            }
        }
        Step::Expire(pick) => {
            let call = call(world, *pick);
            let round = rounds(world, call);
            world.input(Input::Expired(Expired { call, round })).err()
        }
        Step::ClientGoes(pick) => {
            let call = call(world, *pick);
            let round = rounds(world, call);
            world.input(Input::ClientGone(ClientGone { call, round })).err()
        }
        Step::Retry(pick) => {
            world.input(Input::RetryDue(RetryDue { call: call(world, *pick) })).err()
        }
        Step::Verify(pick, verdict) => {
            let call = call(world, *pick);
            let attempt = attempts(world, call);
            let verdict = match verdict {
                0 => Verification::Applied(Output::of_text("found")),
                1 => Verification::Absent,
                _ => Verification::Unknown,
            };
            world.input(Input::Verified(Verified { call, attempt, verdict })).err()
        }
        Step::Preview(pick) => {
            let call = call(world, *pick);
            world.input(Input::Previewed(Previewed { call, preview: preview() })).err()
        }
        Step::ToolChanges(pick, change) => {
            let call = call(world, *pick);
            let change = tool_change(world, call, *change);
            world.input(Input::ToolChanged(ToolChanged { call, change })).err()
        }
        Step::CancelCall(pick) => {
            let call = call(world, *pick);
            let cancelled = CallCancelled { call, by: ann(), note: None };
            world.input(Input::CallCancelled(cancelled)).err()
        }
        other => report(world, other),
    };
    if let Some(Refusal::Internal(bug)) = refused {
        panic!("{step:?}: {bug}");
    }
}

/// Whoever runs something says what became of it.
fn report(world: &mut World, step: &Step) -> Option<Refusal> {
    match step {
        Step::Return(pick, how) => {
            let report = AttemptReport::Returned(result(*how).into());
            world.input(ended(world, *pick, 0, report)).err()
        }
        Step::EndUnknown(pick, may_still_run) => {
            let class = if pick % 2 == 0 { ErrorClass::Timeout } else { ErrorClass::Cancelled };
            let failure = Failure::new(class, "its time was up");
            let unknown = EffectUnknown { failure, may_still_run: *may_still_run };
            world.input(ended(world, *pick, 0, AttemptReport::EffectUnknown(unknown))).err()
        }
        Step::WorldMoves(pick) => {
            let report = AttemptReport::WorldMoved { preview: preview() };
            world.input(ended(world, *pick, 0, report)).err()
        }
        Step::Delegate(pick) => {
            let given = if pick % 2 == 0 { crate::world::delegation() } else { own_work() };
            let delegation = Delegation { child: SessionId::from_bits(world.fresh()), ..given };
            let report = AttemptReport::Delegated(delegation.into());
            world.input(ended(world, *pick, 0, report)).err()
        }
        Step::ChildTells(pick) => {
            let (result, directives) = (ok("from the child"), Directives::default());
            let how = Resolution::Result { result, directives, fit: Fit::Fits };
            let resolved = world.resolved(pick_call(world, *pick), Actor::system(), how);
            world.input_elsewhere(Input::Resolved(resolved)).err()
        }
        Step::TakeSlot(pick) => {
            let call = pick_call(world, *pick);
            world.input(Input::SlotTaken(SlotTaken { call })).err()
        }
        Step::LateReport(pick, ago) => {
            let attempt = attempts(world, pick_call(world, *pick)).saturating_sub(*ago);
            let report = AttemptReport::Returned(late(attempt).into());
            world.input_elsewhere(ended(world, *pick, *ago, report)).err()
        }
        other => perform_on_session(world, other),
    }
}

fn perform_on_session(world: &mut World, step: &Step) -> Option<Refusal> {
    match step {
        Step::Interrupt => world.interrupt().err(),
        Step::Reconfigure(level) => {
            let open = world.state.as_open()?;
            let levels = [Level::Autonomous, Level::Cautious, Level::Standard, Level::Paranoid];
            let config =
                Config { level: levels[usize::from(*level)], ..Config::clone(&open.config) };
            world.input(Input::Reconfigured(Reconfigured { config, by: ann() })).err()
        }
        Step::Grant(pick) => {
            let grant = grant_for(world, &tools()[*pick]);
            world.input(Input::Granted(Granted { grant })).err()
        }
        Step::Offer(pick) => {
            let call = pick_call(world, *pick);
            let round = world.state.as_open()?.call(call)?.rounds;
            let tool = world.state.as_open()?.call(call)?.contract.tool.clone();
            let grant = offered_grant(tools().iter().find(|spec| spec.name == tool)?);
            let offered = GrantOffered { call, round, grant, policy: PolicyFacts::default() };
            world.input_elsewhere(Input::GrantOffered(offered)).err()
        }
        Step::Revoke => {
            let grant = world.state.as_open()?.grants().first()?.id;
            world.input(Input::GrantRevoked(GrantRevoked { grant, by: ann() })).err()
        }
        Step::ModelFails => {
            let open = world.state.as_open()?;
            let Activity::Thinking { attempt } = open.activity else { return None };
            let failure = Failure::new(ErrorClass::Upstream, "down");
            // Every other failure is an answer that broke off.
            let broke_off = open.turn % 2 == 0;
            let failed = ModelFailed { turn: open.turn, attempt, failure, broke_off };
            world.input(Input::ModelFailed(failed)).err()
        }
        Step::Wake => world.input(Input::Woken).err(),
        Step::Queue(ms) => {
            let id = WakeId::from_bits(world.fresh());
            let wake = Wake { id, ..wake_at(world.now + Millis(*ms)) };
            world.input_elsewhere(Input::WakeQueued(WakeQueued { wake, by: ann() })).err()
        }
        Step::Summarise(ago) => {
            let open = world.state.as_open()?;
            let Activity::Thinking { attempt } = open.activity else { return None };
            let (turn, text) = (open.turn, "so far".to_owned());
            let through_turn = turn.saturating_sub(*ago);
            let summary = Summary { text, through_turn, after_seq: 0, usage: None };
            let summarised = ContextSummarised { turn, attempt, summary };
            world.input(Input::ContextSummarised(summarised)).err()
        }
        Step::Wait(ms) => {
            world.wait(Millis(*ms));
            None
        }
        Step::Crash => {
            world.crash();
            None
        }
        Step::Leave => {
            world.is_leaving = true;
            None
        }
        _ => unreachable!("performed above"),
    }
}

fn propose(world: &mut World, picks: &[(usize, u8)]) -> Option<Refusal> {
    let tools = tools();
    let calls: Vec<Proposal> = picks
        .iter()
        .map(|(pick, variant)| world.proposal(&tools[*pick], &json!({ "n": variant })))
        .collect();
    let open = world.state.as_open()?;
    match (open.config.driver, open.activity) {
        (Driver::Caller, _) => world.input(Input::CallsProposed(CallsProposed { calls })).err(),
        (Driver::Model, Activity::Thinking { attempt }) => {
            let answer = ModelAnswered {
                turn: open.turn,
                attempt,
                content: vec![],
                advertised: Arc::new(tools.iter().map(|tool| tool.name.clone()).collect()),
                calls,
                provider_results: vec![],
                narrowed: vec![],
                details: AnswerDetails::default(),
            };
            world.input(Input::ModelAnswered(answer)).err()
        }
        (Driver::Model, Activity::Idle | Activity::Acting) => None,
    }
}

pub(crate) fn pick_call(world: &World, pick: usize) -> CallId {
    let calls: Vec<_> = world.state.as_open().into_iter().flat_map(|open| open.calls()).collect();
    match calls.len() {
        0 => CallId::from_bits(404),
        count => calls[pick % count].id,
    }
}

/// What became of a call's latest attempt, or of one so many before it.
fn ended(world: &World, pick: usize, ago: u32, report: AttemptReport) -> Input {
    let call = pick_call(world, pick);
    let attempt = attempts(world, call).saturating_sub(ago);
    Input::AttemptEnded(AttemptEnded { call, attempt, report })
}

fn attempts(world: &World, call: CallId) -> u32 {
    world.open().call(call).map_or(1, |call| call.attempts)
}

fn rounds(world: &World, call: CallId) -> u32 {
    world.open().call(call).map_or(1, |call| call.rounds)
}

/// What a late process says, and of which attempt.
fn late(attempt: u32) -> CallResult {
    ok(&format!("late word of attempt {attempt}"))
}

fn result(how: u8) -> CallResult {
    match how {
        0 | 1 => ok("done"),
        2 => err(ErrorClass::Upstream),
        3 => err(ErrorClass::Internal),
        _ => err(ErrorClass::ToolError),
    }
}

fn resolution(world: &mut World, how: u8) -> Resolution {
    match how {
        0 | 1 => approve(),
        2 => Resolution::Approve {
            edit: Some(Edit { arguments: arguments_of(&json!({"edited": true})), fit: Fit::Fits }),
            note: None,
            grant: None,
        },
        3 => {
            let grant = Some(Box::new(grant_for(world, &charge())));
            Resolution::Approve { edit: None, note: None, grant }
        }
        4 => deny(),
        5 => Resolution::Answer { output: Output::of_text("answer"), fit: Fit::Fits },
        6 => Resolution::Result {
            result: ok("from the client"),
            directives: Directives::default(),
            fit: Fit::Fits,
        },
        7 => Resolution::Settle(Settlement::RunAgain),
        _ => Resolution::Settle(Settlement::Happened { output: None }),
    }
}

fn preview() -> Preview {
    Preview { fingerprint: Digest::of_bytes(b"v1"), targets: vec![], diff: None, trouble: None }
}

fn tool_change(world: &World, call: CallId, change: u8) -> ToolChange {
    let contract = world.open().call(call).map(|call| Arc::clone(&call.contract));
    match (change, contract) {
        (0, _) | (_, None) => ToolChange::Gone,
        (1, Some(contract)) => {
            ToolChange::Redefined { contract, fit: Fit::Fits, changes: "wording".into() }
        }
        (_, Some(contract)) => ToolChange::Redefined {
            contract,
            fit: Fit::Misfit { message: "`/n` is gone".into() },
            changes: "schema".into(),
        },
    }
}

/// Ends the session and lets everything that still runs report.
fn drain(world: &mut World) {
    world.is_leaving = false;
    world.input(Input::Ended(Ended { by: ann(), note: None })).unwrap();
    for _ in 0..100 {
        let State::Open(open) = &world.state else { return };
        let running: Vec<_> = open.in_flight().map(|call| call.id).collect();
        for call in running {
            world.returns(call, ok("at last")).unwrap();
            if world.state.as_open().is_none() {
                return;
            }
        }
    }
    panic!("the session does not end: {:?}", world.state);
}

/// What the log leaves open about calls, and whether an outcome claims to know it.
#[derive(Default)]
struct Doubts {
    /// Calls that may change something, with an attempt that may or may not have.
    open: BTreeSet<CallId>,
    /// Calls that someone told to stop, and nobody told to run again.
    cancelled: BTreeSet<CallId>,
    /// Calls that must not run again because their verify hook saw no effect: someone stopped
    /// them, or they may still be running.
    not_again: BTreeSet<CallId>,
    only_read: BTreeSet<CallId>,
}

impl Doubts {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::CallProposed { call, contract, .. } if contract.only_reads() => {
                self.only_read.insert(*call);
            }
            Event::CallCancelling { call, .. } => {
                self.cancelled.insert(*call);
                self.not_again.insert(*call);
            }
            Event::CallInterrupted { call, may_still_run, .. } => {
                if !self.only_read.contains(call) {
                    self.open.insert(*call);
                }
                if *may_still_run {
                    self.not_again.insert(*call);
                }
            }
            Event::CallStarted { call, .. } => {
                self.open.remove(call);
                self.not_again.remove(call);
            }
            Event::CallVerified { call, finding, .. } if *finding != VerifyFinding::Unknown => {
                self.open.remove(call);
            }
            // Whoever has a call run again has found that it did not take effect.
            Event::CallResolved { call, decision: Decided::RunAgain, .. } => {
                self.open.remove(call);
                self.cancelled.remove(call);
            }
            Event::CallFinished { outcome } if self.open.contains(&outcome.call) => {
                let CallResult::Err(failure) = &outcome.result else { return };
                // A late word that the tool was never entered is knowledge.
                let is_told = failure.message.starts_with("not run:");
                let claims = matches!(failure.class, ErrorClass::Timeout | ErrorClass::Cancelled)
                    && !is_told;
                assert!(!claims, "an outcome claims to know: {failure:?}");
            }
            _ => {}
        }
    }
}

/// What the log says of each call, and whether it may say so.
pub(crate) fn check_log(world: &World) {
    let mut asked = BTreeMap::new();
    let mut recovery = BTreeMap::new();
    let mut permitted = BTreeMap::<CallId, BTreeSet<Digest>>::new();
    let mut starts_left = BTreeMap::<CallId, u32>::new();
    let mut ended = BTreeSet::new();
    let mut proposed = BTreeSet::new();
    let mut resolved = BTreeSet::new();
    let mut doubts = Doubts::default();
    for event in world.events() {
        doubts.hear(&event);
        match event {
            Event::CallProposed { call, derivation, contract, .. } => {
                proposed.insert(call);
                let ran_already = contract.executor == Executor::Provider;
                asked.insert(call, derivation.decision == Verdict::Ask && !ran_already);
                recovery.insert(call, contract.recovery);
                starts_left.insert(call, 1);
            }
            Event::CallRejected { call, .. } => {
                proposed.insert(call);
                assert!(ended.insert(call), "two outcomes for {call}");
            }
            Event::CallAdmitted { call, permit } => {
                assert!(!asked[&call], "admitted without the ask");
                permitted.entry(call).or_default().insert(permit.digest);
            }
            Event::CallResolved { call, round, decision, .. } => {
                assert!(resolved.insert((call, round)), "two resolutions of one wait");
                match decision {
                    Decided::Approve { .. } | Decided::Granted { .. } => {
                        asked.insert(call, false);
                        starts_left.insert(call, 1);
                    }
                    Decided::RunAgain => {
                        starts_left.insert(call, 1);
                    }
                    _ => {}
                }
            }
            Event::CallVerified { call, finding: VerifyFinding::Absent, .. }
                if !doubts.not_again.contains(&call) =>
            {
                starts_left.insert(call, 1);
            }
            Event::CallStarted { call, .. } => {
                assert!(!asked[&call], "started without the ask");
                assert!(!ended.contains(&call), "started after its outcome");
                let left = starts_left.get_mut(&call).unwrap();
                let safe = matches!(recovery[&call], Recovery::Rerun | Recovery::RerunKeyed);
                assert!(*left > 0 || safe, "an unsafe call ran twice on one permission");
                let stopped = doubts.cancelled.contains(&call);
                assert!(*left > 0 || !stopped, "a call ran again that someone told to stop");
                *left = left.saturating_sub(1);
            }
            Event::CallFinished { outcome } => {
                assert!(ended.insert(outcome.call), "two outcomes for {}", outcome.call);
                let is_late = (0..outcome.attempt).any(|earlier| outcome.result == late(earlier));
                assert!(!is_late, "what an earlier attempt said is no outcome of a later one");
            }
            _ => {}
        }
    }
    assert_eq!(proposed, ended, "every proposed call has exactly one outcome");
}

/// Every effect follows its event, and the model is asked only when nothing is open.
fn check_effects(world: &World, before: usize, effects: &[Effect]) {
    let events = world.events().split_off(before);
    for effect in effects {
        match effect {
            Effect::Execute { call, attempt, digest, .. } => {
                let started = events.iter().any(|event| {
                    matches!(event, Event::CallStarted { call: c, attempt: a, digest: d, .. }
                        if c == call && a == attempt && d == digest)
                });
                assert!(started, "an effect without its event");
            }
            Effect::RunModel { .. } => {
                let open = world.open().calls();
                let mut held_up = open.filter(|call| {
                    call.phase.is_open() && !matches!(call.phase, Phase::AtProvider { .. })
                });
                assert!(held_up.next().is_none(), "the model is asked while a call is open");
            }
            Effect::AbortModel { .. }
            | Effect::Preview { .. }
            | Effect::Cancel { .. }
            | Effect::Verify { .. }
            | Effect::TellParent { .. }
            | Effect::ReportUp { .. }
            | Effect::ScheduleRetry { .. } => {}
            Effect::Queue { call } => {
                let queued = world.open().call(*call).is_some_and(|call| call.phase.is_queued());
                assert!(queued, "a call is queued without its event");
            }
            Effect::OpenChild { call } => {
                let child = world.open().call(*call).and_then(|call| call.child.as_ref());
                let depth =
                    |c: &Delegation| c.config.limits.depth <= world.open().config.limits.depth;
                assert!(child.is_some_and(|child| depth(child)), "a child without its event");
            }
            Effect::StopChild { child } => {
                let mut waits = world.open().calls().filter(|call| {
                    call.phase.is_open()
                        && call.child.as_ref().is_some_and(|given| given.child == *child)
                });
                assert!(waits.next().is_none(), "a child is stopped that is waited for");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    // S4-20, S4-25, S4-36, S4-38, D4: replay equals live (asserted by the
    // world after every input), one outcome per call, one resolution per wait, no unsafe call
    // twice, no ask skipped, whatever the order of inputs and crashes.
    #[test]
    fn the_invariants_hold_whatever_happens(
        config in config(),
        steps in prop::collection::vec(step_or_leave(), 1..60),
    ) {
        let mut world = World::with(config);
        for step in &steps {
            let before = world.log.len();
            world.effects.clear();
            perform(&mut world, step);
            let effects = world.effects.clone();
            check_effects(&world, before, &effects);
        }
        drain(&mut world);
        check_log(&world);
    }
}
