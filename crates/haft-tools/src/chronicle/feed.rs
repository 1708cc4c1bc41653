//! A log in document 002's words: one entry may be several of its events, or none.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use haft_core::session::{Awaits, Decided, Event, Goal, SuspensionKind, TurnEnding};
use haft_core::tool::Contract;
use haft_core::{ActorKind, CallId, CallResult, MessageId, Outcome, SessionId, Timestamp};
use serde_json::{Map, Value, json};

use super::Told;
use super::runs::{Run, RunId, SpanEnd, result_text, runs, said};

/// The types of event that a feed can hold.
pub(crate) const TYPES: [&str; 15] = [
    "user.message",
    "user.define_outcome",
    "agent.define_outcome",
    "user.interrupt",
    "user.tool_confirmation",
    "user.custom_tool_result",
    "session.child_created",
    "session.child_idle",
    "session.status_changed",
    "session.status_idle",
    "span.started",
    "span.completed",
    "agent.message",
    "agent.tool_use",
    "agent.custom_tool_use",
];

/// Names an event of a feed: the entry it comes from, and which of that entry's it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EventId {
    pub(crate) seq: u64,
    part: u8,
}

impl EventId {
    /// The first event that an entry tells of.
    pub(crate) const fn first(seq: u64) -> Self {
        Self { seq, part: 0 }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt_{}_{}", self.seq, self.part)
    }
}

impl FromStr for EventId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (seq, part) = text.strip_prefix("evt_")?.split_once('_')?;
            Some(Self { seq: seq.parse().ok()?, part: part.parse().ok()? })
        };
        parse().ok_or_else(|| format!("expected an event like `evt_12_0`, found {text:?}"))
    }
}

/// An event as document 002 has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeedEvent {
    pub(crate) id: EventId,
    pub(crate) kind: &'static str,
    pub(crate) at: Timestamp,
    pub(crate) run: Option<RunId>,
    /// Whether the model has been given it; `None` for what it did itself.
    pub(crate) is_pending: bool,
    members: Map<String, Value>,
}

impl FeedEvent {
    pub(crate) fn value(&self) -> Value {
        let mut value = self.members.clone();
        let at = self.at.to_string();
        value.insert("id".to_owned(), json!(self.id.to_string()));
        value.insert("type".to_owned(), json!(self.kind));
        value.insert("createdAt".to_owned(), json!(at));
        let processed = if self.is_pending { Value::Null } else { json!(at) };
        value.entry("processedAt").or_insert(processed);
        if let Some(run) = self.run {
            value.insert("wakeId".to_owned(), json!(run));
        }
        Value::Object(value)
    }

    /// What it says, to be searched; empty for what only marks a moment.
    pub(crate) fn text(&self) -> String {
        let mut texts = Vec::new();
        for name in ["message", "outcome", "note", "output", "toolName", "input", "summary"] {
            if let Some(value) = self.members.get(name) {
                super::runs::each_text(value, &mut texts);
            }
        }
        texts.join("\n")
    }
}

/// What the calls of a log are, and which message was taken up when.
struct Known<'a> {
    calls: HashMap<CallId, (&'a Arc<Contract>, &'a Map<String, Value>)>,
    /// The calls whose work was given away, each with the child whose word it comes to, if any.
    given: HashMap<CallId, Option<SessionId>>,
    taken_up: HashMap<MessageId, Timestamp>,
    runs: Vec<Run>,
}

/// Tells a log in document 002's words.
pub(crate) fn feed(log: &[Told]) -> Vec<FeedEvent> {
    let known = Known::of(log);
    let mut events = Vec::new();
    for told in log {
        let run = known.runs.iter().find(|run| {
            run.first_seq <= told.seq && (told.seq <= run.last_seq || run.ending.is_none())
        });
        let parts = parts(&known, told, run);
        for (part, (kind, members)) in (0..).zip(parts) {
            let members = match members {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            let is_pending = matches!(&told.event, Event::MessageReceived { message, .. }
                if !known.taken_up.contains_key(message));
            let id = EventId { seq: told.seq, part };
            let run = run.map(|run| run.id);
            events.push(FeedEvent { id, kind, at: told.at, run, is_pending, members });
        }
    }
    events
}

impl<'a> Known<'a> {
    fn of(log: &'a [Told]) -> Self {
        let (mut calls, mut taken_up) = (HashMap::new(), HashMap::new());
        let mut given = HashMap::new();
        for told in log {
            match &told.event {
                Event::CallProposed { call, contract, arguments, .. } => {
                    calls.insert(*call, (contract, arguments.record()));
                }
                Event::CallDelegated { call, delegation, .. } => {
                    let awaited = match &delegation.awaits {
                        Awaits::Word => Some(delegation.child),
                        Awaits::Opening { .. } => None,
                    };
                    given.insert(*call, awaited);
                }
                Event::TurnStarted { messages, .. } => {
                    taken_up.extend(messages.iter().map(|message| (*message, told.at)));
                }
                _ => {}
            }
        }
        Self { calls, given, taken_up, runs: runs(log) }
    }

    /// What every event about a call says of it.
    fn call(&self, call: CallId) -> Value {
        match self.calls.get(&call) {
            Some((contract, arguments)) => json!({
                "requestId": call,
                "toolName": contract.tool,
                "ownership": contract.ownership,
                "permissionPolicy": if contract.gate.asks() { "always_ask" } else { "always_allow" },
                "input": arguments,
            }),
            // It was proposed before what was read of the log.
            None => json!({ "requestId": call, "toolName": null }),
        }
    }
}

type Part = (&'static str, Value);

fn parts(known: &Known<'_>, told: &Told, run: Option<&Run>) -> Vec<Part> {
    match &told.event {
        Event::MessageReceived { message, from, content } => {
            let processed = known.taken_up.get(message).map(Timestamp::to_string);
            vec![(
                "user.message",
                json!({ "message": said(content), "from": from, "processedAt": processed }),
            )]
        }
        Event::GoalSet { goal, by } => {
            let kind = match by.kind {
                ActorKind::Agent => "agent.define_outcome",
                ActorKind::User | ActorKind::Service | ActorKind::System => "user.define_outcome",
            };
            let outcome = json!({
                "title": goal.title(),
                "detail": goal.detail(),
                "successCriteria": goal.criteria(),
            });
            vec![(kind, json!({ "outcome": outcome, "by": by }))]
        }
        Event::SessionInterrupted { note, by, .. } => {
            vec![("user.interrupt", json!({ "note": note, "by": by }))]
        }
        Event::SessionEnded {} => vec![changed("idle", "terminated", "ended")],
        Event::TurnStarted { .. } => turn_started(told, run),
        Event::TurnAnswered { content, .. } => answered(&said(content)),
        Event::TurnEnded { ending, .. } => turn_ended(ending, run),
        _ => call_parts(known, told, run),
    }
}

fn call_parts(known: &Known<'_>, told: &Told, run: Option<&Run>) -> Vec<Part> {
    match &told.event {
        Event::CallSuspended { call, kind, .. } => suspended(known, *call, *kind, told.seq),
        Event::CallResolved { call, decision, by, .. } => resolved(known, *call, decision, by),
        Event::CallStarted { call, attempt, .. } => {
            let tool = known.call(*call)["toolName"].clone();
            vec![("span.started", span(*call, *attempt, &tool, run))]
        }
        Event::CallDelegated { call, delegation, .. } => {
            let message = said(&delegation.task);
            let title = delegation.goal.as_ref().map(Goal::title);
            let members = json!({ "requestId": call, "childSessionId": delegation.child, "outcomeTitle": title, "message": message });
            vec![("session.child_created", members)]
        }
        Event::CallFinished { outcome } => finished(known, outcome, run),
        Event::CallRejected { call, name, rejection, .. } => {
            let output = json!({ "error": rejection.message }).to_string();
            vec![(
                "agent.tool_use",
                json!({ "requestId": call, "toolName": name, "output": output }),
            )]
        }
        _ => Vec::new(),
    }
}

fn changed(from: &str, to: &str, reason: &str) -> Part {
    let members = json!({ "fromStatus": from, "toStatus": to, "reason": reason });
    ("session.status_changed", members)
}

fn turn_started(told: &Told, run: Option<&Run>) -> Vec<Part> {
    let Some(run) = run.filter(|run| run.first_seq == told.seq) else { return Vec::new() };
    let span = json!({ "spanId": run.id, "spanKind": "wake", "name": "wake" });
    vec![("span.started", span), changed("idle", "running", "wake")]
}

fn answered(text: &str) -> Vec<Part> {
    if text.is_empty() {
        return Vec::new();
    }
    let summary: String = text.chars().take(160).collect();
    vec![("agent.message", json!({ "message": text, "summary": summary }))]
}

fn turn_ended(ending: &TurnEnding, run: Option<&Run>) -> Vec<Part> {
    let (reason, result) = match ending {
        TurnEnding::Completed | TurnEnding::Settled => ("idle", "success"),
        TurnEnding::Terminal => ("terminal", "success"),
        TurnEnding::Limit { .. } => ("limit", "blocked"),
        TurnEnding::Interrupted => ("interrupted", "blocked"),
        TurnEnding::Failed { .. } => ("failed", "error"),
    };
    let summary = run.and_then(Run::summary);
    let id = run.map(|run| run.id);
    let span = json!({ "spanId": id, "spanKind": "wake", "name": "wake", "result": result, "summary": summary });
    let idle = json!({ "reason": reason, "summary": summary });
    vec![("span.completed", span), ("session.status_idle", idle)]
}

fn span(call: CallId, attempt: u32, tool: &Value, run: Option<&Run>) -> Value {
    let parent = run.map(|run| run.id);
    json!({ "spanId": format!("{call}/{attempt}"), "parentSpanId": parent, "spanKind": "tool", "name": tool })
}

fn suspended(known: &Known<'_>, call: CallId, kind: SuspensionKind, seq: u64) -> Vec<Part> {
    let mut asked = known.call(call);
    let kind = match kind {
        SuspensionKind::Approval | SuspensionKind::Settlement => "agent.tool_use",
        SuspensionKind::ClientExec | SuspensionKind::Elicitation => "agent.custom_tool_use",
        // It waits for nobody outside.
        SuspensionKind::Child => return Vec::new(),
    };
    asked["output"] = Value::Null;
    let blocking = EventId::first(seq).to_string();
    let idle = json!({ "reason": "requires_action", "blockingEventIds": [blocking] });
    vec![(kind, asked), ("session.status_idle", idle)]
}

fn resolved(
    known: &Known<'_>,
    call: CallId,
    decision: &Decided,
    by: &haft_core::Actor,
) -> Vec<Part> {
    // What comes of work that was given away, no person handed in.
    if known.given.contains_key(&call) {
        return Vec::new();
    }
    let tool = known.call(call)["toolName"].clone();
    let confirmed = |allowed: bool, note: &Option<String>| {
        let members = json!({ "requestId": call, "toolName": tool, "allowed": allowed, "note": note, "by": by });
        vec![("user.tool_confirmation", members)]
    };
    let answered = |output: String| {
        let members = json!({ "requestId": call, "toolName": tool, "output": output, "by": by });
        vec![("user.custom_tool_result", members)]
    };
    match decision {
        Decided::Approve { note, .. } => confirmed(true, note),
        Decided::Deny { note } => confirmed(false, note),
        Decided::RunAgain => confirmed(true, &None),
        Decided::Happened { .. } | Decided::GiveUp => confirmed(false, &None),
        Decided::Answer { output } => answered(result_text(&CallResult::Ok(output.clone()))),
        Decided::Result { result, .. } => answered(result_text(result)),
        Decided::Granted { .. } | Decided::Expired | Decided::ClientGone => Vec::new(),
    }
}

fn finished(known: &Known<'_>, outcome: &Outcome, run: Option<&Run>) -> Vec<Part> {
    let mut done = known.call(outcome.call);
    done["toolName"] = json!(outcome.tool);
    done["output"] = match &outcome.result {
        CallResult::Ok(output) => match &output.value {
            Some(value) => json!(value.to_string()),
            None => json!(said(&output.content)),
        },
        CallResult::Err(failure) => json!(json!({ "error": failure.message }).to_string()),
    };
    if outcome.attempt == 0 {
        return vec![("agent.tool_use", done)];
    }
    let mut span = span(outcome.call, outcome.attempt, &json!(outcome.tool), run);
    span["result"] = json!(SpanEnd::of(outcome));
    let mut parts = vec![("span.completed", span), ("agent.tool_use", done)];
    if let Some(idle) = watched(outcome) {
        parts.push(("session.child_idle", idle));
    }
    if let Some(Some(child)) = known.given.get(&outcome.call) {
        let summary: String = result_text(&outcome.result).chars().take(400).collect();
        let idle =
            json!({ "childSessionId": child, "childStopReason": "idle", "summary": summary });
        parts.push(("session.child_idle", idle));
    }
    parts
}

/// Where a child stood that a call waited for without having given it that work.
fn watched(outcome: &Outcome) -> Option<Value> {
    let CallResult::Ok(output) = &outcome.result else { return None };
    let told = output.value.as_ref().filter(|_| outcome.tool.as_str() == "session_run_child")?;
    let summary: String = told["response"].as_str().unwrap_or_default().chars().take(400).collect();
    Some(json!({
        "childSessionId": told["childSession"]["sessionId"],
        "childStopReason": told["childStopReason"],
        "summary": summary,
        "executedCycles": told["executedCycles"],
    }))
}
