//! A virtual world: one session, its log, a clock that only moves when told, and the effects
//! that a driver would perform.

use std::collections::BTreeSet;
use std::sync::Arc;

use haft_core::journal::{Entry, Head, replay};
use haft_core::permission::{SourceReport, StandingGrant};
use haft_core::session::{
    Activity, AnswerDetails, AttemptEnded, AttemptReport, Awaits, CallsProposed, Check,
    ChildOpened, Config, Decision, Delegation, Driver, Effect, EffectUnknown, Event, Expired,
    Hears, Input, Interrupted, MessageArrived, ModelAnswered, Open, Opened, Parent, Phase,
    PolicyFacts, Priority, Proposal, Refusal, Reply, Resolution, Resolved, Returned, SoundCall,
    State, Wake, accept, decide, note,
};
use haft_core::tool::{
    Definition, Executor, Facets, Gate, InterruptBehavior, Mutates, Pool, Schema, ToolSpec,
};
use haft_core::{
    Actor, ActorId, ActorKind, Arguments, CallId, CallResult, ContentBlock, ErrorClass, Failure,
    GrantId, MessageId, Millis, Outcome, Output, ProviderCallId, ResolutionId, SessionId,
    Timestamp, ToolName, WakeId,
};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    pub(crate) log: Vec<Entry>,
    /// What the driver has been told to do and has not done.
    pub(crate) effects: Vec<Effect>,
    /// Whether the owner is about to go and starts nothing any more.
    pub(crate) is_leaving: bool,
    /// The state as the stored events give it, kept beside the live one.
    folded: State,
    head: Head,
    next_id: u128,
    session: SessionId,
}

impl World {
    /// A session driven by a model, already open.
    pub(crate) fn model() -> Self {
        Self::with(Config::default())
    }

    /// A session driven by a program, already open.
    pub(crate) fn caller() -> Self {
        Self::with(Config { driver: Driver::Caller, ..Config::default() })
    }

    pub(crate) fn with(config: Config) -> Self {
        let mut world = Self::unopened();
        let session = world.session;
        world.input(Input::Opened(Opened { session, config, by: ann() })).unwrap();
        world
    }

    pub(crate) fn unopened() -> Self {
        Self {
            state: State::Unopened,
            now: Timestamp::from_ms(1_000_000),
            log: Vec::new(),
            effects: Vec::new(),
            is_leaving: false,
            folded: State::Unopened,
            head: Head::EMPTY,
            next_id: 1,
            session: SessionId::from_bits(77),
        }
    }

    /// Feeds one input, as the owner does: decide, append, answer, effects.
    pub(crate) fn input(&mut self, input: Input) -> Result<Reply, Refusal> {
        if !self.is_leaving {
            return decide(&self.state, self.now, input).map(|decision| self.commit(decision));
        }
        let decision = note(&self.state, self.now, input)?;
        let begins = |effect: &Effect| matches!(effect, Effect::Execute { .. });
        assert!(!decision.effects.iter().any(begins), "a node that is leaving runs a tool");
        Ok(self.commit(decision))
    }

    /// Feeds one input as a node does that does not own the session.
    pub(crate) fn input_elsewhere(&mut self, input: Input) -> Result<Reply, Refusal> {
        let decision = accept(&self.state, self.now, input)?;
        assert!(decision.effects.is_empty());
        Ok(self.commit(decision))
    }

    fn commit(&mut self, decision: Decision) -> Reply {
        let before = self.log.len();
        for event in &decision.events {
            let entry = self.head.append(self.session, self.now, event).unwrap();
            self.log.push(entry);
        }
        let folded = std::mem::take(&mut self.folded);
        self.folded = replay(folded, &self.log[before..]).unwrap();
        self.state = decision.state;
        assert_eq!(self.folded, self.state, "what the stored events lead to is the live state");
        self.effects.extend(decision.effects);
        decision.reply
    }

    /// The process dies with all it was doing, and another takes over.
    pub(crate) fn crash(&mut self) {
        self.effects.clear();
        self.is_leaving = false;
        self.state = replay(State::Unopened, &self.log).unwrap();
        self.input(Input::Revived).unwrap();
    }

    pub(crate) fn wait(&mut self, span: Millis) {
        self.now = self.now + span;
    }

    pub(crate) fn open(&self) -> &Open {
        self.state.as_open().unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.log.iter().map(|entry| entry.event().unwrap()).collect()
    }

    /// The names of the events, for assertions that read like a log.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.events().iter().map(Event::name).collect()
    }

    pub(crate) fn names_since(&self, mark: usize) -> Vec<&'static str> {
        self.names().split_off(mark)
    }

    pub(crate) fn phase(&self, call: CallId) -> &Phase {
        &self.open().call(call).unwrap().phase
    }

    pub(crate) fn fresh(&mut self) -> u128 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn say(&mut self, text: &str) -> Result<Reply, Refusal> {
        let message = MessageId::from_bits(self.fresh());
        let content = vec![ContentBlock::Text { text: text.into() }];
        self.input(Input::MessageArrived(MessageArrived { message, from: ann(), content }))
    }

    /// The model answers the turn that it was asked for, with these calls.
    pub(crate) fn answer(&mut self, tools: &[&ToolSpec]) -> Vec<CallId> {
        let calls: Vec<_> = tools.iter().map(|tool| self.proposal(tool, &json!({}))).collect();
        let ids = calls.iter().map(|call| call.id).collect();
        let advertised = tools.iter().map(|tool| tool.name.clone()).collect();
        self.answer_with(calls, advertised).unwrap();
        ids
    }

    pub(crate) fn answer_with(
        &mut self,
        calls: Vec<Proposal>,
        advertised: BTreeSet<ToolName>,
    ) -> Result<Reply, Refusal> {
        let open = self.open();
        let Activity::Thinking { attempt } = open.activity else {
            panic!("the model is not asked")
        };
        let answer = ModelAnswered {
            turn: open.turn,
            attempt,
            content: vec![],
            advertised: Arc::new(advertised),
            calls,
            provider_results: vec![],
            narrowed: vec![],
            details: AnswerDetails::default(),
        };
        self.effects.retain(|effect| !matches!(effect, Effect::RunModel { .. }));
        self.input(Input::ModelAnswered(answer))
    }

    /// A program proposes one call.
    pub(crate) fn propose(&mut self, tool: &ToolSpec, arguments: &Value) -> CallId {
        let call = self.proposal(tool, arguments);
        let id = call.id;
        self.input(Input::CallsProposed(CallsProposed { calls: vec![call] })).unwrap();
        id
    }

    pub(crate) fn proposal(&mut self, tool: &ToolSpec, arguments: &Value) -> Proposal {
        let id = self.fresh();
        Proposal {
            id: CallId::from_bits(id),
            provider_id: ProviderCallId::new(format!("toolu_{id}")).unwrap(),
            name: tool.name.to_string(),
            check: Check::Sound(SoundCall {
                contract: Arc::clone(tool.contract()),
                arguments: arguments_of(arguments),
                policy: PolicyFacts::default(),
                grants: vec![],
            }),
        }
    }

    /// The attempt that runs ends, and nobody knows whether it took effect.
    pub(crate) fn ends_unknown(
        &mut self,
        call: CallId,
        class: ErrorClass,
    ) -> Result<Reply, Refusal> {
        let attempt = self.open().call(call).unwrap().attempts;
        let report = effect_unknown(class);
        self.input(Input::AttemptEnded(AttemptEnded { call, attempt, report }))
    }

    /// The attempt that runs returns this.
    pub(crate) fn returns(&mut self, call: CallId, result: CallResult) -> Result<Reply, Refusal> {
        self.returned(call, Returned::from(result))
    }

    pub(crate) fn returned(&mut self, call: CallId, returned: Returned) -> Result<Reply, Refusal> {
        let attempt = self.open().call(call).unwrap().attempts;
        let report = AttemptReport::Returned(returned);
        self.input(Input::AttemptEnded(AttemptEnded { call, attempt, report }))
    }

    /// A call whose tool gives its work to a child, and that child's delegation.
    pub(crate) fn delegated(&mut self) -> (CallId, Arc<Delegation>) {
        let call = self.answer(&[&agent_tool()])[0];
        let report = AttemptReport::Delegated(delegation().into());
        self.input(Input::AttemptEnded(AttemptEnded { call, attempt: 1, report })).unwrap();
        let delegation = self.open().call(call).and_then(|call| call.child.clone());
        (call, delegation.expect("the call has a child"))
    }

    pub(crate) fn resolve(&mut self, call: CallId, how: Resolution) -> Result<Reply, Refusal> {
        let resolved = self.resolved(call, ann(), how);
        self.input(Input::Resolved(resolved))
    }

    pub(crate) fn resolved(&mut self, call: CallId, by: Actor, how: Resolution) -> Resolved {
        let id = ResolutionId::from_bits(self.fresh());
        Resolved { id, call, round: None, by, resolution: how, policy: PolicyFacts::default() }
    }

    pub(crate) fn expire(&mut self, call: CallId) -> Result<Reply, Refusal> {
        let round = self.open().call(call).map_or(1, |call| call.rounds);
        self.input(Input::Expired(Expired { call, round }))
    }

    pub(crate) fn interrupt(&mut self) -> Result<Reply, Refusal> {
        self.input(Input::Interrupted(Interrupted { by: ann(), note: None }))
    }

    /// How often the driver has been told to run a call and has not lost that in a crash.
    pub(crate) fn executions(&self, call: CallId) -> usize {
        let runs =
            |effect: &&Effect| matches!(effect, Effect::Execute { call: c, .. } if *c == call);
        self.effects.iter().filter(runs).count()
    }

    pub(crate) fn outcome(&self, call: CallId) -> Option<Outcome> {
        self.events().into_iter().find_map(|event| match event {
            Event::CallFinished { outcome } if outcome.call == call => Some(outcome),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn failure(&self, call: CallId) -> Failure {
        match self.outcome(call).expect("the call has an outcome").result {
            CallResult::Err(failure) => failure,
            CallResult::Ok(output) => panic!("expected a failure, found {output:?}"),
        }
    }
}

/// What a child is asked to do, with wishes of its own.
pub(crate) fn delegation() -> Delegation {
    Delegation {
        child: SessionId::from_bits(88),
        message: MessageId::from_bits(89),
        config: Config::default(),
        task: vec![ContentBlock::Text { text: "look around".into() }],
        goal: None,
        awaits: Awaits::Word,
    }
}

/// The same for a child that works on its own, which the call comes to.
pub(crate) fn own_work() -> Delegation {
    let output = Output::of_text("it is open");
    Delegation { awaits: Awaits::Opening { output }, ..delegation() }
}

pub(crate) fn child_opened() -> ChildOpened {
    let session = SessionId::from_bits(77);
    let (call, hears) = (CallId::from_bits(2), Hears::All);
    let parent = Parent { session, call, root: session, depth: 1, hears };
    ChildOpened { delegation: Arc::new(delegation()), by: ann(), parent }
}

/// Gives its work to a child; doing that twice is doing it once.
pub(crate) fn agent_tool() -> ToolSpec {
    tool("delegate", |definition| {
        definition.facets.mutates = Some(Mutates::None);
        definition.suspend_ttl = Millis::from_secs(3600);
    })
}

pub(crate) fn wake_at(due: Timestamp) -> Wake {
    let (id, reason) = (WakeId::from_bits(5), "look again".to_owned());
    Wake { id, due, reason, note: None, dedupe_key: None, priority: Priority::Normal }
}

pub(crate) fn ann() -> Actor {
    Actor::user(ActorId::new("ann").unwrap())
}

pub(crate) fn bob() -> Actor {
    Actor::user(ActorId::new("bob").unwrap())
}

pub(crate) fn agent() -> Actor {
    Actor { kind: ActorKind::Agent, id: ActorId::new("model").unwrap() }
}

pub(crate) fn ok(text: &str) -> CallResult {
    CallResult::Ok(Output::of_text(text))
}

/// What is reported of an attempt that ended without a result, and certainly has ended.
pub(crate) fn effect_unknown(class: ErrorClass) -> AttemptReport {
    let failure = Failure::new(class, "its time was up");
    AttemptReport::EffectUnknown(EffectUnknown { failure, may_still_run: false })
}

pub(crate) fn err(class: ErrorClass) -> CallResult {
    CallResult::Err(Failure::new(class, "it failed"))
}

pub(crate) fn approve() -> Resolution {
    Resolution::Approve { edit: None, note: None, grant: None }
}

pub(crate) fn deny() -> Resolution {
    Resolution::Deny { note: None }
}

pub(crate) fn arguments_of(value: &Value) -> Arguments {
    Arguments::plain(value.as_object().cloned().unwrap())
}

pub(crate) fn tool(name: &str, change: impl FnOnce(&mut Definition)) -> ToolSpec {
    let schema = Schema::new(r#"{"type":"object"}"#).unwrap();
    let mut definition = Definition::new(name.parse().unwrap(), "Does it.", schema);
    change(&mut definition);
    ToolSpec::new(definition).unwrap()
}

pub(crate) fn mutating(name: &str, change: impl FnOnce(&mut Definition)) -> ToolSpec {
    tool(name, |definition| {
        definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
        definition.gate = Gate::Auto;
        change(definition);
    })
}

pub(crate) fn read() -> ToolSpec {
    tool("get_weather", |definition| definition.facets.mutates = Some(Mutates::None))
}

/// Changes something, is not idempotent, asks nobody.
pub(crate) fn email() -> ToolSpec {
    mutating("send_email", |_| {})
}

/// As [`email`], through a server that takes only so many at once.
pub(crate) fn pooled() -> ToolSpec {
    mutating("send_letter", |definition| {
        definition.pools = vec![Pool { name: "post".into(), limit: 1 }];
        definition.interrupt = InterruptBehavior::Cancel;
    })
}

/// Changes something, is not idempotent, asks.
pub(crate) fn charge() -> ToolSpec {
    mutating("charge_card", |definition| definition.gate = Gate::Ask)
}

pub(crate) fn question() -> ToolSpec {
    tool("ask_user", |definition| definition.executor = Executor::Human)
}

pub(crate) fn browser(gate: Gate) -> ToolSpec {
    tool("get_location", |definition| {
        definition.executor = Executor::Client;
        definition.gate = gate;
    })
}

pub(crate) fn grant_for(world: &mut World, tool: &ToolSpec) -> StandingGrant {
    StandingGrant { id: GrantId::from_bits(world.fresh()), at: world.now, ..offered_grant(tool) }
}

/// A grant for every call of a tool, which no session keeps.
pub(crate) fn offered_grant(tool: &ToolSpec) -> StandingGrant {
    StandingGrant {
        id: GrantId::from_bits(0x6_0000),
        tool: tool.name.clone(),
        contract: tool.contract().digest,
        when: vec![],
        uses_left: None,
        budget: None,
        expires_at: None,
        by: ann(),
        at: Timestamp::default(),
    }
}

pub(crate) fn with_reports(proposal: &mut Proposal, reports: Vec<SourceReport>) {
    let Check::Sound(sound) = &mut proposal.check else { panic!("not a sound call") };
    sound.policy.reports = reports;
}
