//! A conversation: what is typed goes to the session, what the session does is shown, what it
//! asks is asked.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::time::Duration;

use haft_core::CallId;
use haft_core::session::{Event, SuspensionKind, TurnEnding};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::recap::Recap;
use super::screen::Screen;
use crate::Verdict;
use crate::api::{Api, Heard, Stream, rows};
use crate::decide::decide;
use crate::prompt::{Lines, prompt};
use crate::terminal::{Paint, Tone, fitted, say_json};

const TICK: Duration = Duration::from_millis(120);

/// How a conversation is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Conversation,
    /// One message and what comes of it, as one JSON value.
    Json,
    /// One message and what comes of it.
    OneTurn,
}

/// What a session came to.
#[derive(Debug, Clone, PartialEq)]
enum Rest {
    /// It is the person's turn.
    Idle(TurnEnding),
    /// It waits for someone, and nobody here decides.
    Waits,
    /// The session is over.
    Ended,
}

pub(super) struct Talk<'a> {
    api: &'a Api,
    session: String,
    stream: Stream,
    seq: u64,
    /// What was heard and not yet dealt with.
    heard: VecDeque<Heard>,
    waiting: VecDeque<CallId>,
    screen: Screen,
    recap: Recap,
    lines: Option<Lines>,
    interrupts: Signal,
    manner: Manner,
    said: Vec<String>,
}

impl<'a> Talk<'a> {
    /// Joins a session after the part of its log that is known; what waits in there is asked.
    pub(super) async fn begin(
        api: &'a Api,
        session: String,
        seen: u64,
        manner: Manner,
    ) -> anyhow::Result<Self> {
        let stream = api.follow(&session, 0).await?;
        let is_asked = manner != Manner::Json && std::io::stdin().is_terminal();
        let mut talk = Self {
            api,
            session,
            stream,
            seq: 0,
            heard: VecDeque::new(),
            waiting: VecDeque::new(),
            screen: Screen::new(manner),
            recap: Recap::default(),
            lines: is_asked.then(Lines::of_stdin),
            interrupts: signal(SignalKind::interrupt())?,
            manner,
            said: Vec::new(),
        };
        talk.catch_up(seen).await;
        Ok(talk)
    }

    /// Reads what happened before; the end of it is kept to be shown.
    async fn catch_up(&mut self, seen: u64) {
        while self.seq < seen.max(1) {
            match self.stream.next().await {
                Some(Heard::Entry { seq, event, .. }) => {
                    self.seq = seq;
                    self.screen.recall(&event);
                    self.recap.hear(&event, &self.screen);
                    self.note_wait(&event);
                }
                Some(Heard::Progress { .. } | Heard::Text { .. }) => {}
                // What a newer server alone understands is not counted here.
                Some(Heard::CaughtUp | Heard::Deleted) | None => return,
            }
        }
    }

    pub(super) async fn converse(&mut self) -> anyhow::Result<Verdict> {
        let paint = Paint::stderr();
        let hint = format!("{}   /help lists what you can type, Ctrl-D leaves", self.session);
        if let Some(before) = self.recap.shown(&self.session) {
            eprintln!("{before}\n");
        }
        eprintln!("{}", fitted(&paint.paint(Tone::Dim, &hint), 0));
        if !self.waiting.is_empty() {
            self.drive().await?;
        }
        loop {
            prompt(&format!("\n{} ", paint.paint(Tone::Accent, "›")));
            let Some(typed) = self.typed().await else { break };
            match typed.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                "/help" => help(),
                "/session" => eprintln!("{}", self.session),
                message => {
                    self.say(message).await?;
                    match self.drive().await? {
                        Rest::Ended => break,
                        Rest::Waits => {
                            let hint = "it waits: `haft pending` lists it; go on here to be asked";
                            eprintln!("{}", paint.paint(Tone::Dim, hint));
                        }
                        Rest::Idle(_) => {}
                    }
                }
            }
        }
        let back = format!("to go on: haft chat --session {}", self.session);
        eprintln!("{}", paint.paint(Tone::Dim, &back));
        Ok(Verdict::Holds)
    }

    pub(super) async fn once(&mut self, message: &str) -> anyhow::Result<Verdict> {
        if self.waiting.is_empty() {
            self.say(message).await?;
        }
        let rest = self.drive().await?;
        let waits =
            rows(self.api.get(&format!("/haft/v1/pending?session={}", self.session)).await?);
        let verdict = match &rest {
            Rest::Waits => Verdict::Waits,
            Rest::Idle(TurnEnding::Failed { .. } | TurnEnding::Limit { .. }) => Verdict::Broken,
            Rest::Idle(_) | Rest::Ended => Verdict::Holds,
        };
        if self.manner == Manner::Json {
            let text = self.said.join("\n\n");
            say_json(&json!({ "session": self.session, "text": text, "pending": waits }))?;
        } else if rest == Rest::Waits {
            for wait in &waits {
                let call = wait["call"].as_str().unwrap_or_default();
                eprintln!("waits for someone: `haft pending {call}`");
            }
        }
        Ok(verdict)
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let path = format!("/haft/v1/sessions/{}/messages", self.session);
        self.api.post(&path, &json!({ "text": text })).await?;
        Ok(())
    }

    /// Returns what is typed next; Ctrl-C takes an unfinished line back, twice in a row leaves.
    async fn typed(&mut self) -> Option<String> {
        let mut was_interrupted = false;
        let lines = self.lines.as_mut()?;
        loop {
            tokio::select! {
                line = lines.next() => return line,
                _ = self.interrupts.recv() => {
                    if was_interrupted {
                        return None;
                    }
                    was_interrupted = true;
                    let hint = Paint::stderr().paint(Tone::Dim, "(Ctrl-C again leaves)");
                    prompt(&format!("\n{hint}\n› "));
                }
            }
        }
    }

    /// Shows what happens until it is someone else's turn.
    async fn drive(&mut self) -> anyhow::Result<Rest> {
        let mut tick = tokio::time::interval(TICK);
        let mut n_interrupts = 0;
        loop {
            if let Some(rest) = self.dealt_with() {
                return Ok(rest);
            }
            if let Some(call) = self.waiting.front().copied() {
                match self.decided(call).await? {
                    Asking::Over => {}
                    Asking::Left => {
                        self.screen.settle();
                        return Ok(Rest::Waits);
                    }
                }
                continue;
            }
            tokio::select! {
                heard = self.stream.next() => match heard {
                    Some(heard) => self.heard.push_back(heard),
                    None => self.stream = self.again().await?,
                },
                _ = tick.tick() => self.screen.tick(),
                _ = self.interrupts.recv() => {
                    n_interrupts += 1;
                    if n_interrupts > 1 {
                        return Ok(Rest::Ended);
                    }
                    self.interrupt().await?;
                }
            }
        }
    }

    /// Follows the log anew where it was left: the server may have been started again.
    async fn again(&mut self) -> anyhow::Result<Stream> {
        let mut n_tries = 0;
        loop {
            match self.api.follow(&self.session, self.seq).await {
                Ok(stream) => return Ok(stream),
                Err(error) if n_tries >= 40 => return Err(error.into()),
                Err(_) => {
                    n_tries += 1;
                    self.screen.tick();
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        }
    }

    async fn interrupt(&mut self) -> anyhow::Result<()> {
        let path = format!("/haft/v1/sessions/{}/interrupt", self.session);
        self.api.post(&path, &json!({ "note": "Ctrl-C" })).await?;
        self.waiting.clear();
        Ok(())
    }

    /// Deals with what was heard; returns where the session came to rest.
    fn dealt_with(&mut self) -> Option<Rest> {
        while let Some(heard) = self.heard.pop_front() {
            match heard {
                Heard::Entry { seq, event, .. } => {
                    self.seq = seq;
                    self.screen.show(&event);
                    self.note_wait(&event);
                    if let Event::TurnAnswered { content, .. } = &*event {
                        self.said.extend(
                            content.iter().filter_map(|block| block.as_text()).map(str::to_owned),
                        );
                    }
                    match &*event {
                        Event::TurnEnded { ending, .. } => return Some(Rest::Idle(ending.clone())),
                        Event::SessionEnded {} => return Some(Rest::Ended),
                        _ => {}
                    }
                }
                Heard::Progress { call, progress } => self.screen.progress(&call, &progress),
                Heard::Text { turn, text } => self.screen.saying(turn, &text),
                Heard::Deleted => return Some(Rest::Ended),
                Heard::CaughtUp => {}
            }
        }
        None
    }

    fn note_wait(&mut self, event: &Event) {
        match event {
            Event::CallSuspended { call, kind, .. } => match kind {
                SuspensionKind::Approval
                | SuspensionKind::Elicitation
                | SuspensionKind::Settlement => {
                    self.waiting.push_back(*call);
                }
                SuspensionKind::ClientExec | SuspensionKind::Child => {}
            },
            Event::CallResolved { call, .. } => self.waiting.retain(|waits| waits != call),
            Event::CallFinished { outcome } => self.waiting.retain(|waits| *waits != outcome.call),
            _ => {}
        }
    }

    /// Has the person decide, unless someone elsewhere does so first.
    async fn decided(&mut self, call: CallId) -> anyhow::Result<Asking> {
        self.screen.settle();
        let Some(lines) = self.lines.as_mut() else { return Ok(Asking::Left) };
        let wait = match self.api.wait(&call.to_string()).await {
            Ok(wait) => wait,
            // It was decided meanwhile, which the log will say.
            Err(error) if ["no_call", "stale"].contains(&error.code()) => {
                self.waiting.pop_front();
                return Ok(Asking::Over);
            }
            Err(error) => return Err(error.into()),
        };
        let mut is_interrupted = false;
        let asking = tokio::select! {
            decided = decide(self.api, lines, &wait) => match decided? {
                true => Asking::Over,
                false => Asking::Left,
            },
            () = elsewhere(&mut self.stream, &mut self.heard, call) => {
                eprintln!();
                Asking::Over
            }
            _ = self.interrupts.recv() => {
                is_interrupted = true;
                Asking::Over
            }
        };
        if is_interrupted {
            eprintln!();
            self.interrupt().await?;
        } else if asking == Asking::Over {
            self.waiting.pop_front();
        }
        Ok(asking)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The person leaves it for later.
    Left,
    /// The wait has ended, whoever ended it.
    Over,
}

/// Listens until the log says that a call's wait has ended; all that is heard is kept.
async fn elsewhere(stream: &mut Stream, kept: &mut VecDeque<Heard>, call: CallId) {
    while let Some(heard) = stream.next().await {
        let is_over = match &heard {
            Heard::Entry { event, .. } => {
                event.call() == Some(call)
                    && matches!(**event, Event::CallResolved { .. } | Event::CallFinished { .. })
            }
            Heard::Deleted => true,
            Heard::CaughtUp | Heard::Progress { .. } | Heard::Text { .. } => false,
        };
        kept.push_back(heard);
        if is_over {
            return;
        }
    }
    // The stream broke off: the person is asked nonetheless, and it is followed anew afterwards.
    std::future::pending().await
}

fn help() {
    let lines = [
        ("/session", "prints the session's id"),
        ("/quit", "leaves; the session stays, and `haft chat --session` goes on with it"),
        ("Ctrl-C", "stops what is under way, not the program"),
    ];
    for (what, does) in lines {
        eprintln!("{}", fitted(&format!("  {what:<10} {does}"), 13));
    }
}
