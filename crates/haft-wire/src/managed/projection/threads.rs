//! What works below a session, shown at the session.

use std::collections::BTreeMap;

use haft_core::permission::Verdict;
use haft_core::session::{Ask, Report, SuspensionKind, Word};
use haft_core::tool::Executor;
use haft_core::{CallId, SessionId};
use serde_json::json;

use super::{Activity, Projection, Told, permission, requires_action, stop_reason, thread_id};

/// What is known of a session below.
#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    agent: Option<String>,
    is_at_work: bool,
    /// The calls that wait for someone.
    pub(super) asks: Vec<CallId>,
    /// The calls that were shown since it last rested, each with what it waited for last.
    shown: BTreeMap<CallId, SuspensionKind>,
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
                    match thread.shown.insert(ask.call, ask.kind) {
                        None => self.ask_for(report.child, ask),
                        Some(before) => self.confirm_below(before, ask),
                    }
                }
                thread.asks = asks.iter().map(|ask| ask.call).collect();
                let ids: Vec<String> = thread.asks.iter().map(ToString::to_string).collect();
                members["stop_reason"] = requires_action(&ids);
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

    /// Shows a call of a session below that waits for someone.
    fn ask_for(&mut self, thread: SessionId, ask: &Ask) {
        let is_theirs = matches!(ask.executor, Executor::Client | Executor::Human);
        let mut members = json!({
            "name": ask.tool, "input": ask.arguments, "session_thread_id": thread_id(thread),
        });
        if !is_theirs || ask.kind == SuspensionKind::Approval {
            members["evaluated_permission"] = permission(Verdict::Ask).into();
        }
        let kind = match &ask.mcp {
            _ if is_theirs => "agent.custom_tool_use",
            None => "agent.tool_use",
            Some(mcp) => {
                members["name"] = mcp.tool.as_str().into();
                members["mcp_server_name"] = mcp.server.as_str().into();
                "agent.mcp_tool_use"
            }
        };
        self.emit(kind, Some(ask.call.to_string()), members);
    }

    /// A client holds a call that waited for a yes; that it now waits for the client is the yes.
    fn confirm_below(&mut self, before: SuspensionKind, ask: &Ask) {
        if before == SuspensionKind::Approval && ask.kind == SuspensionKind::ClientExec {
            let members = json!({ "tool_use_id": ask.call.to_string(), "result": "allow" });
            self.emit("user.tool_confirmation", None, members);
        }
    }
}
