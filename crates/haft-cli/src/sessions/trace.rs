//! `haft sessions trace`: what happened, as a tree.

use std::collections::BTreeMap;

use haft_core::session::{Event, TurnEnding};
use haft_core::{Actor, ActorKind, CallId, CallResult, ContentBlock, Timestamp};
use serde_json::{Value, json};

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse, rows};
use crate::command::over_api;
use crate::resolving::decision;
use crate::terminal::{Paint, Tone, arguments_line, printable, say, say_json, shortened, took};

/// How much of a text is shown.
const TEXT_MAX: usize = 100;
/// What is said of a call that waits for room in a pool of its tool.
const QUEUED: &str = "queued until its server or tool has room";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, or the beginning of its id.
    session: String,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Verdict> {
    over_api(&args.reach, StoreUse::Existing, async |api| {
        let id = api.session(&args.session).await?;
        let tree = read(api, &id).await?;
        match args.reach.wants_json() {
            true => say_json(&json!({ "session": id, "data": tree.as_json() }))?,
            false => tree.say(&id),
        }
        Ok(Verdict::Holds)
    })
}

async fn read(api: &Api, id: &str) -> anyhow::Result<Tree> {
    let (mut tree, mut after) = (Tree::default(), 0);
    loop {
        let page = rows(api.get(&format!("/haft/v1/sessions/{id}/events?after={after}")).await?);
        let Some(last) = page.last().and_then(|entry| entry["seq"].as_u64()) else {
            return Ok(tree);
        };
        for entry in page {
            let at = Timestamp::from_ms(entry["at"].as_i64().unwrap_or_default());
            // What a newer server knows and this program does not is in `haft sessions events`.
            if let Ok(event) = serde_json::from_value::<Event>(entry["event"].clone()) {
                tree.take(at, &event);
            }
        }
        after = last;
    }
}

/// One thing that happened, with what happened within it.
#[derive(Debug, Default)]
struct Node {
    tone: Option<Tone>,
    text: String,
    from: Timestamp,
    to: Option<Timestamp>,
    within: Vec<Node>,
}

/// What happened, folded from the log.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    /// Where each call is: the node at the top, and its place in there.
    calls: BTreeMap<CallId, (usize, usize)>,
}

impl Node {
    fn new(text: impl Into<String>, at: Timestamp) -> Self {
        Self { text: printable(&text.into()), from: at, ..Self::default() }
    }

    fn toned(self, tone: Tone) -> Self {
        Self { tone: Some(tone), ..self }
    }

    fn as_json(&self) -> Value {
        let within: Vec<Value> = self.within.iter().map(Self::as_json).collect();
        json!({ "text": self.text, "from": self.from, "to": self.to, "within": within })
    }

    fn say(&self, before: &str, is_last: bool, paint: Paint) {
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let time = self.to.map(|to| format!("  {}", took(to.since(self.from)))).unwrap_or_default();
        let text =
            self.tone.map_or_else(|| self.text.clone(), |tone| paint.paint(tone, &self.text));
        let lead = paint.paint(Tone::Dim, &format!("{before}{branch}"));
        say(&format!("{lead}{text}{}", paint.paint(Tone::Dim, &time)));
        for (at, node) in self.within.iter().enumerate() {
            node.say(&format!("{before}{below}"), at + 1 == self.within.len(), paint);
        }
    }
}

impl Tree {
    fn as_json(&self) -> Vec<Value> {
        self.nodes.iter().map(Node::as_json).collect()
    }

    fn say(&self, session: &str) {
        let paint = Paint::stdout();
        say(&paint.paint(Tone::Accent, session));
        for (at, node) in self.nodes.iter().enumerate() {
            node.say("", at + 1 == self.nodes.len(), paint);
        }
    }

    fn take(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::SessionOpened { by, .. } => {
                self.add(Node::new(format!("opened by {}", who(by)), at))
            }
            Event::SessionInterrupted { by, .. } => {
                self.add(Node::new(format!("interrupted by {}", who(by)), at).toned(Tone::Warn));
            }
            Event::SessionRestored { by, .. } => {
                let text = format!("restored from a backup by {}", who(by));
                self.add(Node::new(text, at).toned(Tone::Warn));
            }
            Event::SessionEnded {} => self.add(Node::new("ended", at)),
            Event::MessageReceived { from, content, .. } => {
                let said = format!("{}: {}", who(from), words(content));
                self.add(Node::new(said, at).toned(Tone::Bold));
            }
            Event::TurnStarted { turn, .. } => self.add(Node::new(format!("turn {turn}"), at)),
            Event::TurnRetried { attempt, failure, .. } => {
                let why = match failure {
                    Some(failure) => failure.message.as_str(),
                    None => "the process that asked it died",
                };
                let text = format!("model asked again (attempt {attempt}): {why}");
                self.within(Node::new(text, at).toned(Tone::Warn));
            }
            Event::TurnAnswered { content, .. } if !content.is_empty() => {
                self.within(Node::new(words(content), at));
            }
            Event::TurnEnded { ending, .. } => self.ended(at, ending),
            Event::GrantAdded { grant } => {
                let text =
                    format!("{} gave a standing permission for {}", who(&grant.by), grant.tool);
                self.add(Node::new(text, at));
            }
            event => self.of_call(at, event),
        }
    }

    fn of_call(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::CallProposed { call, contract, arguments, .. } => {
                let text = format!("{}  {}", contract.tool, arguments_line(arguments.record()));
                self.propose(*call, Node::new(shortened(&text, TEXT_MAX), at).toned(Tone::Accent));
            }
            Event::CallRejected { call, name, rejection, .. } => {
                let text = format!("{name}: not run: {}", shortened(&rejection.message, TEXT_MAX));
                self.propose(*call, Node::new(text, at).toned(Tone::Bad));
            }
            Event::CallSuspended { call, kind, .. } => {
                let kind = json!(kind);
                let text = format!("waits: {}", kind.as_str().unwrap_or_default());
                self.in_call(*call, Node::new(text, at).toned(Tone::Warn));
            }
            Event::CallResolved { call, by, decision: decided, .. } => {
                let text = format!("{} by {}", decision(&decided.kind().to_string()), who(by));
                self.close_last(*call, at);
                self.in_call(*call, Node::new(text, at));
            }
            Event::CallQueued { call } => {
                self.in_call(*call, Node::new(QUEUED, at).toned(Tone::Warn));
            }
            Event::CallStarted { call, attempt, .. } => {
                self.leave_queue(*call, at);
                self.in_call(*call, Node::new(format!("attempt {attempt}"), at));
            }
            Event::CallRetryScheduled { call, failure, .. } => {
                self.close_last(*call, at);
                let text = format!("failed, will try again: {}", failure.message);
                self.in_call(*call, Node::new(text, at).toned(Tone::Warn));
            }
            Event::CallInterrupted { call, attempt, failure, .. } => {
                let text = match failure {
                    Some(failure) => {
                        format!("attempt {attempt} ended without a result: {}", failure.message)
                    }
                    None => format!("its process died during attempt {attempt}"),
                };
                self.in_call(*call, Node::new(text, at).toned(Tone::Bad));
            }
            Event::CallFinished { outcome } => {
                self.close_last(outcome.call, at);
                let (text, tone) = match &outcome.result {
                    CallResult::Ok(_) => ("done".to_owned(), Tone::Good),
                    CallResult::Err(failure) => {
                        (format!("{}: {}", failure.class, failure.message), Tone::Bad)
                    }
                };
                self.in_call(outcome.call, Node::new(text, at).toned(tone));
                if let Some(node) = self.call(outcome.call) {
                    node.to = Some(at);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// Adds to what is under way: the turn, or in a session that a program drives, nothing.
    fn within(&mut self, node: Node) {
        match self.nodes.last_mut() {
            Some(last) => last.within.push(node),
            None => self.nodes.push(node),
        }
    }

    fn propose(&mut self, call: CallId, node: Node) {
        self.within(node);
        let top = self.nodes.len() - 1;
        let within = self.nodes[top].within.len().saturating_sub(1);
        self.calls.insert(call, (top, within));
    }

    fn call(&mut self, call: CallId) -> Option<&mut Node> {
        let (top, within) = self.calls.get(&call)?;
        self.nodes.get_mut(*top)?.within.get_mut(*within)
    }

    fn in_call(&mut self, call: CallId, node: Node) {
        if let Some(of) = self.call(call) {
            of.within.push(node);
        }
    }

    /// Ends the wait of a call that was queued, if its last was that.
    fn leave_queue(&mut self, call: CallId, at: Timestamp) {
        let last = self.call(call).and_then(|of| of.within.last());
        if last.is_some_and(|last| last.text == QUEUED) {
            self.close_last(call, at);
        }
    }

    fn close_last(&mut self, call: CallId, at: Timestamp) {
        let last = self.call(call).and_then(|of| of.within.last_mut());
        if let Some(last) = last.filter(|last| last.to.is_none()) {
            last.to = Some(at);
        }
    }

    fn ended(&mut self, at: Timestamp, ending: &TurnEnding) {
        let text = match ending {
            TurnEnding::Completed | TurnEnding::Settled => None,
            TurnEnding::Terminal => Some("a tool ended the run".to_owned()),
            TurnEnding::Limit { limit } => Some(format!("stopped at a limit: {limit}")),
            TurnEnding::Interrupted => Some("stopped".to_owned()),
            TurnEnding::Failed { failure } => {
                Some(format!("the model could not be asked: {}", failure.message))
            }
        };
        if let Some(text) = text {
            self.within(Node::new(text, at).toned(Tone::Warn));
        }
        let turn = self.nodes.iter_mut().rfind(|node| node.text.starts_with("turn "));
        if let Some(turn) = turn {
            turn.to = Some(at);
        }
    }
}

fn words(content: &[ContentBlock]) -> String {
    let text: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
    shortened(&text.join(" "), TEXT_MAX)
}

fn who(actor: &Actor) -> String {
    match actor.kind {
        ActorKind::System => "Haft".to_owned(),
        ActorKind::User | ActorKind::Service | ActorKind::Agent => actor.id.as_str().to_owned(),
    }
}
