//! A driver in small: one session, decided by the machine and appended to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_core::journal::Head;
use haft_core::session::{
    AttemptEnded, AttemptReport, Awaits, Call, CallsProposed, Check, ChildOpened, Config,
    Delegation, Driver as DrivenBy, Event, Expired, Hears, Input, Opened, Parent, PolicyFacts,
    Proposal, Refusal, Resolution, Resolved, Returned, Settlement, SoundCall, State, accept,
    decide,
};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema, ToolSpec};
use haft_core::{
    Actor, ActorId, Arguments, CallId, CallResult, ErrorClass, Failure, MessageId, Millis, Output,
    ProviderCallId, ResolutionId, SessionId, Timestamp,
};
use haft_store::{Append, AppendError, Fence, FollowedBy, NewSession, NodeId, Store, Tenant};
use serde_json::json;

pub(crate) const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);

/// One session as its owner sees it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) store: Store,
    pub(crate) id: SessionId,
    pub(crate) state: State,
    pub(crate) head: Head,
    pub(crate) epoch: u64,
    pub(crate) now: Timestamp,
}

/// Why an input came to nothing.
#[derive(Debug, PartialEq)]
pub(crate) enum Failed {
    Append(AppendError),
    Refused(Refusal),
}

impl Session {
    pub(crate) async fn create(store: &Store, tenant: &str) -> Self {
        Self::create_owned(store, tenant, None).await
    }

    /// A session that another one opened.
    pub(crate) async fn create_child(store: &Store, config: Config, of: SessionId) -> SessionId {
        let (child, call) = (SessionId::from_bits(fresh()), CallId::from_bits(fresh()));
        let (message, task) = (MessageId::from_bits(fresh()), Vec::new());
        let delegation =
            Arc::new(Delegation { child, message, config, task, goal: None, awaits: Awaits::Word });
        let parent = Parent { session: of, call, root: of, depth: 1, hears: Hears::All };
        let opened = Input::ChildOpened(ChildOpened { delegation, by: ann(), parent });
        let events = decide(&State::Unopened, START, opened).unwrap().events;
        let tenant = Tenant::new("acme").unwrap();
        let new =
            NewSession { session: child, tenant, at: START, events, owner: None, request: None };
        store.create_session(&new).await.unwrap();
        child
    }

    pub(crate) async fn create_with(store: &Store, tenant: &str, config: Config) -> Self {
        Self::create_as(store, tenant, None, config).await
    }

    pub(crate) async fn create_owned(store: &Store, tenant: &str, owner: Option<NodeId>) -> Self {
        let config = Config { driver: DrivenBy::Caller, ..Config::default() };
        Self::create_as(store, tenant, owner, config).await
    }

    async fn create_as(store: &Store, tenant: &str, owner: Option<NodeId>, config: Config) -> Self {
        let (id, now) = (SessionId::from_bits(fresh()), START);
        let opened = Opened { session: id, config, by: ann() };
        let decision = decide(&State::Unopened, now, Input::Opened(opened)).unwrap();
        let tenant = Tenant::new(tenant).unwrap();
        let events = decision.events;
        let new = NewSession { session: id, tenant, at: now, events, owner, request: None };
        let created = store.create_session(&new).await.unwrap();
        let (state, head, epoch) = (decision.state, created.head, created.epoch);
        Self { store: store.clone(), id, state, head, epoch, now }
    }

    /// What another node, or this one after a restart, sees of the session.
    pub(crate) async fn load(store: &Store, id: SessionId, now: Timestamp) -> Self {
        let loaded = store.load(id).await.unwrap().expect("the session is stored");
        let (state, head, epoch) = (loaded.state, loaded.head, loaded.epoch);
        Self { store: store.clone(), id, state, head, epoch, now }
    }

    /// A call of the current turn that has no outcome yet.
    pub(crate) fn open_call(&self, call: CallId) -> Option<&Call> {
        let call = self.state.as_open().and_then(|open| open.call(call));
        call.filter(|call| call.phase.is_open())
    }

    pub(crate) async fn reload(&mut self) {
        let loaded = self.store.load(self.id).await.unwrap().unwrap();
        (self.state, self.head) = (loaded.state, loaded.head);
    }

    /// Feeds an input as the owner does.
    pub(crate) async fn input(&mut self, input: Input) -> Result<(), Failed> {
        let decision = decide(&self.state, self.now, input).map_err(Failed::Refused)?;
        let fence = Fence::Owner { epoch: self.epoch };
        self.commit(fence, decision.events, decision.state).await
    }

    /// Feeds an input as any node does.
    pub(crate) async fn input_anywhere(&mut self, input: Input) -> Result<(), Failed> {
        let decision = accept(&self.state, self.now, input).map_err(Failed::Refused)?;
        self.commit(Fence::Anyone, decision.events, decision.state).await
    }

    async fn commit(
        &mut self,
        fence: Fence,
        events: Vec<Event>,
        state: State,
    ) -> Result<(), Failed> {
        let append = self.append_of(fence, events);
        self.head = self.store.append(&append).await.map_err(Failed::Append)?;
        self.state = state;
        Ok(())
    }

    pub(crate) fn append_of(&self, fence: Fence, events: Vec<Event>) -> Append {
        let (session, expected, at) = (self.id, self.head, self.now);
        let followed_by = FollowedBy::Anyone;
        let (snapshot, request) = (None, None);
        Append { session, fence, expected, at, events, snapshot, followed_by, request }
    }

    /// Keeps the state as the point from which loading starts.
    pub(crate) async fn keep_snapshot(&mut self) {
        let fence = Fence::Owner { epoch: self.epoch };
        let snapshot = Some(Box::new(self.state.clone()));
        let append = Append { snapshot, ..self.append_of(fence, vec![]) };
        assert_eq!(self.store.append(&append).await, Ok(self.head));
    }

    pub(crate) async fn propose(&mut self, tool: &ToolSpec) -> CallId {
        let (id, input) = proposal(tool);
        self.input(input).await.unwrap();
        id
    }

    /// Proposes calls that belong to one turn.
    pub(crate) async fn propose_all(&mut self, tools: &[&ToolSpec]) -> Vec<CallId> {
        let calls: Vec<_> = tools.iter().map(|tool| proposed(tool)).collect();
        let ids = calls.iter().map(|call| call.id).collect();
        self.input(Input::CallsProposed(CallsProposed { calls })).await.unwrap();
        ids
    }

    pub(crate) async fn finish(&mut self, call: CallId, result: CallResult) {
        let attempt = self.state.as_open().unwrap().call(call).unwrap().attempts;
        let report = AttemptReport::Returned(Returned::from(result));
        let ended = AttemptEnded { call, attempt, report };
        self.input(Input::AttemptEnded(ended)).await.unwrap();
    }
}

pub(crate) fn proposal(tool: &ToolSpec) -> (CallId, Input) {
    let call = proposed(tool);
    (call.id, Input::CallsProposed(CallsProposed { calls: vec![call] }))
}

fn proposed(tool: &ToolSpec) -> Proposal {
    let arguments = json!({"amount": 12, "to": "Ann"});
    let id = fresh();
    Proposal {
        id: CallId::from_bits(id),
        provider_id: ProviderCallId::new(format!("toolu_{id}")).unwrap(),
        name: tool.name.to_string(),
        check: Check::Sound(SoundCall {
            contract: Arc::clone(tool.contract()),
            arguments: Arguments::plain(arguments.as_object().cloned().unwrap()),
            policy: PolicyFacts::default(),
            grants: vec![],
        }),
    }
}

pub(crate) fn approval(call: CallId, by: Actor) -> Input {
    let resolution = Resolution::Approve { edit: None, note: None, grant: None };
    resolution_of(call, by, resolution)
}

pub(crate) fn denial(call: CallId, by: Actor) -> Input {
    resolution_of(call, by, Resolution::Deny { note: None })
}

pub(crate) fn happened(call: CallId, by: Actor) -> Input {
    resolution_of(call, by, Resolution::Settle(Settlement::Happened { output: None }))
}

fn resolution_of(call: CallId, by: Actor, resolution: Resolution) -> Input {
    let (id, policy) = (ResolutionId::from_bits(fresh()), PolicyFacts::default());
    Input::Resolved(Resolved { id, call, round: None, by, resolution, policy })
}

pub(crate) fn expiry(call: CallId, round: u32) -> Input {
    Input::Expired(Expired { call, round })
}

/// Ids grow, as those of a driver do.
pub(crate) fn fresh() -> u128 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    u128::from(std::process::id()) << 64 | u128::from(NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn user(name: &str) -> Actor {
    Actor::user(ActorId::new(name).unwrap())
}

pub(crate) fn ann() -> Actor {
    user("ann")
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub(crate) fn ok(text: &str) -> CallResult {
    CallResult::Ok(Output::of_text(text))
}

pub(crate) fn busy() -> CallResult {
    CallResult::Err(Failure::new(ErrorClass::RateLimited, "try again later"))
}

pub(crate) fn tool(name: &str, change: impl FnOnce(&mut Definition)) -> ToolSpec {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "Does it.", schema);
    change(&mut definition);
    ToolSpec::new(definition).unwrap()
}

/// Runs at once.
pub(crate) fn read() -> ToolSpec {
    tool("get_weather", |_| {})
}

/// Waits for an approval.
pub(crate) fn charge() -> ToolSpec {
    tool("charge_card", |definition| {
        definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
        definition.gate = Gate::Ask;
    })
}

pub(crate) const HOUR: Millis = Millis::from_secs(3600);
