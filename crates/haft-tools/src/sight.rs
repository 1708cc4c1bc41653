//! What one session may see of others: those of its own agent, and of its own tenant, alone.
//! Everything else is unknown to it, and said to be so in the same words.

use std::sync::Arc;

use haft_core::session::{
    ActiveGoal, Activity, Call, Event, Open, State, Suspension, SuspensionKind,
};
use haft_core::{Arguments, SessionId, Timestamp, ToolName};
use haft_runtime::{ToolContext, ToolError};
use haft_store::{ListedSession, Page, SessionFilter, Store};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::chronicle::{self, Run, Told, runs};
use crate::goal::{Assessment, Blocked, Facts, Shell, Sleep, assess};
use crate::hands::{Hand, Hands};
use crate::memory::{Memory, Target};
use crate::preflight::read_only_alternative;
use crate::recall::{Posture, Relation};

/// How much of a log's end is looked at.
const LOG_MOST: u64 = 4_096;
/// How many sessions of an agent are looked at.
const KIN_MOST: u32 = 200;

/// The session that a call runs for, and what it may see.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    store: Store,
    hands: Option<Hands>,
    pub(crate) own: ListedSession,
    agent: String,
}

/// Which sessions are meant, from where one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lineage {
    Related,
    Parent,
    Children,
    Siblings,
}

/// Whether the asking session is among those that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Current {
    Included,
    LeftOut,
}

impl Current {
    pub(crate) fn included(wanted: bool) -> Self {
        if wanted { Self::Included } else { Self::LeftOut }
    }
}

impl Viewer {
    /// From where a call runs.
    pub(crate) async fn of(context: &ToolContext) -> Result<Self, ToolError> {
        let store = context.store().ok_or_else(|| {
            ToolError::new("this call runs without a store, so no session is known")
        })?;
        let hands = context.services().get::<Hands>().cloned();
        // A session without a workspace can be looked at all the same.
        drop(Hands::of(context).await);
        Self::at(store, context.session(), hands).await
    }

    /// From where a session stands.
    pub(crate) async fn at(
        store: &Store,
        session: SessionId,
        hands: Option<Hands>,
    ) -> Result<Self, ToolError> {
        let own = listed(store, session, None).await?;
        let agent = agent_of(&own);
        Ok(Self { store: store.clone(), hands, own, agent })
    }

    /// The agent's name; a session that runs none is one of its own.
    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// What a session keeps, and what its agent does.
    pub(crate) fn memory(&self, session: SessionId) -> Memory<'_> {
        Memory { store: &self.store, tenant: &self.own.tenant, agent: &self.agent, session }
    }

    /// A session of the same agent; the asking one when none is named.
    pub(crate) async fn session(&self, named: Option<&str>) -> Result<ListedSession, ToolError> {
        let Some(named) = named else { return Ok(self.own.clone()) };
        let session: SessionId = named.parse().map_err(|_| unknown(named))?;
        if session == self.own.session {
            return Ok(self.own.clone());
        }
        let found = listed(&self.store, session, Some(&self.own)).await;
        found.ok().filter(|found| agent_of(found) == self.agent).ok_or_else(|| unknown(named))
    }

    /// A session that the asking one opened itself.
    pub(crate) async fn child(&self, named: &str) -> Result<ListedSession, ToolError> {
        let session: SessionId = named.parse().map_err(|_| unknown(named))?;
        let found = listed(&self.store, session, Some(&self.own)).await;
        let found = found.ok().filter(|found| self.is_kin(found));
        let found = found.ok_or_else(|| unknown(named))?;
        if found.parent != Some(self.own.session) {
            let message = format!(
                "expected a session that this one opened, found {}; `session_list_children` \
                 lists them",
                found.session
            );
            return Err(ToolError::invalid(message));
        }
        Ok(found)
    }

    /// Whether a session is one of the same agent, or works for the asking one as another.
    fn is_kin(&self, other: &ListedSession) -> bool {
        agent_of(other) == self.agent || other.parent == Some(self.own.session)
    }

    /// How a session is related to the asking one.
    pub(crate) fn relation(&self, other: &ListedSession) -> Option<Relation> {
        if other.session == self.own.session {
            return None;
        }
        if self.own.parent == Some(other.session) {
            return Some(Relation::Parent);
        }
        if other.parent == Some(self.own.session) {
            return Some(Relation::Child);
        }
        (other.parent.is_some() && other.parent == self.own.parent).then_some(Relation::Sibling)
    }

    /// The agent's sessions, the newest first.
    pub(crate) async fn kin(
        &self,
        lineage: Option<Lineage>,
        current: Current,
    ) -> Result<Vec<ListedSession>, ToolError> {
        let mut found = match lineage {
            None => {
                let agent = Some(self.agent.clone());
                self.listed(SessionFilter { agent, ..self.filter() }).await?
            }
            Some(Lineage::Parent) => self.parent().await?,
            Some(Lineage::Children) => self.below(Some(self.own.session)).await?,
            Some(Lineage::Siblings) => self.below(self.own.parent).await?,
            Some(Lineage::Related) => {
                let mut found = self.parent().await?;
                found.extend(self.below(Some(self.own.session)).await?);
                found.extend(self.below(self.own.parent).await?);
                found
            }
        };
        found.retain(|one| one.session != self.own.session && agent_of(one) == self.agent);
        if current == Current::Included {
            found.insert(0, self.own.clone());
        }
        Ok(found)
    }

    /// How many sessions a session opened.
    pub(crate) async fn n_children(&self, session: SessionId) -> Result<usize, ToolError> {
        Ok(self.below(Some(session)).await?.len())
    }

    pub(crate) async fn children(
        &self,
        session: SessionId,
    ) -> Result<Vec<ListedSession>, ToolError> {
        let mut found = self.below(Some(session)).await?;
        found.retain(|one| self.is_kin(one));
        Ok(found)
    }

    async fn parent(&self) -> Result<Vec<ListedSession>, ToolError> {
        let Some(parent) = self.own.parent else { return Ok(Vec::new()) };
        Ok(listed(&self.store, parent, Some(&self.own)).await.into_iter().collect())
    }

    async fn below(&self, parent: Option<SessionId>) -> Result<Vec<ListedSession>, ToolError> {
        match parent {
            Some(_) => self.listed(SessionFilter { parent, ..self.filter() }).await,
            None => Ok(Vec::new()),
        }
    }

    fn filter(&self) -> SessionFilter {
        SessionFilter { tenant: Some(self.own.tenant.clone()), ..SessionFilter::default() }
    }

    async fn listed(&self, filter: SessionFilter) -> Result<Vec<ListedSession>, ToolError> {
        Ok(self.store.sessions(&filter, &Page::first(KIN_MOST)).await?)
    }

    /// Looks at a session closely.
    pub(crate) async fn look(&self, listed: ListedSession) -> Result<Sight, ToolError> {
        let loaded = self.store.load(listed.session).await?;
        let loaded = loaded.ok_or_else(|| unknown(&listed.session.to_string()))?;
        let after = loaded.head.seq.saturating_sub(LOG_MOST);
        let log = chronicle::read(&self.store, listed.session, after, LOG_MOST).await?;
        let memory = self.memory(listed.session);
        let state = memory.latest(Target::SessionState).await?;
        let buffer = memory.latest(Target::WorkingBuffer).await?;
        let notes = [state, buffer].into_iter().flatten().map(|kept| kept.content).collect();
        let shell = self.shell(listed.session).await;
        let runs = runs(&log);
        let mut sight =
            Sight { listed, state: loaded.state, log, runs, notes, shell, blocked: None };
        sight.blocked = self.blocked(&sight).await;
        Ok(sight)
    }

    /// The asking session's hand; what others have is not for it to see.
    async fn hand(&self, session: SessionId) -> Option<Arc<Hand>> {
        if session != self.own.session {
            return None;
        }
        self.hands.as_ref()?.of_session(session).await.ok()
    }

    async fn shell(&self, session: SessionId) -> Shell {
        let hand = self.hand(session).await;
        let shell = hand.and_then(|hand| hand.shell());
        let busy = shell.is_some_and(|shell| shell.glance().is_some());
        if busy { Shell::Busy } else { Shell::Quiet }
    }

    async fn blocked(&self, sight: &Sight) -> Option<Blocked> {
        let waiting = sight.waiting()?;
        let mut alternative = None;
        if is_shell_text(&waiting.tool)
            && let Some(hand) = self.hand(sight.listed.session).await
        {
            let command = waiting.input.get("command").and_then(Value::as_str).unwrap_or_default();
            let found = read_only_alternative(command, &hand.cwd(), &hand.workspace().mounts);
            alternative =
                found.map(|found| (found.tool.to_string(), Value::Object(found.arguments)));
        }
        Some(Blocked { tool: waiting.tool, alternative })
    }
}

/// Whether a tool runs a text of a shell.
pub(crate) fn is_shell_text(tool: &str) -> bool {
    matches!(tool, "shell_run" | "shell_exec")
}

fn agent_of(listed: &ListedSession) -> String {
    listed.agent.clone().unwrap_or_else(|| listed.session.to_string())
}

fn unknown(named: &str) -> ToolError {
    let named: String = named.chars().take(64).collect();
    ToolError::invalid(format!("this agent has no session `{named}`; `session_list` lists them"))
}

async fn listed(
    store: &Store,
    session: SessionId,
    of: Option<&ListedSession>,
) -> Result<ListedSession, ToolError> {
    // A list goes on below an id, so this one comes first below the next.
    let above = SessionId::from_bits(session.bits().saturating_add(1));
    let tenant = of.map(|of| of.tenant.clone());
    let filter = SessionFilter { tenant, ..SessionFilter::default() };
    let found = store.sessions(&filter, &Page::after(above, 1)).await?;
    let found = found.into_iter().find(|found| found.session == session);
    found.ok_or_else(|| unknown(&session.to_string()))
}

/// A call that waits for someone, as it may be shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waiting {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) kind: &'static str,
    pub(crate) input: Value,
    pub(crate) value: Value,
}

/// A session, looked at closely.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) listed: ListedSession,
    pub(crate) state: State,
    pub(crate) log: Vec<Told>,
    pub(crate) runs: Vec<Run>,
    notes: Vec<String>,
    pub(crate) shell: Shell,
    pub(crate) blocked: Option<Blocked>,
}

impl Sight {
    pub(crate) fn open(&self) -> Option<&Open> {
        self.state.as_open()
    }

    /// The goal, and the place in the log where it was set.
    pub(crate) fn goal(&self) -> Option<(Arc<ActiveGoal>, u64)> {
        let set = self.log.iter().rev().find_map(|told| match &told.event {
            Event::GoalSet { goal, by } => {
                let (goal, by, at) = (goal.clone(), by.clone(), told.at);
                Some((Arc::new(ActiveGoal { goal, by, at }), told.seq))
            }
            _ => None,
        });
        // It may have been set before what was read of the log.
        set.or_else(|| Some((self.open()?.goal.clone()?, 0)))
    }

    /// How it stands with its goal.
    pub(crate) fn assessment(&self) -> Assessment {
        let goal = self.goal();
        let notes: Vec<&str> = self.notes.iter().map(String::as_str).collect();
        assess(&Facts {
            goal: goal.as_ref().map(|(active, _)| &active.goal),
            since: goal.as_ref().map_or(0, |(_, seq)| *seq),
            runs: &self.runs,
            notes: &notes,
            blocked: self.blocked.clone(),
            sleep: match self.open() {
                Some(open) if !open.wakes.is_empty() => Sleep::Scheduled,
                _ => Sleep::None,
            },
            shell: self.shell,
        })
    }

    /// Takes the session for one that waits for nobody, if it waits for this call only.
    pub(crate) fn disregard(&mut self, tool: &ToolName, arguments: &Arguments) {
        let is_it = |call: &Call| {
            call.contract.tool == *tool && call.arguments.record() == arguments.record()
        };
        if self.open().is_some_and(|open| open.waiting().all(|(call, _)| is_it(call))) {
            self.blocked = None;
        }
    }

    /// The call that has waited longest for someone.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let outside = |(_, wait): &(&Call, &Suspension)| wait.kind != SuspensionKind::Child;
        let (call, suspension) = self.open()?.waiting().find(outside)?;
        let tool = call.contract.tool.to_string();
        let (kind, input) = (pending_kind(suspension), json!(call.arguments.record()));
        let value = json!({
            "id": call.id,
            "toolName": tool,
            "ownership": call.contract.ownership,
            "permissionPolicy": if call.contract.gate.asks() { "always_ask" } else { "always_allow" },
            "input": input,
            "expiresAt": suspension.expires_at.to_string(),
        });
        Some(Waiting { id: call.id.to_string(), tool, kind, input, value })
    }

    /// Document 002's word for what it is doing.
    pub(crate) fn status(&self) -> &'static str {
        match (&self.state, self.waiting()) {
            (State::Ended { .. } | State::Unopened, _) => "terminated",
            (State::Open(_), Some(_)) => "requires_action",
            (State::Open(open), None) => match open.activity {
                Activity::Idle => "idle",
                _ => "running",
            },
        }
    }

    /// Why it last came to rest.
    pub(crate) fn stop_reason(&self) -> &'static str {
        match self.status() {
            "terminated" => "terminated",
            "requires_action" => "requires_action",
            _ => "idle",
        }
    }

    /// The latest thing that was said or done in a run that is over, or else in the current one.
    pub(crate) fn latest_summary(&self) -> Option<String> {
        self.runs.iter().rev().find_map(Run::summary)
    }

    pub(crate) fn last_run(&self) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.ending.is_some())
    }

    pub(crate) fn last_activity(&self) -> Timestamp {
        self.listed.updated_at
    }

    /// What every search says of the session that something was found in.
    pub(crate) fn posture(&self, viewer: &Viewer, setups: Setups<'_>) -> Posture {
        let waiting = self.waiting();
        let goal = self.goal();
        let assessed = goal.is_some().then(|| self.assessment().evaluation);
        let setup_match = match (setups.own, setups.theirs) {
            (Some(own), Some(theirs)) => Some(own == theirs),
            _ => None,
        };
        Posture {
            session_id: Some(self.listed.session.to_string()),
            setup_fingerprint: setups.theirs.map(str::to_owned),
            setup_match,
            session_relation: viewer.relation(&self.listed),
            requires_action: waiting.is_some(),
            pending_action_kind: waiting.as_ref().map(|waiting| waiting.kind),
            pending_action_tool_name: waiting.map(|waiting| waiting.tool),
            outcome_status: assessed.as_ref().map(|one| one.status.name()),
            promotion_ready: assessed.as_ref().map(|one| one.promotion_ready),
            outcome_trend: assessed.as_ref().map(|one| one.trend.name()),
            goal_affinity: affinity(setups.goal, goal.as_ref().map(|(active, _)| &**active)),
        }
    }
}

/// What two sessions' setups and goals are compared by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setups<'a> {
    pub(crate) own: Option<&'a str>,
    pub(crate) theirs: Option<&'a str>,
    pub(crate) goal: Option<&'a ActiveGoal>,
}

/// 3 for the same title, 1 or 2 for criteria in common.
fn affinity(own: Option<&ActiveGoal>, theirs: Option<&ActiveGoal>) -> u32 {
    let (Some(own), Some(theirs)) = (own, theirs) else { return 0 };
    if own.goal.title().eq_ignore_ascii_case(theirs.goal.title()) {
        return 3;
    }
    let shared = own.goal.criteria().iter().filter(|one| theirs.goal.criteria().contains(one));
    u32::try_from(shared.count().min(2)).unwrap_or(2)
}

fn pending_kind(suspension: &Suspension) -> &'static str {
    match suspension.kind {
        SuspensionKind::Approval | SuspensionKind::Settlement => "tool_confirmation",
        SuspensionKind::ClientExec | SuspensionKind::Elicitation | SuspensionKind::Child => {
            "custom_tool"
        }
    }
}
