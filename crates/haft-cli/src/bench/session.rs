//! A session that is driven straight on the store: decided by the machine, appended, nothing else.

use std::sync::Arc;

use haft_core::journal::Head;
use haft_core::session::{
    AttemptEnded, AttemptReport, CallsProposed, Check, Config, Driver as DrivenBy, Event, Input,
    Opened, PolicyFacts, Proposal, Resolution, Resolved, Returned, SoundCall, State, accept,
    decide,
};
use haft_core::tool::{Definition, Facets, Gate, Mutates, Schema, ToolSpec};
use haft_core::{
    Actor, Arguments, CallId, CallResult, Millis, Output, ProviderCallId, ResolutionId, SessionId,
    Timestamp,
};
use haft_runtime::{Clock, fresh_bits};
use haft_store::{Append, Fence, FollowedBy, Moment, NewSession, SNAPSHOT_EVERY, Store, Tenant};

/// One session as its owner sees it.
pub(super) struct Session {
    store: Store,
    id: SessionId,
    state: State,
    head: Head,
}

impl Session {
    pub(super) async fn create(store: &Store) -> anyhow::Result<Self> {
        let now = Clock::System.now();
        let id = SessionId::from_bits(fresh_bits(now)?);
        let config = Config { driver: DrivenBy::Caller, ..Config::default() };
        let opened = Opened { session: id, config, by: Actor::system() };
        let decision = decide(&State::Unopened, now, Input::Opened(opened))?;
        let tenant = Tenant::new("bench")?;
        let new = NewSession {
            session: id,
            tenant,
            at: now,
            events: decision.events,
            owner: None,
            request: None,
        };
        let head = store.create_session(&new).await?.head;
        Ok(Self { store: store.clone(), id, state: decision.state, head })
    }

    /// Creates a session whose log has at least so many events, as a driver leaves it.
    pub(super) async fn grown(store: &Store, events: u64) -> anyhow::Result<Self> {
        let mut session = Self::create(store).await?;
        let (tool, mut kept) = (tool(Gate::Auto)?, 0);
        while session.head.seq < events {
            session.step(&tool).await?;
            if session.head.seq - kept >= SNAPSHOT_EVERY {
                let snapshot = Some(Box::new(session.state.clone()));
                let append = session.append_of(Fence::Owner { epoch: 0 }, Vec::new());
                session.store.append(&Append { snapshot, ..append }).await?;
                kept = session.head.seq;
            }
        }
        Ok(session)
    }

    pub(super) const fn id(&self) -> SessionId {
        self.id
    }

    pub(super) const fn n_events(&self) -> u64 {
        self.head.seq
    }

    /// A tool's call is proposed and runs, and its result is recorded: two appends.
    pub(super) async fn step(&mut self, tool: &ToolSpec) -> anyhow::Result<()> {
        let call = self.propose(tool).await?;
        let open = self.state.as_open().and_then(|open| open.call(call));
        let attempt = open.map_or(0, |call| call.attempts);
        let result = CallResult::Ok(Output::of_text("sunny"));
        let report = AttemptReport::Returned(Returned::from(result));
        self.input(Input::AttemptEnded(AttemptEnded { call, attempt, report })).await
    }

    /// A call is proposed and waits; someone who does not own the session decides; the owner goes
    /// on. Three appends, the second of which is the acknowledged decision.
    pub(super) async fn round_trip(&mut self, tool: &ToolSpec) -> anyhow::Result<()> {
        let call = self.propose(tool).await?;
        let resolved = Resolved {
            id: ResolutionId::from_bits(fresh_bits(Clock::System.now())?),
            call,
            round: None,
            by: Actor::system(),
            resolution: Resolution::Deny { note: None },
            policy: PolicyFacts::default(),
        };
        let now = Clock::System.now();
        let decision = accept(&self.state, now, Input::Resolved(resolved))?;
        self.commit(Fence::Anyone, now, decision.events, decision.state).await?;
        self.input(Input::Woken).await
    }

    async fn propose(&mut self, tool: &ToolSpec) -> anyhow::Result<CallId> {
        let proposal = proposal(tool, fresh_bits(Clock::System.now())?)?;
        let call = proposal.id;
        self.input(Input::CallsProposed(CallsProposed { calls: vec![proposal] })).await?;
        Ok(call)
    }

    async fn input(&mut self, input: Input) -> anyhow::Result<()> {
        let now = Clock::System.now();
        let decision = decide(&self.state, now, input)?;
        self.commit(Fence::Owner { epoch: 0 }, now, decision.events, decision.state).await
    }

    async fn commit(
        &mut self,
        fence: Fence,
        at: Timestamp,
        events: Vec<Event>,
        state: State,
    ) -> anyhow::Result<()> {
        let append = Append { at, ..self.append_of(fence, events) };
        self.head = self.store.append(&append).await?;
        self.state = state;
        Ok(())
    }

    fn append_of(&self, fence: Fence, events: Vec<Event>) -> Append {
        let at = Clock::System.now();
        Append {
            session: self.id,
            fence,
            expected: self.head,
            at,
            events,
            snapshot: None,
            // As a node does that goes on with what it has decided about.
            followed_by: FollowedBy::Appender { now: Moment::Clock, hold: Millis::from_secs(2) },
            request: None,
        }
    }

    /// Returns the mean size of what each of so many latest appends put into the log.
    pub(super) async fn bytes_per_append(
        &self,
        after: u64,
        appends: usize,
    ) -> anyhow::Result<usize> {
        let entries = self.store.entries(self.id, after, 100).await?;
        let bytes: usize = entries.iter().map(|entry| entry.body.len() + ENTRY_OVERHEAD).sum();
        Ok(bytes / appends)
    }
}

/// What an entry has beside its event: its hash, its session, its place, its time and its form.
const ENTRY_OVERHEAD: usize = 32 + 16 + 8 + 8;

/// What a model proposes.
pub(super) fn proposal(tool: &ToolSpec, id: u128) -> anyhow::Result<Proposal> {
    let arguments = [("amount".to_owned(), 12.into()), ("to".to_owned(), "Ann".into())];
    Ok(Proposal {
        id: CallId::from_bits(id),
        provider_id: ProviderCallId::new(format!("toolu_{id}"))?,
        name: tool.name.to_string(),
        check: Check::Sound(SoundCall {
            contract: Arc::clone(tool.contract()),
            arguments: Arguments::plain(arguments.into_iter().collect()),
            policy: PolicyFacts::default(),
            grants: Vec::new(),
        }),
    })
}

/// A tool that runs at once, or waits for an approval.
pub(super) fn tool(gate: Gate) -> anyhow::Result<ToolSpec> {
    let schema = Schema::new(r#"{"type":"object"}"#)?;
    let mut definition = Definition::new("refund".parse()?, "Refunds a charge.", schema);
    definition.facets = Facets { mutates: Some(Mutates::Irreversible), ..Facets::default() };
    definition.gate = gate;
    // Parking a million takes a while, and none may run out before its time.
    definition.suspend_ttl = Millis::from_secs(24 * 3600);
    Ok(ToolSpec::new(definition)?)
}
