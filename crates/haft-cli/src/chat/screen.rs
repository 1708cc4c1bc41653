//! What a conversation looks like: what is said, what runs, and what came of it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use haft_core::session::{Config, Event, TurnEnding};
use haft_core::{ActorKind, CallId, CallResult, ContentBlock, Failure, Millis, Outcome};
use serde_json::Value;

use super::prose::Prose;
use super::talk::Manner;
use crate::resolving::{decision, said};
use crate::terminal::{
    LiveLine, Paint, Tone, arguments_line, clipped, fitted, printable, shortened, took, width,
};

/// How many lines of a result are shown.
const RESULT_LINES_MAX: usize = 6;
/// How long a line is where nobody looks; at a terminal, as long as its lines are.
const LINE_MAX: usize = 110;

/// The terminal of a conversation. What the model says goes to stdout, all else to stderr.
pub(super) struct Screen {
    manner: Manner,
    paint: Paint,
    prose: Prose,
    line: LiveLine,
    config: Option<Arc<Config>>,
    calls: BTreeMap<CallId, Shown>,
    /// What was said of a turn while it was being said.
    streamed: (u32, String),
    is_mid_line: bool,
    thinking_since: Option<Instant>,
}

struct Shown {
    called: String,
    arguments: String,
    running_since: Option<Instant>,
    progress: Option<String>,
}

impl Screen {
    pub(super) fn new(manner: Manner) -> Self {
        Self {
            manner,
            paint: Paint::stderr(),
            prose: Prose::new(Paint::stdout(), width()),
            line: LiveLine::on_stderr(),
            config: None,
            calls: BTreeMap::new(),
            streamed: (0, String::new()),
            is_mid_line: false,
            thinking_since: None,
        }
    }

    /// Remembers what later events refer to, without showing anything.
    pub(super) fn recall(&mut self, event: &Event) {
        if let Event::SessionOpened { config, .. } | Event::SessionReconfigured { config, .. } =
            event
        {
            self.config = Some(Arc::clone(config));
        }
        if let Event::CallProposed { call, contract, arguments, .. } = event {
            let called = self.called(contract.tool.as_str());
            let arguments = arguments_line(arguments.record());
            let shown = Shown { called, arguments, running_since: None, progress: None };
            self.calls.insert(*call, shown);
        }
    }

    /// What a call was called, and with what.
    pub(super) fn called_with(&self, call: CallId) -> Option<(&str, &str)> {
        let shown = self.calls.get(&call)?;
        Some((&shown.called, &shown.arguments))
    }

    pub(super) fn show(&mut self, event: &Event) {
        self.recall(event);
        match event {
            Event::TurnStarted { .. } => self.thinking_since = Some(Instant::now()),
            Event::TurnRetried { failure, .. } => self.asked_again(failure.as_ref()),
            Event::TurnAnswered { turn, content, .. } => self.answered(*turn, content),
            Event::TurnEnded { ending, .. } => self.ended(ending),
            Event::SessionInterrupted { .. } => self.note(Tone::Warn, "stopped"),
            Event::CallStarted { call, .. } => {
                if let Some(shown) = self.calls.get_mut(call) {
                    shown.running_since = Some(Instant::now());
                }
            }
            Event::CallResolved { call, by, decision: decided, .. } => {
                let called = self.calls.get(call).map(|shown| shown.called.clone());
                let word = decision(&decided.kind().to_string()).to_owned();
                let by = match by.kind {
                    ActorKind::System => String::new(),
                    ActorKind::User | ActorKind::Service | ActorKind::Agent => {
                        format!(" by {}", by.id.as_str())
                    }
                };
                self.note(Tone::Dim, &format!("{} {word}{by}", called.unwrap_or_default()));
            }
            Event::CallRejected { name, rejection, .. } => {
                let why = shortened(&rejection.message, LINE_MAX);
                self.note(Tone::Bad, &format!("✗ {name}: {why}"));
            }
            Event::CallInterrupted { call, failure, .. } => {
                let called = self.calls.get(call).map(|shown| shown.called.clone());
                let called = called.unwrap_or_default();
                let text = match failure {
                    Some(failure) => {
                        let why = shortened(&failure.message, LINE_MAX);
                        format!("{called} ended without a result: {why}")
                    }
                    None => format!("the process of {called} died"),
                };
                self.note(Tone::Bad, &text);
            }
            Event::CallFinished { outcome } => self.finished(outcome),
            _ => {}
        }
    }

    /// What the model is saying right now.
    pub(super) fn saying(&mut self, turn: u32, text: &str) {
        self.thinking_since = None;
        if self.streamed.0 != turn {
            self.streamed = (turn, String::new());
        }
        self.streamed.1.push_str(text);
        self.write(text);
    }

    pub(super) fn progress(&mut self, call: &str, progress: &Value) {
        let known = call.parse().ok().and_then(|call: CallId| self.calls.get_mut(&call));
        if let Some(shown) = known {
            shown.progress = Some(match progress {
                Value::String(text) => text.clone(),
                other => other["message"].as_str().map_or_else(|| other.to_string(), str::to_owned),
            });
        }
    }

    /// Moves what moves.
    pub(super) fn tick(&mut self) {
        if self.is_mid_line {
            return;
        }
        let running: Vec<String> = self
            .calls
            .values()
            .filter_map(|shown| {
                let time = seconds(shown.running_since?);
                let progress = shown.progress.as_ref().map(|said| format!(" {said}"));
                Some(format!("{}{} {time}", shown.called, progress.unwrap_or_default()))
            })
            .collect();
        match (running.is_empty(), self.thinking_since) {
            (false, _) => self.line.show(&running.join("  ")),
            (true, Some(since)) => self.line.show(&format!("thinking {}", seconds(since))),
            (true, None) => self.line.clear(),
        }
    }

    /// Makes room for something that stays.
    pub(super) fn settle(&mut self) {
        self.line.clear();
        if self.is_mid_line {
            let end = self.prose.end();
            out(&format!("{end}\n"));
            self.is_mid_line = false;
        }
    }

    pub(super) fn note(&mut self, tone: Tone, text: &str) {
        self.settle();
        if self.manner != Manner::Json {
            let note = format!("  {}", self.paint.paint(tone, &printable(text)));
            eprintln!("{}", fitted(&note, 4));
        }
    }

    /// What the model began to say is void.
    fn asked_again(&mut self, broke_off: Option<&Failure>) {
        self.streamed.1.clear();
        self.thinking_since = Some(Instant::now());
        let why = match broke_off {
            Some(_) => "the model's answer broke off; it is asked again",
            None => "the process that asked the model died; it is asked again",
        };
        self.note(Tone::Warn, why);
    }

    fn answered(&mut self, turn: u32, content: &[ContentBlock]) {
        self.thinking_since = None;
        let whole: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
        let whole = whole.join("\n\n");
        let said = match self.streamed.0 == turn {
            true => std::mem::take(&mut self.streamed.1),
            false => String::new(),
        };
        match whole.strip_prefix(said.as_str()) {
            Some(rest) => self.write(rest),
            // Some of it was lost on the way: the log has all of it.
            None => {
                self.settle();
                self.write(&whole);
            }
        }
        self.settle();
    }

    fn finished(&mut self, outcome: &Outcome) {
        let Some(shown) = self.calls.remove(&outcome.call) else { return };
        self.settle();
        if self.manner == Manner::Json {
            return;
        }
        let paint = self.paint;
        let time = took(outcome.finished_at.since(outcome.started_at));
        let arguments =
            paint.paint(Tone::Dim, &shortened(&shown.arguments, line_max().saturating_sub(24)));
        let (mark, tone, said) = match &outcome.result {
            CallResult::Ok(output) => ("✓", Tone::Good, said(output)),
            CallResult::Err(failure) => ("✗", Tone::Bad, failure.message.clone()),
        };
        let called = paint.paint(Tone::Bold, &shown.called);
        let mark = paint.paint(tone, mark);
        eprintln!("{mark} {called} {arguments}  {}", paint.paint(Tone::Dim, &time));
        let n_lines = said.lines().count();
        for line in said.lines().take(RESULT_LINES_MAX) {
            eprintln!("  {}", paint.paint(Tone::Dim, &format!("│ {}", cut(line))));
        }
        if n_lines > RESULT_LINES_MAX {
            let more = format!("│ … {} lines more", n_lines - RESULT_LINES_MAX);
            eprintln!("  {}", paint.paint(Tone::Dim, &more));
        }
    }

    fn ended(&mut self, ending: &TurnEnding) {
        self.thinking_since = None;
        self.settle();
        match ending {
            TurnEnding::Limit { limit } => {
                self.note(Tone::Warn, &format!("stopped at a limit: {limit}"))
            }
            TurnEnding::Failed { failure } => {
                let text = format!("the model could not be asked: {}", failure.message);
                self.note(Tone::Bad, &text);
            }
            TurnEnding::Completed
            | TurnEnding::Settled
            | TurnEnding::Terminal
            | TurnEnding::Interrupted => {}
        }
    }

    fn called(&self, tool: &str) -> String {
        let called = self.config.as_ref().map(|config| config.toolset.called(tool).to_owned());
        called.unwrap_or_else(|| tool.to_owned())
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() || self.manner == Manner::Json {
            return;
        }
        self.line.clear();
        let shown = self.prose.push(text);
        out(&shown);
        self.is_mid_line = !text.ends_with('\n');
    }
}

/// A reader that has gone away has had enough.
fn out(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

fn seconds(since: Instant) -> String {
    took(Millis(since.elapsed().as_millis().try_into().unwrap_or(u64::MAX)))
}

fn line_max() -> usize {
    width().map_or(LINE_MAX, |width| width - 6)
}

/// A line as it is, within the width.
fn cut(line: &str) -> String {
    clipped(&printable(line), line_max())
}
