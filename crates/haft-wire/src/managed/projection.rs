//! A session's log as the API's events.

mod threads;

use std::collections::BTreeMap;
use std::mem;

use haft_core::journal::{Entry, JournalError};
use haft_core::json::{JsonLimits, parse_object};
use haft_core::permission::Verdict;
use haft_core::session::{
    Colleague, Decided, Delegation, Event, InterruptCause, Rejection, SuspensionKind, Toolset,
    TurnEnding, Usage,
};
use haft_core::tool::Executor;
use haft_core::{CallId, CallResult, ErrorClass, Failure, Outcome, SessionId, Timestamp};
use serde_json::{Map, Value, json};

use self::threads::Thread;
use super::event::{Place, WireEvent};
use super::spans::{Spent, usage_of};
use super::{blocks, output_blocks, result_blocks};

/// Why a client does not run a call as it was shown, although somebody approved it.
const ARGUMENTS_CHANGED: &str = "the approver changed the arguments; the call goes on with those";

/// Folds a log into the events that the outside sees.
///
/// That a session waits is what an append leads to as a whole, so it is told when the next one
/// begins, or when [`Projection::settle`] says that there is none yet. Where one begins follows
/// from the events alone, so that whoever read while it happened and whoever reads it all later
/// are told the same.
#[derive(Debug, Clone)]
pub struct Projection {
    session: SessionId,
    toolset: Toolset,
    /// The names of the agents to which it gives work, by their ids.
    colleagues: BTreeMap<String, String>,
    activity: Activity,
    told: Told,
    calls: Vec<OpenCall>,
    /// What works below the session, as it told last.
    threads: BTreeMap<SessionId, Thread>,
    /// Whether calls that wait are ended because of what came before, and not each by itself.
    is_sweeping: bool,
    /// The event that says that the model was asked, while it has not answered.
    asked: Option<String>,
    spent: Spent,
    /// The last turn that the model has answered, or that ended otherwise.
    answered: u32,
    has_ended: bool,
    at: Timestamp,
    place: Place,
    out: Vec<WireEvent>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Thinking,
    Acting,
}

/// What the outside was last told about the session.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Idle { blocked_on: Vec<String> },
    Running,
}

#[derive(Debug, Clone)]
struct OpenCall {
    id: CallId,
    side: Side,
    /// The tool's name and arguments, kept for a client's call that may be shown again.
    use_shown: Option<ShownUse>,
    waits_for: Awaited,
}

/// A call that a client runs, as it was shown to the client.
#[derive(Debug, Clone)]
struct ShownUse {
    name: String,
    input: Map<String, Value>,
    /// How often an approver changed the arguments. Each change is shown as a use of its own,
    /// because the client must not run what was proposed first.
    n_edits: u32,
    /// Whether the arguments were changed and the client has not been shown that yet.
    is_stale: bool,
}

impl OpenCall {
    /// The id of the event that shows the call as it may run.
    fn use_id(&self) -> String {
        use_id(self.id, self.use_shown.as_ref().map_or(0, |shown| shown.n_edits))
    }
}

/// For whom a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Nobody,
    /// Somebody's yes or no.
    Approval,
    /// An answer or a result.
    Someone,
    /// It goes on by itself once that is done.
    Child,
}

/// Who produces the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    /// Ours, by an MCP server.
    Mcp,
    Theirs,
}

impl Projection {
    /// A projection that has read nothing.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            toolset: Toolset::default(),
            colleagues: BTreeMap::new(),
            activity: Activity::Idle,
            told: Told::Idle { blocked_on: Vec::new() },
            calls: Vec::new(),
            threads: BTreeMap::new(),
            is_sweeping: false,
            asked: None,
            spent: Spent::default(),
            answered: 0,
            has_ended: false,
            at: Timestamp::default(),
            place: Place::default(),
            out: Vec::new(),
        }
    }

    /// Takes the next entry and returns the events that are certain by now.
    ///
    /// # Errors
    ///
    /// When the entry cannot be read.
    pub fn take(&mut self, entry: &Entry) -> Result<Vec<WireEvent>, JournalError> {
        let event = entry.event()?;
        if !self.continues(&event) {
            self.tell_waiting();
        }
        self.at = entry.at;
        self.place = Place { seq: entry.seq, nth: 0 };
        self.evolve(event);
        Ok(mem::take(&mut self.out))
    }

    /// Returns what the entries so far lead to, given that no more were appended with them.
    pub fn settle(&mut self) -> Vec<WireEvent> {
        self.tell_waiting();
        mem::take(&mut self.out)
    }

    /// Whether an event that comes while all calls wait belongs to the append before it. Of those
    /// that do not begin one, only these can come then.
    fn continues(&mut self, event: &Event) -> bool {
        match event {
            Event::SessionInterrupted { .. }
            | Event::SessionEnding { .. }
            | Event::MessageReceived { .. } => {
                self.is_sweeping = true;
                false
            }
            Event::CallFinished { .. } | Event::CallCancelling { .. } => self.is_sweeping,
            Event::CallProposed { .. }
            | Event::CallRejected { .. }
            | Event::CallSuspended { .. }
            | Event::CallResolved { decision: Decided::Granted { .. }, .. }
            | Event::TurnEnded { .. }
            | Event::SessionEnded {} => true,
            _ => {
                self.is_sweeping = false;
                false
            }
        }
    }

    /// Returns what the session has cost so far.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    /// Returns the last turn in which the model will say nothing more.
    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// Returns whether the session has ended: nothing more is appended to its log.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn evolve(&mut self, event: Event) {
        match event {
            Event::SessionOpened { config, .. } | Event::SessionReconfigured { config, .. } => {
                self.toolset = config.toolset.clone();
                let named = |colleague: &Colleague| {
                    Some((colleague.id()?.to_owned(), colleague.name.clone()))
                };
                self.colleagues = config.roster.iter().filter_map(named).collect();
            }
            Event::SessionInterrupted { cause: InterruptCause::Asked, .. } => {
                // It reaches what works below, too.
                self.threads.values_mut().for_each(|thread| thread.asks.clear());
                self.emit("user.interrupt", None, json!({}));
            }
            Event::SessionEnded {} => {
                self.has_ended = true;
                self.activity = Activity::Idle;
                self.threads.clear();
                self.emit("session.status_terminated", None, json!({}));
            }
            Event::MessageReceived { message, content, .. } => {
                let members = json!({ "content": blocks(&content) });
                self.emit("user.message", Some(message.to_string()), members);
            }
            Event::TurnStarted { .. } => {
                self.activity = Activity::Thinking;
                self.calls.clear();
                self.tell_running();
                self.ask();
            }
            Event::TurnRetried { .. } => {
                self.tell_answered(None, true);
                self.ask();
            }
            Event::TurnAnswered { turn, content, usage, .. } => {
                self.activity = Activity::Acting;
                self.answered = turn;
                if !content.is_empty() {
                    let id = message_id(self.session, turn);
                    let members = json!({ "content": blocks(&content) });
                    self.emit("agent.message", Some(id), members);
                }
                self.tell_answered(usage, false);
            }
            Event::ContextSummarised { summary } => {
                self.spent.add(summary.usage);
                self.emit("agent.thread_context_compacted", None, json!({}));
            }
            Event::TurnEnded { turn, ending } => {
                self.answered = turn;
                self.end_turn(&ending);
            }
            event => self.evolve_call(event),
        }
    }

    /// What has no words in the API leads to no event.
    fn evolve_call(&mut self, event: Event) {
        match event {
            Event::CallDelegated { delegation, .. } => self.delegate(&delegation),
            Event::CallProposed { call, contract, arguments, derivation, .. } => {
                let (tool, input) = (contract.tool.as_str(), arguments.record());
                self.propose(call, contract.executor, tool, input, derivation.decision);
            }
            Event::CallRejected { call, name, rejection, .. } => {
                self.reject(call, &name, &rejection);
            }
            Event::CallSuspended { call, kind: SuspensionKind::Child, .. } => {
                self.set_awaited(call, Awaited::Child);
            }
            Event::CallSuspended { call, kind: SuspensionKind::Approval, .. } => {
                self.set_awaited(call, Awaited::Approval);
            }
            Event::CallSuspended { call, .. } => {
                self.set_awaited(call, Awaited::Someone);
                self.show_edited_use(call);
            }
            Event::CallPreviewing { call, .. } => {
                self.set_awaited(call, Awaited::Nobody);
                self.tell_running();
            }
            Event::CallAdmitted { .. } | Event::CallQueued { .. } | Event::CallStarted { .. } => {
                self.tell_running();
            }
            Event::CallResolved { call, resolution, decision, .. } => {
                // What a sub-agent did is told as the result of the call.
                let waited_for = self.set_awaited(call, Awaited::Nobody);
                if waited_for != Some(Awaited::Child) {
                    let id = resolution.map(|id| id.to_string());
                    self.resolve(call, waited_for, id, &decision);
                }
            }
            Event::CallFinished { outcome } => self.finish(&outcome),
            Event::ChildReported { report } => self.report(&report),
            Event::SessionOpened { .. }
            | Event::SessionReconfigured { .. }
            | Event::SessionInterrupted { .. }
            | Event::SessionEnding { .. }
            | Event::SessionEnded {}
            | Event::SessionRestored { .. }
            | Event::MessageReceived { .. }
            | Event::TurnStarted { .. }
            | Event::TurnRetried { .. }
            | Event::TurnAnswered { .. }
            | Event::TurnEnded { .. }
            | Event::ContextSummarised { .. }
            | Event::LoopDirected { .. }
            | Event::WakeQueued { .. }
            | Event::WakeFellDue { .. }
            | Event::WakeCancelled { .. }
            | Event::LearningCaptured { .. }
            | Event::ChildStopped { .. }
            | Event::ParentTold { .. }
            | Event::CallRetryScheduled { .. }
            | Event::CallInterrupted { .. }
            | Event::CallVerified { .. }
            | Event::CallCancelling { .. }
            | Event::CallRedefined { .. }
            | Event::CallBarred { .. }
            | Event::ProviderResultIgnored { .. }
            | Event::GoalSet { .. }
            | Event::GrantAdded { .. }
            | Event::GrantRevoked { .. }
            | Event::CallEndorsed { .. } => {}
        }
    }

    fn ask(&mut self) {
        self.emit("span.model_request_start", None, json!({}));
        self.asked = self.out.last().map(|event| event.id.clone());
    }

    /// Ends the span of a question that the model answered, or did not.
    fn tell_answered(&mut self, usage: Option<Usage>, is_error: bool) {
        self.spent.add(usage);
        let Some(asked) = self.asked.take() else { return };
        let members = json!({
            "model_request_start_id": asked, "is_error": is_error, "model_usage": usage_of(usage),
        });
        self.emit("span.model_request_end", None, members);
    }

    fn delegate(&mut self, delegation: &Delegation) {
        let agent = delegation.config.agent.as_ref();
        let members = json!({
            "session_thread_id": thread_id(delegation.child),
            "agent_name": self.agent_name(agent.map(|agent| agent.id.as_str())),
        });
        self.emit("session.thread_created", None, members);
    }

    fn agent_name<'a>(&'a self, id: Option<&'a str>) -> &'a str {
        let Some(id) = id else { return "sub-agent" };
        self.colleagues.get(id).map_or(id, String::as_str)
    }

    fn propose(
        &mut self,
        id: CallId,
        executor: Executor,
        tool: &str,
        input: &Map<String, Value>,
        decision: Verdict,
    ) {
        let mcp = self.toolset.mcp.iter().find(|(name, _)| name.as_str() == tool);
        let mcp = mcp.map(|(_, mcp)| mcp.clone());
        let side = match executor {
            Executor::Server | Executor::Provider if mcp.is_some() => Side::Mcp,
            Executor::Server | Executor::Provider => Side::Ours,
            Executor::Client | Executor::Human => Side::Theirs,
        };
        let name = self.toolset.called(tool).to_owned();
        let shown =
            || ShownUse { name: name.clone(), input: input.clone(), n_edits: 0, is_stale: false };
        let use_shown = (side == Side::Theirs).then(shown);
        self.calls.push(OpenCall { id, side, use_shown, waits_for: Awaited::Nobody });
        let mut members = json!({ "name": name, "input": input });
        let kind = match side {
            Side::Ours => {
                members["evaluated_permission"] = permission(decision).into();
                "agent.tool_use"
            }
            Side::Mcp => {
                members["evaluated_permission"] = permission(decision).into();
                if let Some(mcp) = mcp {
                    members["name"] = mcp.tool.into();
                    members["mcp_server_name"] = mcp.server.into();
                }
                "agent.mcp_tool_use"
            }
            Side::Theirs => {
                // The SDKs' tool runners hold such a call until it is confirmed.
                if executor == Executor::Client && decision == Verdict::Ask {
                    members["evaluated_permission"] = permission(decision).into();
                }
                "agent.custom_tool_use"
            }
        };
        self.emit(kind, Some(id.to_string()), members);
    }

    /// Shows a client's call once more after its approver changed the arguments.
    fn show_edited_use(&mut self, call: CallId) {
        let open = self.calls.iter_mut().find(|open| open.id == call);
        let Some(open) = open else { return };
        let Some(shown) = open.use_shown.as_mut().filter(|shown| shown.is_stale) else { return };
        shown.is_stale = false;
        let members = json!({ "name": shown.name, "input": shown.input });
        let id = open.use_id();
        self.emit("agent.custom_tool_use", Some(id), members);
    }

    /// A call that never came to be is shown with its refusal, so that every use has a result.
    fn reject(&mut self, call: CallId, name: &str, rejection: &Rejection) {
        if !self.calls.iter().any(|open| open.id == call) {
            let raw = rejection.raw_arguments.as_deref().unwrap_or_default();
            let input = parse_object(raw.as_bytes(), JsonLimits::default()).unwrap_or_default();
            self.propose(call, Executor::Server, name, &input, Verdict::Deny);
        }
        let failure = Failure::new(rejection.reason.class(), &rejection.message);
        self.tell_result(call, &CallResult::Err(failure));
    }

    fn finish(&mut self, outcome: &Outcome) {
        self.tell_result(outcome.call, &outcome.result);
    }

    /// A result that came from outside was told when it came.
    fn tell_result(&mut self, call: CallId, result: &CallResult) {
        let Some(at) = self.calls.iter().position(|open| open.id == call) else { return };
        let open = self.calls.remove(at);
        let (kind, used) = match open.side {
            Side::Ours => ("agent.tool_result", "tool_use_id"),
            Side::Mcp => ("agent.mcp_tool_result", "mcp_tool_use_id"),
            Side::Theirs => return,
        };
        let (content, is_error) = result_blocks(result);
        let members = json!({ used: call.to_string(), "content": content, "is_error": is_error });
        self.emit(kind, None, members);
    }

    fn resolve(
        &mut self,
        call: CallId,
        waited_for: Option<Awaited>,
        id: Option<String>,
        decision: &Decided,
    ) {
        let open = self.calls.iter_mut().find(|open| open.id == call);
        let (is_theirs, use_id) = match &open {
            Some(open) => (open.side == Side::Theirs, open.use_id()),
            None => (false, call.to_string()),
        };
        let is_approval = waited_for == Some(Awaited::Approval);
        let confirmed = |result: &str, message: Option<&str>| {
            let mut members = json!({ "tool_use_id": use_id, "result": result });
            if let Some(message) = message {
                members["deny_message"] = message.into();
            }
            members
        };
        let returned = |content: Value, is_error: bool| json!({ "custom_tool_use_id": use_id, "content": content, "is_error": is_error });
        let (confirmation, result) = ("user.tool_confirmation", "user.custom_tool_result");
        let (kind, members) = match decision {
            Decided::Approve { arguments: Some(arguments), .. } if is_theirs => {
                if let Some(shown) = open.and_then(|open| open.use_shown.as_mut()) {
                    shown.input = arguments.record().clone();
                    shown.n_edits += 1;
                    shown.is_stale = true;
                }
                (confirmation, confirmed("deny", Some(ARGUMENTS_CHANGED)))
            }
            Decided::Approve { .. } => (confirmation, confirmed("allow", None)),
            // A client holds its call until it is told that it may run.
            Decided::Granted { .. } if is_theirs && is_approval => {
                (confirmation, confirmed("allow", None))
            }
            Decided::Deny { note } if is_theirs && !is_approval => {
                let said = note.as_deref().unwrap_or("declined");
                (result, returned(json!([{ "type": "text", "text": said }]), true))
            }
            Decided::Deny { note } => (confirmation, confirmed("deny", note.as_deref())),
            Decided::Answer { output } => (result, returned(output_blocks(output), false)),
            Decided::Result { result: came, .. } => {
                let (content, is_error) = result_blocks(came);
                (result, returned(content, is_error))
            }
            // The API has no words for these; what follows from them is told.
            Decided::Granted { .. }
            | Decided::Happened { .. }
            | Decided::RunAgain
            | Decided::GiveUp
            | Decided::Expired
            | Decided::ClientGone => return,
        };
        self.emit(kind, id, members);
    }

    fn end_turn(&mut self, ending: &TurnEnding) {
        self.activity = Activity::Idle;
        self.calls.clear();
        self.tell_answered(None, true);
        match ending {
            TurnEnding::Completed
            | TurnEnding::Settled
            | TurnEnding::Terminal
            | TurnEnding::Interrupted => {}
            TurnEnding::Limit { limit } => {
                let message =
                    format!("the run reached its limit `{limit}`; say something to go on");
                self.tell_error("tool_use_limit_reached_error", &message);
            }
            TurnEnding::Failed { failure } => {
                let kind = match failure.class {
                    ErrorClass::RateLimited => "model_rate_limited_error",
                    _ => "model_request_failed_error",
                };
                self.tell_error(kind, &failure.message);
            }
        }
        self.told = Told::Idle { blocked_on: Vec::new() };
        let reason = json!({ "type": stop_reason(ending) });
        self.emit("session.status_idle", None, json!({ "stop_reason": reason }));
    }

    fn tell_error(&mut self, kind: &str, message: &str) {
        let retry_status = json!({ "type": "exhausted" });
        let error = json!({ "type": kind, "message": message, "retry_status": retry_status });
        self.emit("session.error", None, json!({ "error": error }));
    }

    /// Returns for whom it waited until then.
    fn set_awaited(&mut self, call: CallId, waits_for: Awaited) -> Option<Awaited> {
        let open = self.calls.iter_mut().find(|open| open.id == call)?;
        Some(mem::replace(&mut open.waits_for, waits_for))
    }

    /// Tells that the session waits for someone, and for what, when that is news.
    fn tell_waiting(&mut self) {
        let blocked_on = self.blocked_on();
        let rests = match self.activity {
            Activity::Thinking => false,
            Activity::Acting => self.calls.iter().all(|call| call.waits_for != Awaited::Nobody),
            // What works below goes on without it.
            Activity::Idle => true,
        };
        let reason = requires_action(&blocked_on);
        let is_blocked = rests && !blocked_on.is_empty();
        let told = Told::Idle { blocked_on };
        if !is_blocked || self.told == told {
            return;
        }
        self.told = told;
        self.emit("session.status_idle", None, json!({ "stop_reason": reason }));
    }

    /// The calls that wait for someone, here and below.
    fn blocked_on(&self) -> Vec<String> {
        let is_waiting =
            |call: &&OpenCall| matches!(call.waits_for, Awaited::Approval | Awaited::Someone);
        let waiting = self.calls.iter().filter(is_waiting).map(OpenCall::use_id);
        let below = self.threads.values().flat_map(|thread| &thread.asks);
        waiting.chain(below.cloned()).collect()
    }

    fn tell_running(&mut self) {
        if self.told != Told::Running {
            self.told = Told::Running;
            self.emit("session.status_running", None, json!({}));
        }
    }

    fn emit(&mut self, kind: &'static str, id: Option<String>, members: Value) {
        self.place.nth += 1;
        let id = id.unwrap_or_else(|| {
            format!("sevt_{}_{}_{}", bare(self.session), self.place.seq, self.place.nth)
        });
        let mut body = Map::new();
        body.insert("id".to_owned(), id.clone().into());
        body.insert("type".to_owned(), kind.into());
        body.insert("processed_at".to_owned(), self.at.to_string().into());
        if let Value::Object(members) = members {
            body.extend(members);
        }
        self.out.push(WireEvent { place: self.place, kind, id, body });
    }
}

/// The id of what the model says in a turn, known before it has said it.
pub(crate) fn message_id(session: SessionId, turn: u32) -> String {
    format!("sevt_{}_turn_{turn}", bare(session))
}

/// The id of a session as a thread of the session that it works for; a session that works for
/// nobody is its own main thread.
pub fn thread_id(session: SessionId) -> String {
    format!("sthr_{}", bare(session))
}

pub(super) fn bare(session: SessionId) -> String {
    session.to_string().trim_start_matches("sesn_").to_owned()
}

/// Returns the id of the event that shows a call after its arguments were changed so often.
fn use_id(call: CallId, n_edits: u32) -> String {
    match n_edits {
        0 => call.to_string(),
        _ => format!("{call}.{n_edits}"),
    }
}

fn requires_action(ids: &[String]) -> Value {
    json!({ "type": "requires_action", "event_ids": ids })
}

const fn stop_reason(ending: &TurnEnding) -> &'static str {
    match ending {
        TurnEnding::Completed
        | TurnEnding::Settled
        | TurnEnding::Terminal
        | TurnEnding::Interrupted
        | TurnEnding::Limit { .. } => "end_turn",
        TurnEnding::Failed { .. } => "retries_exhausted",
    }
}

const fn permission(decision: Verdict) -> &'static str {
    match decision {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_core::journal::Head;
    use haft_core::session::{Ask, Config, Report, SuspendReason, Usage, Word};
    use haft_core::tool::Contract;
    use haft_core::{Actor, ContentBlock, Directives, MessageId, Provenance};

    use super::*;

    const SESSION: SessionId = SessionId::from_bits(1);

    fn log(events: Vec<(i64, Event)>) -> Vec<Entry> {
        let mut head = Head::EMPTY;
        let entry = |(at, event)| head.append(SESSION, Timestamp::from_ms(at), &event).unwrap();
        events.into_iter().map(entry).collect()
    }

    /// A call of a client's tool, proposed and waiting.
    fn waiting(bits: u128, at: i64) -> [(i64, Event); 2] {
        let call = CallId::from_bits(bits);
        let proposed = json!({
            "type": "call.proposed", "call": call, "provider_id": "toolu_1",
            "contract": contract(), "arguments": haft_core::Arguments::plain(Map::new()),
            "derivation": {"decision": "allow", "findings": []},
        });
        let suspended = Event::CallSuspended {
            call,
            round: 1,
            kind: SuspensionKind::ClientExec,
            expires_at: Timestamp::from_ms(at + 1000),
            reason: SuspendReason::Executor,
            preview: None,
        };
        [(at, serde_json::from_value(proposed).unwrap()), (at, suspended)]
    }

    fn contract() -> Value {
        let schema = haft_core::tool::Schema::new(r#"{"type":"object"}"#).unwrap();
        let name = "weather".parse().unwrap();
        let mut definition = haft_core::tool::Definition::new(name, "x", schema);
        definition.executor = Executor::Client;
        let spec = haft_core::tool::ToolSpec::new(definition).unwrap();
        serde_json::to_value(spec.contract()).unwrap()
    }

    fn opening() -> Vec<(i64, Event)> {
        let (config, by) = (Arc::new(Config::default()), Actor::system());
        let content = vec![ContentBlock::Text { text: "hi".to_owned() }];
        let message = MessageId::from_bits(3);
        vec![
            (1, Event::SessionOpened { session: SESSION, config, by: by.clone(), parent: None }),
            (2, Event::MessageReceived { message, from: by, content }),
            (2, Event::TurnStarted { turn: 1, messages: vec![message], wakes: Vec::new() }),
            (
                3,
                Event::TurnAnswered {
                    turn: 1,
                    content: Vec::new(),
                    advertised: None,
                    narrowed: Vec::new(),
                    usage: Some(Usage { input: 10, output: 2, cache_read: 4, ..Usage::default() }),
                    provider_meta: None,
                    context: None,
                },
            ),
        ]
    }

    fn folded(entries: &[Entry], settle_after: usize) -> Vec<WireEvent> {
        let mut projection = Projection::new(SESSION);
        let mut events = Vec::new();
        for (read, entry) in entries.iter().enumerate() {
            events.extend(projection.take(entry).unwrap());
            if read + 1 == settle_after {
                events.extend(projection.settle());
            }
        }
        events.extend(projection.settle());
        events
    }

    // S2-14: what an append leads to is told once, and names everything that is waited for.
    #[test]
    fn s2_14_a_session_that_waits_is_told_once_with_all_that_it_waits_for() {
        let calls = [waiting(7, 3), waiting(8, 3)].concat();
        let entries = log([opening(), calls].concat());
        let events = folded(&entries, entries.len());
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        let running = [
            "user.message",
            "session.status_running",
            "span.model_request_start",
            "span.model_request_end",
        ];
        let uses = ["agent.custom_tool_use", "agent.custom_tool_use", "session.status_idle"];
        assert_eq!(kinds, [&running[..], &uses].concat());
        let ids = [7, 8].map(|bits| CallId::from_bits(bits).to_string());
        let reason = json!({"type": "requires_action", "event_ids": ids});
        assert_eq!(events.last().unwrap().body["stop_reason"], reason);
        let (start, end) = (&events[2], &events[3].body);
        assert_eq!(end["model_request_start_id"], start.id);
        let tokens = ["input_tokens", "cache_read_input_tokens", "output_tokens"];
        assert_eq!(tokens.map(|kind| end["model_usage"][kind].as_u64().unwrap()), [6, 4, 2]);
    }

    /// A call of a client's tool that somebody must allow first.
    fn gated(bits: u128, at: i64) -> [(i64, Event); 2] {
        let [(_, mut proposed), (_, mut suspended)] = waiting(bits, at);
        if let Event::CallProposed { derivation, .. } = &mut proposed {
            derivation.decision = Verdict::Ask;
        }
        if let Event::CallSuspended { kind, reason, .. } = &mut suspended {
            (*kind, *reason) = (SuspensionKind::Approval, SuspendReason::Asked);
        }
        [(at, proposed), (at, suspended)]
    }

    fn resolved(bits: u128, at: i64, decision: Decided) -> (i64, Event) {
        let (call, by) = (CallId::from_bits(bits), Actor::system());
        (at, Event::CallResolved { call, round: 1, resolution: None, by, decision })
    }

    fn after_opening(rest: Vec<(i64, Event)>) -> Vec<Value> {
        let entries = log([opening(), rest].concat());
        let events = folded(&entries, entries.len());
        events[4..].iter().map(|event| Value::Object(event.body.clone())).collect()
    }

    // W1: a client that honours `evaluated_permission` runs nothing before the yes.
    #[test]
    fn a_gated_call_of_a_client_is_held_until_it_is_confirmed() {
        let [_, (_, runs)] = waiting(7, 4);
        let yes = resolved(7, 4, Decided::Approve { arguments: None, note: None });
        let events = after_opening([gated(7, 3).to_vec(), vec![yes, (4, runs)]].concat());
        let id = CallId::from_bits(7).to_string();
        let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let (use_, idle) = ("agent.custom_tool_use", "session.status_idle");
        assert_eq!(kinds, [use_, idle, "user.tool_confirmation"]);
        assert_eq!(events[0]["evaluated_permission"], "ask");
        assert_eq!(events[1]["stop_reason"]["event_ids"], json!([id]));
        assert_eq!(
            (&events[2]["tool_use_id"], &events[2]["result"]),
            (&json!(id), &json!("allow"))
        );
        let no = resolved(7, 4, Decided::Deny { note: Some("no".to_owned()) });
        let events = after_opening([gated(7, 3).to_vec(), vec![no]].concat());
        assert_eq!(events[2]["type"], "user.tool_confirmation");
        assert_eq!(
            (&events[2]["result"], &events[2]["deny_message"]),
            (&json!("deny"), &json!("no"))
        );
    }

    #[test]
    fn arguments_that_the_approver_changed_are_shown_as_a_use_of_its_own() {
        let [_, (_, runs)] = waiting(7, 4);
        let edited = Map::from_iter([("city".to_owned(), json!("Bern"))]);
        let arguments = Some(haft_core::Arguments::plain(edited.clone()));
        let yes = resolved(7, 4, Decided::Approve { arguments, note: None });
        let events = after_opening([gated(7, 3).to_vec(), vec![yes, (4, runs)]].concat());
        let id = format!("{}.1", CallId::from_bits(7));
        assert_eq!(
            (&events[2]["type"], &events[2]["result"]),
            (&json!("user.tool_confirmation"), &json!("deny"))
        );
        assert_eq!(events[3]["type"], "agent.custom_tool_use");
        assert_eq!((&events[3]["id"], &events[3]["input"]), (&json!(id), &json!(edited)));
        assert!(events[3].get("evaluated_permission").is_none());
        assert_eq!(events[4]["stop_reason"]["event_ids"], json!([id]));
    }

    fn reported(at: i64, seq: u64, word: Word) -> (i64, Event) {
        let (child, agent) = (SessionId::from_bits(9), Some("scout".to_owned()));
        (at, Event::ChildReported { report: Arc::new(Report { child, agent, seq, word }) })
    }

    fn asking(bits: u128) -> Word {
        let ask = Ask {
            call: CallId::from_bits(bits),
            round: 1,
            kind: SuspensionKind::Approval,
            tool: "bash".to_owned(),
            executor: Executor::Server,
            mcp: None,
            arguments: Map::new(),
        };
        Word::Asking { asks: vec![ask] }
    }

    // S2-14, S2-41: what is asked below is shown once, wherever a reader stopped.
    #[test]
    fn s2_14_s2_41_what_is_asked_below_is_shown_here() {
        let ended = (3, Event::TurnEnded { turn: 1, ending: TurnEnding::Completed });
        let below = vec![
            reported(4, 2, Word::AtWork),
            reported(5, 7, asking(20)),
            reported(6, 9, Word::AtWork),
            reported(7, 11, asking(20)),
            reported(8, 13, asking(21)),
            reported(9, 15, Word::AtRest { turn: 2, ending: TurnEnding::Completed }),
        ];
        let entries = log([opening(), vec![ended], below].concat());
        let whole = folded(&entries, entries.len());
        // Each report is an append of its own.
        for settle_after in [1, 5, 6, 7, 8, 9, 10] {
            assert_eq!(folded(&entries, settle_after), whole, "{settle_after}");
        }
        let at = whole.iter().position(|event| event.kind == "session.status_idle").unwrap();
        let kinds: Vec<_> = whole[at + 1..].iter().map(|event| event.kind).collect();
        let (works, rests) = ("session.thread_status_running", "session.thread_status_idle");
        let (use_, idle) = ("agent.tool_use", "session.status_idle");
        assert_eq!(
            kinds,
            [
                works,
                use_,
                rests,
                idle,
                works,
                "session.status_running",
                rests,
                idle,
                use_,
                rests,
                idle,
                rests,
                idle,
            ]
        );
        let thread = thread_id(SessionId::from_bits(9));
        let shown: Vec<_> = whole.iter().filter(|event| event.kind == use_).collect();
        assert!(shown.iter().all(|event| event.body["session_thread_id"] == thread));
        assert_eq!(whole.last().unwrap().body["stop_reason"]["type"], "end_turn");
    }

    /// A client's call below, as it waits.
    fn asked_below(kind: SuspensionKind, city: &str) -> Word {
        let ask = Ask {
            call: CallId::from_bits(20),
            round: 1,
            kind,
            tool: "weather".to_owned(),
            executor: Executor::Client,
            mcp: None,
            arguments: Map::from_iter([("city".to_owned(), json!(city))]),
        };
        Word::Asking { asks: vec![ask] }
    }

    /// What is told once a client's call below was approved, which first was about Bonn.
    fn approved_below(city: &str) -> Vec<WireEvent> {
        let ended = (3, Event::TurnEnded { turn: 1, ending: TurnEnding::Completed });
        let below = vec![
            reported(4, 2, asked_below(SuspensionKind::Approval, "Bonn")),
            reported(5, 4, Word::AtWork),
            reported(6, 6, asked_below(SuspensionKind::ClientExec, city)),
        ];
        let entries = log([opening(), vec![ended], below].concat());
        let whole = folded(&entries, entries.len());
        let at = whole.iter().position(|event| event.kind == "user.tool_confirmation").unwrap();
        let mut uses = whole[..at].iter().filter(|event| event.kind == "agent.custom_tool_use");
        assert_eq!(uses.next().unwrap().body["evaluated_permission"], "ask");
        whole[at..].to_vec()
    }

    #[test]
    fn a_clients_call_below_that_is_approved_is_confirmed() {
        let told = approved_below("Bonn");
        let id = CallId::from_bits(20).to_string();
        let kinds: Vec<_> = told.iter().map(|event| event.kind).collect();
        let (rests, idle) = ("session.thread_status_idle", "session.status_idle");
        assert_eq!(kinds, ["user.tool_confirmation", rests, idle]);
        assert_eq!(
            (&told[0].body["tool_use_id"], &told[0].body["result"]),
            (&json!(id), &json!("allow"))
        );
        for idle in &told[1..] {
            assert_eq!(idle.body["stop_reason"]["event_ids"], json!([id]));
        }
    }

    // W1: a client never runs what was proposed below when somebody approved something else.
    #[test]
    fn arguments_that_were_changed_below_are_shown_as_a_use_of_its_own() {
        let told = approved_below("Bern");
        let (first, second) =
            (CallId::from_bits(20).to_string(), format!("{}.1", CallId::from_bits(20)));
        let kinds: Vec<_> = told.iter().map(|event| event.kind).collect();
        let (rests, idle) = ("session.thread_status_idle", "session.status_idle");
        assert_eq!(kinds, ["user.tool_confirmation", "agent.custom_tool_use", rests, idle]);
        assert_eq!(
            (&told[0].body["tool_use_id"], &told[0].body["result"]),
            (&json!(first), &json!("deny"))
        );
        assert_eq!(told[0].body["deny_message"], ARGUMENTS_CHANGED);
        assert_eq!((&told[1].id, &told[1].body["input"]), (&second, &json!({"city": "Bern"})));
        assert!(told[1].body.get("evaluated_permission").is_none());
        assert_eq!(told[1].body["session_thread_id"], thread_id(SessionId::from_bits(9)));
        for idle in &told[2..] {
            assert_eq!(idle.body["stop_reason"]["event_ids"], json!([second]));
        }
    }

    /// The calls that wait are declined one by one, each in an append of its own.
    fn declined(bits: u128, at: i64) -> [(i64, Event); 2] {
        let (call, by) = (CallId::from_bits(bits), Actor::system());
        let decision = Decided::Deny { note: None };
        let resolved = Event::CallResolved { call, round: 1, resolution: None, by, decision };
        let contract: Contract = serde_json::from_value(contract()).unwrap();
        let outcome = Outcome {
            call,
            tool: contract.tool.clone(),
            attempt: 0,
            started_at: Timestamp::from_ms(at),
            finished_at: Timestamp::from_ms(at),
            result: CallResult::Err(Failure::new(ErrorClass::Denied, "no")),
            directives: Directives::default(),
            provenance: Provenance::of(&contract),
            provider_meta: None,
            extra: Map::new(),
        };
        [(at, resolved), (at, Event::CallFinished { outcome })]
    }

    #[test]
    fn whoever_reads_while_it_happens_sees_what_is_read_later() {
        let (by, cause) = (Actor::system(), InterruptCause::Asked);
        let interrupted = (3, Event::SessionInterrupted { by, note: None, cause });
        let ended = (3, Event::TurnEnded { turn: 1, ending: TurnEnding::Interrupted });
        let calls = [waiting(7, 3), waiting(8, 3)].concat();
        // All of it within one millisecond.
        let end = vec![interrupted, ended];
        let entries = log([opening(), calls, declined(7, 3).into(), end].concat());
        let whole = folded(&entries, entries.len());
        // Where an append ends is where a reader may have stopped.
        for settle_after in [1, 3, 8, 10] {
            assert_eq!(folded(&entries, settle_after), whole, "{settle_after}");
        }
        assert!(whole.iter().any(|event| event.kind == "session.status_idle"));
        let mut ids: Vec<_> = whole.iter().map(|event| &event.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), whole.len());
    }
}
