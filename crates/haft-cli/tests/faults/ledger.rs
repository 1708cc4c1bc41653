//! The ledger: every request that a row made, and whether the server acknowledged it. Requests are
//! named by a key, or retried as the official SDKs do, so that each may be sent until it is
//! acknowledged and is done once.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::judge::{Acknowledgement, CallStatus, ObservedCall, ObservedWord, Violation};
use crate::place::Place;
use crate::serving::Serving;
use crate::stage::until;

/// How long a client waits for an answer while there is a fault.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a client waits when all should be well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request by its place in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Propose(usize),
    Approve(usize),
    Say(usize),
}

/// How a request is recognised when it is sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryBy {
    Key,
    /// As the official SDKs retry: without a key, with a count.
    Count,
}

/// A request as it is sent.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: String,
    pub(crate) body: String,
}

#[derive(Debug)]
struct Call {
    token: String,
    tool: &'static str,
    /// Session and call, once they are acknowledged.
    ids: Option<(String, String)>,
    approval: Approval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Unsent,
    Sent,
    Acknowledged,
}

/// A message in the row's session, or a session that is opened.
#[derive(Debug)]
struct Word {
    token: String,
    /// The session of a message; nothing for a session that is opened.
    session: Option<String>,
    again: RetryBy,
    padding: usize,
    tries: u32,
    is_acknowledged: bool,
}

/// What a row asked for and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    calls: Vec<Call>,
    words: Vec<Word>,
    /// Answers that do not say what they should.
    pub(crate) broken: Vec<Violation>,
}

impl Ledger {
    /// Notes a call that is to be made.
    pub(crate) fn call(&mut self, tool: &'static str) -> usize {
        let token = format!("call-{}", self.calls.len());
        self.calls.push(Call { token, tool, ids: None, approval: Approval::Unsent });
        self.calls.len() - 1
    }

    /// Notes a session that is to be opened.
    pub(crate) fn open(&mut self, again: RetryBy) -> usize {
        self.word(None, again, 0)
    }

    /// Notes a message that is to be sent.
    pub(crate) fn message(&mut self, session: &str, again: RetryBy, padding: usize) -> usize {
        self.word(Some(session.to_owned()), again, padding)
    }

    fn word(&mut self, session: Option<String>, again: RetryBy, padding: usize) -> usize {
        let token = format!("word-{}-end", self.words.len());
        let word = Word { token, session, again, padding, tries: 0, is_acknowledged: false };
        self.words.push(word);
        self.words.len() - 1
    }

    pub(crate) fn token(&self, call: usize) -> &str {
        &self.calls[call].token
    }

    pub(crate) fn ids(&self, call: usize) -> Option<&(String, String)> {
        self.calls[call].ids.as_ref()
    }

    /// Whether an approval was acknowledged.
    pub(crate) fn is_approved(&self, call: usize) -> bool {
        self.calls[call].approval == Approval::Acknowledged
    }

    /// The token of each message.
    pub(crate) fn messages(&self) -> Vec<String> {
        let messages = self.words.iter().filter(|word| word.session.is_some());
        messages.map(|word| word.token.clone()).collect()
    }

    /// Returns a request as it is sent next; from then on it may have been done.
    pub(crate) fn request(&mut self, step: Step, key: &str) -> Request {
        let (path, named, body) = match step {
            Step::Propose(at) => {
                let call = &self.calls[at];
                let path = format!("/haft/v1/tools/counter_{}/call", call.tool);
                let body = json!({ "arguments": { "token": call.token } });
                (path, format!("idempotency-key: {}\r\n", call.token), body)
            }
            Step::Approve(at) => {
                let call = &mut self.calls[at];
                let (session, id) = call.ids.as_ref().expect("what is approved was proposed");
                let path = format!("/haft/v1/sessions/{session}/calls/{id}/resolve");
                call.approval = call.approval.max_sent();
                let named = format!("idempotency-key: {}-yes\r\n", call.token);
                (path, named, json!({ "type": "approve" }))
            }
            Step::Say(at) => self.words[at].request(),
        };
        let headers = format!("x-api-key: {key}\r\ncontent-type: application/json\r\n{named}");
        Request { path, headers, body: body.to_string() }
    }

    /// Sends a request once and writes down what came back; returns whether it was acknowledged.
    pub(crate) fn send(&mut self, server: &Serving, step: Step) -> bool {
        self.send_within(server, step, ANSWER_MAX)
    }

    fn send_within(&mut self, server: &Serving, step: Step, patience: Duration) -> bool {
        let Request { path, headers, body } = self.request(step, &server.key);
        let answer = server.attempt(("POST", &path), &headers, &body, patience);
        let Some((status, head, answer)) = answer else { return false };
        match status {
            200 => self.acknowledged(step, &answer),
            500 => self.complain(format!("{path} was answered with 500: {answer}")),
            503 if !head.to_ascii_lowercase().contains("\r\nretry-after: ") => {
                self.complain(format!("{path} was answered with 503 and no Retry-After"));
            }
            _ => {}
        }
        status == 200
    }

    fn complain(&mut self, what: String) {
        self.broken.push(Violation::Silent(what));
    }

    fn acknowledged(&mut self, step: Step, answer: &Value) {
        match step {
            Step::Propose(at) => {
                let text = |member: &str| answer[member].as_str().unwrap().to_owned();
                self.calls[at].ids = Some((text("session"), text("call")));
            }
            Step::Approve(at) => self.calls[at].approval = Approval::Acknowledged,
            Step::Say(at) => self.words[at].is_acknowledged = true,
        }
    }

    /// Sends a request until it is acknowledged, as a client does when there is no fault.
    pub(crate) fn insist(&mut self, server: &Serving, step: Step) {
        until("a request is acknowledged", || {
            self.send_within(server, step, PATIENCE).then_some(())
        });
    }

    /// Sends again what was not acknowledged, until it is.
    pub(crate) fn insist_on_all(&mut self, server: &Serving) {
        for at in 0..self.calls.len() {
            if self.calls[at].ids.is_none() {
                self.insist(server, Step::Propose(at));
            }
            if self.calls[at].approval == Approval::Sent {
                self.insist(server, Step::Approve(at));
            }
        }
        for at in 0..self.words.len() {
            if !self.words[at].is_acknowledged {
                self.insist(server, Step::Say(at));
            }
        }
    }

    /// How many requests were acknowledged.
    pub(crate) fn n_acknowledged(&self) -> usize {
        let calls = self.calls.iter().map(|call| {
            let is_approved = call.approval == Approval::Acknowledged;
            usize::from(call.ids.is_some()) + usize::from(is_approved)
        });
        calls.sum::<usize>() + self.words.iter().filter(|word| word.is_acknowledged).count()
    }

    /// Waits until every approved call has an outcome or is in doubt, and returns what the server
    /// says of every call.
    pub(crate) fn calls_seen(&self, server: &Serving, place: &Place) -> Vec<ObservedCall> {
        let told: Vec<CallStatus> = self.calls.iter().map(|call| settled(server, call)).collect();
        let effects = place.effects();
        let calls = self.calls.iter().zip(told);
        let seen = calls.map(|(call, told)| ObservedCall {
            token: call.token.clone(),
            acknowledged: match (&call.ids, call.approval) {
                (_, Approval::Acknowledged) => Acknowledgement::Approved,
                (Some(_), _) => Acknowledgement::Proposed,
                (None, _) => Acknowledgement::Nothing,
            },
            approval_sent: call.approval != Approval::Unsent,
            effects: effects.get(&call.token).copied().unwrap_or(0),
            told,
        });
        seen.collect()
    }

    /// What the server has on record of messages and opened sessions.
    pub(crate) fn words_seen(&self, server: &Serving) -> Vec<ObservedWord> {
        let titles = titles(server);
        let mut logs: BTreeMap<&str, String> = BTreeMap::new();
        let seen = self.words.iter().map(|word| {
            let recorded = match &word.session {
                None => titles.iter().filter(|title| **title == word.token).count(),
                Some(session) => {
                    let log = logs.entry(session).or_insert_with(|| messages(server, session));
                    log.matches(&word.token).count()
                }
            };
            let token = word.token.clone();
            ObservedWord { token, is_acknowledged: word.is_acknowledged, recorded }
        });
        seen.collect()
    }
}

impl Approval {
    const fn max_sent(self) -> Self {
        match self {
            Self::Unsent | Self::Sent => Self::Sent,
            Self::Acknowledged => Self::Acknowledged,
        }
    }
}

impl Word {
    fn request(&mut self) -> (String, String, Value) {
        let named = match self.again {
            RetryBy::Key => format!("idempotency-key: {}\r\n", self.token),
            RetryBy::Count => format!("x-stainless-retry-count: {}\r\n", self.tries),
        };
        self.tries += 1;
        let token = &self.token;
        let (path, body) = match &self.session {
            None => {
                let body = json!({
                    "agent": "agent_demo", "environment_id": "env_demo", "title": token,
                });
                ("/v1/sessions".to_owned(), body)
            }
            Some(session) => {
                let text = format!("{token} {}", "x".repeat(self.padding));
                let content = json!([{ "type": "text", "text": text }]);
                let events = json!([{ "type": "user.message", "content": content }]);
                (format!("/v1/sessions/{session}/events"), json!({ "events": events }))
            }
        };
        (path, named, body)
    }
}

/// What the server says of a call; of one that was approved, once that is its last word.
fn settled(server: &Serving, call: &Call) -> CallStatus {
    let Some((session, id)) = &call.ids else { return CallStatus::Missing };
    let began = std::time::Instant::now();
    loop {
        let told = told(server, session, id);
        let is_under_way = matches!(told, CallStatus::Unfinished { .. });
        // A call that was approved a moment ago may be shown as it was.
        if !is_under_way || began.elapsed() > PATIENCE {
            return told;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn told(server: &Serving, session: &str, id: &str) -> CallStatus {
    let path = format!("/haft/v1/sessions/{session}/calls/{id}");
    let (status, shown) = server.ask("GET", &path, &Value::Null);
    if status == 404 {
        return CallStatus::Missing;
    }
    match shown["stage"].as_str() {
        Some("settled") => match shown["class"].as_str() {
            None => CallStatus::Done,
            Some(class) => CallStatus::Failed { class: class.to_owned() },
        },
        Some("waiting") if is_in_doubt(server, id) => CallStatus::InDoubt,
        Some("waiting") => CallStatus::Waiting,
        stage => CallStatus::Unfinished { stage: stage.unwrap_or("unreadable").to_owned() },
    }
}

fn is_in_doubt(server: &Serving, call: &str) -> bool {
    let waits = server.get("/haft/v1/pending?limit=500");
    let mut waits = waits["data"].as_array().unwrap().iter();
    waits.any(|wait| wait["call"] == call && wait["kind"] == "settlement")
}

/// The titles of all sessions.
fn titles(server: &Serving) -> Vec<String> {
    let (mut titles, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/sessions?limit=100{after}"));
        let sessions = page["data"].as_array().unwrap().iter();
        titles.extend(sessions.filter_map(|it| it["title"].as_str().map(str::to_owned)));
        match page["next_page"].as_str() {
            Some(next) => after = format!("&page={next}"),
            None => return titles,
        }
    }
}

/// All messages on record of a session, as one text.
fn messages(server: &Serving, session: &str) -> String {
    let (mut messages, mut after) = (String::new(), 0);
    loop {
        let path = format!("/haft/v1/sessions/{session}/events?limit=100&after={after}");
        let page = server.get(&path);
        let entries = page["data"].as_array().unwrap();
        let Some(last) = entries.last() else { return messages };
        after = last["seq"].as_u64().unwrap();
        for entry in entries.iter().filter(|it| it["event"]["type"] == "message.received") {
            messages.push_str(&entry["event"].to_string());
        }
    }
}
