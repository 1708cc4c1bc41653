//! What works below a session, shown at the session.

use std::collections::BTreeMap;

use haft_core::permission::Verdict;
use haft_core::session::{Ask, Report, SuspensionKind, Word};
use haft_core::tool::Executor;
use haft_core::{CallId, SessionId};
use serde_json::{Map, Value, json};

use super::{
    ARGUMENTS_CHANGED, Activity, Projection, Told, permission, requires_action, stop_reason,
    thread_id, use_id,
};

/// What is known of a session below.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    agent: Option<String>,
    is_at_work: bool,
    /// The ids of the events that show the calls that wait for someone.
    pub(super) asks: Vec<String>,
    /// The calls that were shown since it last rested.
    shown: BTreeMap<CallId, ShownAsk>,
}

/// A call of a session below, as it was shown last.
#[derive(Debug, Clone)]
struct ShownAsk {
    /// What it waited for last.
    kind: SuspensionKind,
    /// The arguments that the latest event shows.
    arguments: Map<String, Value>,
    /// How often it was shown again because an approver changed the arguments.
    n_edits: u32,
}

impl Projection {
    /// What works below is shown here too, so that whoever watches only this session can answer.
    pub(super) fn report(&mut self, report: &Report) {
        let mut thread = self.threads.remove(&report.child).unwrap_or_default();
        thread.agent = report.agent.clone().or(thread.agent);
        thread.is_at_work = report.word == Word::AtWork;
        thread.asks.clear();
        let mut members = json!({
            "session_thread_id": thread_id(report.child),
            "agent_name": self.agent_name(thread.agent.as_deref()),
        });
        let kind = match &report.word {
            Word::AtWork => "session.thread_status_running",
            Word::Asking { asks } => {
                for ask in asks {
                    let shown = thread.shown.remove(&ask.call);
                    let shown = self.ask_for(report.child, ask, shown);
                    thread.asks.push(use_id(ask.call, shown.n_edits));
                    thread.shown.insert(ask.call, shown);
                }
                members["stop_reason"] = requires_action(&thread.asks);
                "session.thread_status_idle"
            }
            Word::AtRest { ending, .. } => {
                thread.shown.clear();
                members["stop_reason"] = json!({ "type": stop_reason(ending) });
                "session.thread_status_idle"
            }
            Word::Over => "session.thread_status_terminated",
        };
        self.emit(kind, None, members);
        if report.word != Word::Over {
            self.threads.insert(report.child, thread);
        }
        if self.blocked_on().is_empty() {
            self.tell_unblocked();
        }
    }

    /// Tells what the session does while nobody is waited for, when that is news.
    fn tell_unblocked(&mut self) {
        let is_at_work = self.threads.values().any(|thread| thread.is_at_work);
        let at_rest = Told::Idle { blocked_on: Vec::new() };
        match self.activity {
            Activity::Acting | Activity::Thinking => self.tell_running(),
            // It had come to rest, and that it waits for nobody was told.
            Activity::Idle if self.told == at_rest => {}
            Activity::Idle if is_at_work => self.tell_running(),
            Activity::Idle => {
                self.told = at_rest;
                let reason = json!({ "type": "end_turn" });
                self.emit("session.status_idle", None, json!({ "stop_reason": reason }));
            }
        }
    }

    /// Shows a call of a session below that waits for someone, unless it was shown as it is.
    fn ask_for(&mut self, thread: SessionId, ask: &Ask, shown: Option<ShownAsk>) -> ShownAsk {
        let Some(mut shown) = shown else {
            let is_asked = !is_theirs(ask) || ask.kind == SuspensionKind::Approval;
            self.show_use(thread, ask, 0, is_asked);
            return ShownAsk { kind: ask.kind, arguments: ask.arguments.clone(), n_edits: 0 };
        };
        // A client holds a call that waited for a yes; that it now waits for the client is the yes.
        let is_approved =
            shown.kind == SuspensionKind::Approval && ask.kind == SuspensionKind::ClientExec;
        shown.kind = ask.kind;
        if !is_approved {
            return shown;
        }
        let used = use_id(ask.call, shown.n_edits);
        if shown.arguments == ask.arguments {
            let members = json!({ "tool_use_id": used, "result": "allow" });
            self.emit("user.tool_confirmation", None, members);
            return shown;
        }
        let members =
            json!({ "tool_use_id": used, "result": "deny", "deny_message": ARGUMENTS_CHANGED });
        self.emit("user.tool_confirmation", None, members);
        shown.n_edits += 1;
        shown.arguments = ask.arguments.clone();
        self.show_use(thread, ask, shown.n_edits, false);
        shown
    }

    /// Shows a call of a session below with the arguments that it has now.
    fn show_use(&mut self, thread: SessionId, ask: &Ask, n_edits: u32, is_asked: bool) {
        let mut members = json!({
            "name": ask.tool, "input": ask.arguments, "session_thread_id": thread_id(thread),
        });
        if is_asked {
            members["evaluated_permission"] = permission(Verdict::Ask).into();
        }
        let kind = match &ask.mcp {
            _ if is_theirs(ask) => "agent.custom_tool_use",
            None => "agent.tool_use",
            Some(mcp) => {
                members["name"] = mcp.tool.as_str().into();
                members["mcp_server_name"] = mcp.server.as_str().into();
                "agent.mcp_tool_use"
            }
        };
        self.emit(kind, Some(use_id(ask.call, n_edits)), members);
    }
}

/// Whether the result of a call comes from outside.
fn is_theirs(ask: &Ask) -> bool {
    matches!(ask.executor, Executor::Client | Executor::Human)
}
