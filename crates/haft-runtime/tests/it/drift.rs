//! Tools that changed while their calls waited, found out when the session is revived.

use std::sync::Arc;
use std::time::Duration;

use crate::node::{Hands, World, ann, approve, charge, proposal, tenant, tool};
use haft_core::session::{
    Call, CallsProposed, Config, Driver as DrivenBy, Event, Fit, Input, Open, PolicyFacts,
    Resolved, SuspendReason, ToolChange,
};
use haft_core::tool::{Gate, Schema, ToolSpec};
use haft_core::{CallId, CallResult, ErrorClass, ResolutionId, SessionId};
use haft_runtime::{Driver, Job, Performer, Settings};
use haft_store::{NodeId, Store};

/// Hands that know which tools there are by now.
struct Registry {
    hands: Hands,
    tools: Vec<ToolSpec>,
}

impl Performer for Registry {
    async fn perform(&self, job: Job) -> Input {
        self.hands.perform(job).await
    }

    fn tool_change(&self, _open: &Open, call: &Call) -> Option<ToolChange> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == call.contract.tool) else {
            return Some(ToolChange::Gone);
        };
        let contract = Arc::clone(tool.contract());
        let changes = "`cents` is a number".to_owned();
        let changed = contract.digest != call.contract.digest;
        changed.then_some(ToolChange::Redefined { contract, fit: Fit::Fits, changes })
    }
}

struct Life {
    driver: Driver<Registry>,
    world: Arc<World>,
}

impl Life {
    fn start(store: &Store, world: &Arc<World>, tools: Vec<ToolSpec>) -> Self {
        let hands = Hands { world: Arc::clone(world) };
        let mut settings = Settings::new(NodeId::new("node-1").unwrap());
        settings.sweep_every = Duration::from_millis(5);
        let registry = Arc::new(Registry { hands, tools });
        let driver = Driver::start(store.clone(), registry, &settings);
        Self { driver, world: Arc::clone(world) }
    }

    async fn propose(&self, tools: &[&ToolSpec]) -> (SessionId, Vec<CallId>) {
        let config = Config { driver: DrivenBy::Caller, ..Config::default() };
        let session = self.driver.open(tenant(), config, ann()).await.unwrap();
        let fresh = || CallId::from_bits(self.driver.fresh().unwrap());
        let calls: Vec<_> = tools.iter().map(|tool| proposal(fresh(), tool)).collect();
        let ids = calls.iter().map(|call| call.id).collect();
        let proposed = Input::CallsProposed(CallsProposed { calls });
        self.driver.input(session, proposed).await.unwrap();
        (session, ids)
    }

    async fn approve(&self, session: SessionId, call: CallId) {
        let id = ResolutionId::from_bits(self.driver.fresh().unwrap());
        let (resolution, policy) = (approve(), PolicyFacts::default());
        let resolved = Resolved { id, call, round: None, by: ann(), resolution, policy };
        self.driver.resolve(session, resolved).await.unwrap();
    }

    async fn event(&self, session: SessionId, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let entries = self.driver.store().entries(session, 0, 1_000).await.unwrap();
            let events = entries.iter().map(|entry| entry.event().unwrap());
            if let Some(event) = events.into_iter().find(&wanted) {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn other_charge() -> ToolSpec {
    tool("charge_card", |definition| {
        definition.gate = Gate::Ask;
        definition.input_schema =
            Schema::new(r#"{"type":"object","properties":{"cents":{"type":"number"}}}"#).unwrap();
    })
}

// The approval was for the tool as it was: nothing runs, and the approver is asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_whose_tool_changed_is_asked_about_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let world = Arc::default();
    let before = Life::start(&store, &world, vec![charge()]);
    let (session, calls) = before.propose(&[&charge()]).await;
    before.driver.shutdown(Duration::from_secs(10)).await;
    before.approve(session, calls[0]).await;
    let after = Life::start(&store, &world, vec![other_charge()]);
    let asked = |event: &Event| matches!(event, Event::CallSuspended { reason, .. } if *reason == SuspendReason::Redefined);
    after.event(session, asked).await;
    assert_eq!(after.world.effects(calls[0]), 0);
    after.approve(session, calls[0]).await;
    after.event(session, |event| matches!(event, Event::CallFinished { .. })).await;
    assert_eq!(after.world.effects(calls[0]), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_whose_tool_is_gone_is_closed_with_a_reason_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open_sqlite(directory.path()).unwrap();
    let world = Arc::default();
    let refund = tool("refund", |definition| definition.gate = Gate::Ask);
    let before = Life::start(&store, &world, vec![charge(), refund.clone()]);
    let (session, calls) = before.propose(&[&refund, &charge()]).await;
    before.driver.shutdown(Duration::from_secs(10)).await;
    before.approve(session, calls[1]).await;
    let after = Life::start(&store, &world, vec![charge()]);
    let finished = |call: CallId| move |event: &Event| matches!(event, Event::CallFinished { outcome } if outcome.call == call);
    let Event::CallFinished { outcome } = after.event(session, finished(calls[0])).await else {
        unreachable!("looked for above")
    };
    let CallResult::Err(failure) = outcome.result else { panic!("a tool that is gone ran") };
    assert_eq!(failure.class, ErrorClass::UnknownTool);
    after.event(session, finished(calls[1])).await;
    assert_eq!((world.effects(calls[0]), world.effects(calls[1])), (0, 1));
}
