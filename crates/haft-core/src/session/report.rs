//! What a child tells the session at the top, where its people are.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::TurnEnding;
use super::state::{Activity, Call, Open, State};
use super::suspension::{Suspension, SuspensionKind};
use super::toolset::McpTool;
use crate::id::{CallId, SessionId};
use crate::tool::Executor;

/// Where a child stands, as the session at the top is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The child.
    pub child: SessionId,
    /// The id of its agent, when it runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where its log ended: of two reports, the one with the longer log is true.
    pub seq: u64,
    /// What it does.
    pub word: Word,
}

/// What a child does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Word {
    /// It goes on by itself.
    AtWork,
    /// It goes on when someone has ended one of these waits.
    Asking {
        /// What it asks.
        asks: Vec<Ask>,
    },
    /// A run is over.
    AtRest {
        /// The turn that ended it.
        turn: u32,
        /// How.
        ending: TurnEnding,
    },
    /// It has ended.
    Over,
}

/// A call of a child that waits for someone, in the words of the child's agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The call.
    pub call: CallId,
    /// Which wait of it.
    pub round: u32,
    /// What is waited for.
    pub kind: SuspensionKind,
    /// What the child calls the tool.
    pub tool: String,
    /// Who produces the result.
    pub executor: Executor,
    /// Which tool of which MCP server it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpTool>,
    /// The arguments, as they may be shown.
    pub arguments: Map<String, Value>,
}

/// A [`Word`] without its details: enough to tell whether there is news.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Standing {
    AtWork,
    Asking(Vec<(CallId, u32)>),
    AtRest(u32),
    Over,
}

/// What the session at the top has heard of a child last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Heard {
    pub(super) child: SessionId,
    pub(super) seq: u64,
    pub(super) standing: Standing,
}

impl Ask {
    fn of(open: &Open, call: &Call, wait: &Suspension) -> Self {
        let toolset = &open.config.toolset;
        let tool = &call.contract.tool;
        Self {
            call: call.id,
            round: wait.round,
            kind: wait.kind,
            tool: toolset.called(tool.as_str()).to_owned(),
            executor: call.contract.executor,
            mcp: toolset.mcp.get(tool).cloned(),
            arguments: call.arguments.record().clone(),
        }
    }
}

impl Standing {
    pub(super) fn of(state: &State) -> Self {
        let State::Open(open) = state else { return Self::Over };
        let is_called = !open.inbox.is_empty() || !open.due.is_empty();
        match open.activity {
            Activity::Idle if open.turn > 0 && !is_called => Self::AtRest(open.turn),
            Activity::Acting if open.only_waits() && open.waiting().next().is_some() => {
                let waits = open.waiting().map(|(call, wait)| (call.id, wait.round));
                Self::Asking(waits.collect())
            }
            Activity::Idle | Activity::Acting | Activity::Thinking { .. } => Self::AtWork,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::AtRest(_) | Self::Over)
    }
}

impl Word {
    /// Returns what a session does; `ending` is how a turn of it ended.
    pub fn of(state: &State, ending: impl FnOnce(u32) -> TurnEnding) -> Self {
        match (Standing::of(state), state) {
            (Standing::Asking(_), State::Open(open)) => {
                let asks = open.waiting().map(|(call, wait)| Ask::of(open, call, wait));
                Self::Asking { asks: asks.collect() }
            }
            (Standing::AtWork | Standing::Asking(_), _) => Self::AtWork,
            (Standing::AtRest(turn), _) => Self::AtRest { turn, ending: ending(turn) },
            (Standing::Over, _) => Self::Over,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        match self {
            Self::AtWork => Standing::AtWork,
            Self::Asking { asks } => {
                Standing::Asking(asks.iter().map(|ask| (ask.call, ask.round)).collect())
            }
            Self::AtRest { turn, .. } => Standing::AtRest(*turn),
            Self::Over => Standing::Over,
        }
    }
}
