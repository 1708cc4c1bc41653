//! Document 000's trace: a span for every turn, model request, wait and tool dispatch of a log.
//!
//! Whatever is known of a call beside its envelope goes into `attrs`. The log holds arguments as
//! they may be shown, so nothing secret is in a span.

use std::collections::BTreeMap;

use haft_core::session::{Decided, Driver, Event, SuspensionKind};
use haft_core::{CallId, CallResult, ErrorClass, SessionId, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// One span, in document 000's shape: a closed object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Its id, unique in the trace.
    pub span_id: String,
    /// The session.
    pub trace_id: SessionId,
    /// The turn that it is part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// What it is about.
    pub name: String,
    /// What sort of work it is.
    pub kind: SpanKind,
    /// How it ended, or that it has not.
    pub status: SpanStatus,
    /// When it began.
    pub start_ms: i64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<i64>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Everything else that is known, without secrets.
    pub attrs: Map<String, Value>,
}

/// The sorts of work that Haft records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A turn.
    Custom,
    /// A question to the model.
    Llm,
    /// A wait for someone.
    Policy,
    /// A tool dispatch.
    Tool,
}

/// How a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    /// As it should.
    Ok,
    /// Not as it should.
    Error,
    /// Its time was up.
    Timeout,
    /// Someone stopped it, or it was not needed any more.
    Cancelled,
    /// Not yet.
    Running,
}

impl From<&CallResult> for SpanStatus {
    fn from(result: &CallResult) -> Self {
        match result {
            CallResult::Ok(_) => Self::Ok,
            CallResult::Err(failure) => failure.class.into(),
        }
    }
}

impl From<ErrorClass> for SpanStatus {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::Timeout | ErrorClass::Expired => Self::Timeout,
            ErrorClass::Cancelled => Self::Cancelled,
            _ => Self::Error,
        }
    }
}

/// Folds a log into spans.
#[derive(Debug)]
pub struct Trace {
    session: SessionId,
    driver: Driver,
    turn: Option<String>,
    calls: BTreeMap<CallId, Map<String, Value>>,
    spans: Vec<Span>,
    open: BTreeMap<Open, usize>,
}

/// What can be under way once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Open {
    Turn,
    Model,
    Dispatch(CallId),
    Wait(CallId),
}

/// A span that begins.
struct Begun {
    id: String,
    name: String,
    kind: SpanKind,
    attrs: Map<String, Value>,
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

impl Trace {
    /// Begins with nothing.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            driver: Driver::default(),
            turn: None,
            calls: BTreeMap::new(),
            spans: Vec::new(),
            open: BTreeMap::new(),
        }
    }

    /// Takes the next event of the log.
    pub fn take(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::SessionOpened { config, .. } => self.driver = config.driver,
            Event::TurnStarted { turn, .. } => self.begin_turn(at, *turn),
            Event::TurnAnswered { .. } => self.end(Open::Model, at, SpanStatus::Ok),
            Event::TurnEnded { .. } => {
                self.end(Open::Model, at, SpanStatus::Error);
                self.end(Open::Turn, at, SpanStatus::Ok);
            }
            _ => self.take_of_call(at, event),
        }
    }

    fn take_of_call(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::CallProposed { call, provider_id, contract, arguments, .. } => {
                let attrs = json!({
                    "callId": call, "providerCallId": provider_id, "tool": contract.tool,
                    "mode": contract.mode, "executor": contract.executor,
                    "arguments": arguments.record(),
                });
                self.calls.insert(*call, members(&attrs));
            }
            Event::CallStarted { call, attempt, cause, .. } => {
                let more = json!({"attempt": attempt, "cause": cause});
                let id = format!("{call}/{attempt}");
                self.begin_of_call(Open::Dispatch(*call), at, id, &more);
            }
            Event::CallRetryScheduled { call, failure, .. } => {
                self.end(Open::Dispatch(*call), at, failure.class.into());
            }
            Event::CallSuspended { call, round, kind, reason, .. } => {
                self.suspend(at, *call, *round, *kind, &json!({"wait": kind, "reason": reason}));
            }
            Event::CallResolved { call, decision, .. } => {
                let status = match decision {
                    Decided::Expired => SpanStatus::Timeout,
                    _ => SpanStatus::Ok,
                };
                if let Decided::Approve { arguments: Some(edited), .. } = decision
                    && let Some(attrs) = self.calls.get_mut(call)
                {
                    attrs.insert("arguments".to_owned(), json!(edited.record()));
                }
                self.add(Open::Wait(*call), "decision", json!(decision.kind()));
                self.end(Open::Wait(*call), at, status);
            }
            Event::CallFinished { outcome } => {
                self.end(Open::Dispatch(outcome.call), at, SpanStatus::from(&outcome.result));
                self.end(Open::Wait(outcome.call), at, SpanStatus::Cancelled);
                self.calls.remove(&outcome.call);
            }
            _ => {}
        }
    }

    /// What a call waits for ends its dispatch, unless a child goes on with the work.
    fn suspend(
        &mut self,
        at: Timestamp,
        call: CallId,
        round: u32,
        kind: SuspensionKind,
        more: &Value,
    ) {
        match kind {
            SuspensionKind::Child => return,
            SuspensionKind::Settlement => {
                self.add(Open::Dispatch(call), "inDoubt", json!(true));
                self.end(Open::Dispatch(call), at, SpanStatus::Error);
            }
            SuspensionKind::Approval | SuspensionKind::Elicitation | SuspensionKind::ClientExec => {
                self.end(Open::Dispatch(call), at, SpanStatus::Cancelled);
            }
        }
        let id = format!("{call}:{round}");
        self.begin_of_call(Open::Wait(call), at, id, more);
    }

    /// Returns the spans in the order in which they began.
    pub fn spans(self) -> Vec<Span> {
        self.spans
    }

    fn begin_turn(&mut self, at: Timestamp, turn: u32) {
        self.end(Open::Turn, at, SpanStatus::Ok);
        self.turn = None;
        let (id, attrs) = (format!("turn-{turn}"), members(&json!({"turn": turn})));
        let (name, kind) = ("turn".to_owned(), SpanKind::Custom);
        self.begin(Open::Turn, at, Begun { id: id.clone(), name, kind, attrs: attrs.clone() });
        if self.driver == Driver::Model {
            let (name, kind) = ("chat".to_owned(), SpanKind::Llm);
            self.turn = Some(id.clone());
            self.begin(Open::Model, at, Begun { id: format!("{id}/chat"), name, kind, attrs });
        }
        self.turn = Some(id);
    }

    /// Begins something of a call, with all that is known of the call.
    fn begin_of_call(&mut self, what: Open, at: Timestamp, id: String, more: &Value) {
        let (call, kind) = match what {
            Open::Dispatch(call) => (call, SpanKind::Tool),
            Open::Wait(call) => (call, SpanKind::Policy),
            Open::Turn | Open::Model => return,
        };
        let mut attrs = self.calls.get(&call).cloned().unwrap_or_default();
        attrs.extend(members(more));
        let name = attrs.get("tool").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.begin(what, at, Begun { id, name, kind, attrs });
    }

    fn begin(&mut self, what: Open, at: Timestamp, begun: Begun) {
        let Begun { id: span_id, name, kind, attrs } = begun;
        self.open.insert(what, self.spans.len());
        self.spans.push(Span {
            span_id,
            trace_id: self.session,
            parent_span_id: self.turn.clone(),
            name,
            kind,
            status: SpanStatus::Running,
            start_ms: at.ms(),
            end_ms: None,
            duration_ms: None,
            attrs,
        });
    }

    fn add(&mut self, what: Open, name: &str, value: Value) {
        let span = self.open.get(&what).and_then(|at| self.spans.get_mut(*at));
        if let Some(span) = span {
            span.attrs.insert(name.to_owned(), value);
        }
    }

    fn end(&mut self, what: Open, at: Timestamp, status: SpanStatus) {
        let span = self.open.remove(&what).and_then(|at| self.spans.get_mut(at));
        if let Some(span) = span {
            span.status = status;
            span.end_ms = Some(at.ms());
            span.duration_ms = Some(at.ms() - span.start_ms);
        }
    }
}
