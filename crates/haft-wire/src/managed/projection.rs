//! A session's log as the API's events.

use std::mem;

use haft_core::journal::{Entry, JournalError};
use haft_core::json::{JsonLimits, parse_object};
use haft_core::permission::Verdict;
use haft_core::session::{Decided, Event, InterruptCause, Rejection, Toolset, TurnEnding};
use haft_core::tool::Executor;
use haft_core::{CallId, CallResult, ErrorClass, Failure, Outcome, SessionId, Timestamp};
use serde_json::{Map, Value, json};

use super::event::{Place, WireEvent};
use super::{blocks, output_blocks, result_blocks};

/// Folds a log into the events that the outside sees.
///
/// Entries of one append share their time. What an append leads to as a whole (the session waits,
/// the session goes on) is told when the next one begins, or when [`Projection::settle`] says
/// that there is none yet.
#[derive(Debug)]
pub struct Projection {
    session: SessionId,
    toolset: Toolset,
    activity: Activity,
    told: Told,
    calls: Vec<OpenCall>,
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
    Idle { blocked_on: Vec<CallId> },
    Running,
}

#[derive(Debug)]
struct OpenCall {
    id: CallId,
    side: Side,
    is_waiting: bool,
}

/// Who produces the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

impl Projection {
    /// A projection that has read nothing.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            toolset: Toolset::default(),
            activity: Activity::Idle,
            told: Told::Idle { blocked_on: Vec::new() },
            calls: Vec::new(),
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
        if entry.at != self.at {
            self.tell_standing();
        }
        self.at = entry.at;
        self.place = Place { seq: entry.seq, nth: 0 };
        self.evolve(event);
        Ok(mem::take(&mut self.out))
    }

    /// Returns what the entries so far lead to, given that no more were appended with them.
    pub fn settle(&mut self) -> Vec<WireEvent> {
        self.tell_standing();
        mem::take(&mut self.out)
    }

    fn evolve(&mut self, event: Event) {
        match event {
            Event::SessionOpened { config, .. } | Event::SessionReconfigured { config, .. } => {
                self.toolset = config.toolset.clone();
            }
            Event::SessionInterrupted { cause: InterruptCause::Asked, .. } => {
                self.emit("user.interrupt", None, json!({}));
            }
            Event::SessionEnded {} => {
                self.activity = Activity::Idle;
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
            }
            Event::TurnAnswered { turn, content, .. } => {
                self.activity = Activity::Acting;
                if !content.is_empty() {
                    let id = message_id(self.session, turn);
                    let members = json!({ "content": blocks(&content) });
                    self.emit("agent.message", Some(id), members);
                }
            }
            Event::TurnEnded { ending, .. } => self.end_turn(&ending),
            Event::CallProposed { call, contract, arguments, derivation, .. } => {
                let input = arguments.record();
                self.propose(
                    call,
                    contract.executor,
                    contract.tool.as_str(),
                    input,
                    derivation.decision,
                );
            }
            Event::CallRejected { call, name, rejection, .. } => {
                self.reject(call, &name, &rejection);
            }
            Event::CallSuspended { call, .. } => self.set_waiting(call, true),
            Event::CallPreviewing { call, .. } => self.set_waiting(call, false),
            Event::CallResolved { call, resolution, decision, .. } => {
                self.set_waiting(call, false);
                self.resolve(call, resolution.map(|id| id.to_string()), &decision);
            }
            Event::CallFinished { outcome } => self.finish(&outcome),
            Event::SessionInterrupted { .. }
            | Event::SessionEnding { .. }
            | Event::TurnRetried { .. }
            | Event::CallAdmitted { .. }
            | Event::CallStarted { .. }
            | Event::CallRetryScheduled { .. }
            | Event::CallInterrupted { .. }
            | Event::CallVerified { .. }
            | Event::CallCancelling { .. }
            | Event::CallRedefined { .. }
            | Event::CallBarred { .. }
            | Event::CallDelegated { .. }
            | Event::ChildStopped { .. }
            | Event::ContextSummarised { .. }
            | Event::LearningCaptured { .. }
            | Event::LoopDirected { .. }
            | Event::ParentTold { .. }
            | Event::ProviderResultIgnored { .. }
            | Event::WakeCancelled { .. }
            | Event::WakeFellDue { .. }
            | Event::WakeQueued { .. }
            | Event::GrantAdded { .. }
            | Event::GrantRevoked { .. } => {}
        }
    }

    fn propose(
        &mut self,
        id: CallId,
        executor: Executor,
        tool: &str,
        input: &Map<String, Value>,
        decision: Verdict,
    ) {
        let side = match executor {
            Executor::Server | Executor::Provider => Side::Ours,
            Executor::Client | Executor::Human => Side::Theirs,
        };
        self.calls.push(OpenCall { id, side, is_waiting: false });
        let name = self.toolset.called(tool).to_owned();
        let mut members = json!({ "name": name, "input": input });
        let kind = match side {
            Side::Ours => {
                members["evaluated_permission"] = permission(decision).into();
                "agent.tool_use"
            }
            Side::Theirs => "agent.custom_tool_use",
        };
        self.emit(kind, Some(id.to_string()), members);
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
        if open.side == Side::Ours {
            let (content, is_error) = result_blocks(result);
            let members = json!({
                "tool_use_id": call.to_string(), "content": content, "is_error": is_error,
            });
            self.emit("agent.tool_result", None, members);
        }
    }

    fn resolve(&mut self, call: CallId, id: Option<String>, decision: &Decided) {
        let use_id = call.to_string();
        let confirmed = |result: &str, message: Option<&String>| {
            let mut members = json!({ "tool_use_id": use_id, "result": result });
            if let Some(message) = message {
                members["deny_message"] = message.as_str().into();
            }
            members
        };
        let returned = |content: Value, is_error: bool| json!({ "custom_tool_use_id": use_id, "content": content, "is_error": is_error });
        let (confirmation, result) = ("user.tool_confirmation", "user.custom_tool_result");
        let is_theirs = self.calls.iter().any(|open| open.id == call && open.side == Side::Theirs);
        let (kind, members) = match decision {
            Decided::Approve { .. } => (confirmation, confirmed("allow", None)),
            Decided::Deny { note } if is_theirs => {
                let said = note.as_deref().unwrap_or("declined");
                (result, returned(json!([{ "type": "text", "text": said }]), true))
            }
            Decided::Deny { note } => (confirmation, confirmed("deny", note.as_ref())),
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
        let reason = match ending {
            TurnEnding::Completed
            | TurnEnding::Settled
            | TurnEnding::Terminal
            | TurnEnding::Interrupted => "end_turn",
            TurnEnding::Limit { limit } => {
                let message =
                    format!("the run reached its limit `{limit}`; say something to go on");
                self.tell_error("tool_use_limit_reached_error", &message);
                "end_turn"
            }
            TurnEnding::Failed { failure } => {
                let kind = match failure.class {
                    ErrorClass::RateLimited => "model_rate_limited_error",
                    _ => "model_request_failed_error",
                };
                self.tell_error(kind, &failure.message);
                "retries_exhausted"
            }
        };
        self.told = Told::Idle { blocked_on: Vec::new() };
        self.emit("session.status_idle", None, json!({ "stop_reason": { "type": reason } }));
    }

    fn tell_error(&mut self, kind: &str, message: &str) {
        let retry_status = json!({ "type": "exhausted" });
        let error = json!({ "type": kind, "message": message, "retry_status": retry_status });
        self.emit("session.error", None, json!({ "error": error }));
    }

    fn set_waiting(&mut self, call: CallId, is_waiting: bool) {
        if let Some(open) = self.calls.iter_mut().find(|open| open.id == call) {
            open.is_waiting = is_waiting;
        }
    }

    /// Tells whether the session waits for someone or goes on, when that is news.
    fn tell_standing(&mut self) {
        if self.activity == Activity::Idle {
            return;
        }
        let is_blocked = self.activity == Activity::Acting
            && !self.calls.is_empty()
            && self.calls.iter().all(|call| call.is_waiting);
        if !is_blocked {
            return self.tell_running();
        }
        let blocked_on: Vec<CallId> = self.calls.iter().map(|call| call.id).collect();
        let told = Told::Idle { blocked_on };
        if self.told == told {
            return;
        }
        let ids: Vec<String> = self.calls.iter().map(|call| call.id.to_string()).collect();
        let reason = json!({ "type": "requires_action", "event_ids": ids });
        self.told = told;
        self.emit("session.status_idle", None, json!({ "stop_reason": reason }));
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

fn bare(session: SessionId) -> String {
    session.to_string().trim_start_matches("sesn_").to_owned()
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
    use haft_core::session::{Config, SuspendReason, SuspensionKind};
    use haft_core::{Actor, ContentBlock, MessageId};

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
            (2, Event::TurnStarted { turn: 1, messages: vec![message], wakes: vec![] }),
            (
                3,
                Event::TurnAnswered {
                    turn: 1,
                    content: Vec::new(),
                    advertised: None,
                    narrowed: Vec::new(),
                    usage: None,
                    provider_meta: None,
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
        let running = ["user.message", "session.status_running"];
        let uses = ["agent.custom_tool_use", "agent.custom_tool_use", "session.status_idle"];
        assert_eq!(kinds, [&running[..], &uses].concat());
        let ids = [7, 8].map(|bits| CallId::from_bits(bits).to_string());
        let reason = json!({"type": "requires_action", "event_ids": ids});
        assert_eq!(events.last().unwrap().body["stop_reason"], reason);
    }

    #[test]
    fn whoever_reads_while_it_happens_sees_what_is_read_later() {
        let ended = (9, Event::TurnEnded { turn: 1, ending: TurnEnding::Interrupted });
        let entries = log([opening(), waiting(7, 3).into(), vec![ended]].concat());
        let whole = folded(&entries, entries.len());
        // Where an append ends is where a reader may have stopped.
        for settle_after in [1, 3, 6] {
            assert_eq!(folded(&entries, settle_after), whole, "{settle_after}");
        }
        let mut ids: Vec<_> = whole.iter().map(|event| &event.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), whole.len());
    }
}
