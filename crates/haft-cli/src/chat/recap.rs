//! The end of a conversation that is gone on with: who said what, and what ran.

use std::collections::VecDeque;

use haft_core::session::Event;
use haft_core::{CallResult, ContentBlock, Outcome};

use super::prose::Prose;
use super::screen::Screen;
use crate::resolving::said;
use crate::terminal::{Paint, Tone, clipped, columns, fitted, shortened, width};

/// How many entries are shown.
const SHOWN_MAX: usize = 20;
/// How many lines of what someone said.
const LINES_MAX: usize = 8;
/// How long what a call was given and what it gave may be; a card is one line.
const GIVEN_MAX: usize = 40;
const GAVE_MAX: usize = 40;

/// The last entries of a conversation, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Recap {
    n_heard: usize,
    last: VecDeque<String>,
}

impl Recap {
    /// Keeps what people would remember of a conversation.
    pub(super) fn hear(&mut self, event: &Event, screen: &Screen) {
        let paint = Paint::stderr();
        let entry = match event {
            Event::MessageReceived { from, content, .. } => {
                let mark = paint.paint(Tone::Accent, &format!("{} ›", from.id.as_str()));
                words(content).map(|text| format!("{mark} {text}"))
            }
            Event::TurnAnswered { content, .. } => words(content),
            Event::CallFinished { outcome } => Some(card(outcome, screen, paint)),
            Event::CallRejected { name, rejection, .. } => {
                let why = shortened(&rejection.message, GIVEN_MAX + GAVE_MAX);
                let name = shortened(name, GIVEN_MAX);
                Some(fitted(&format!("{} {name}  {why}", paint.paint(Tone::Bad, "✗")), 2))
            }
            Event::SessionInterrupted { .. } => Some(paint.paint(Tone::Warn, "  stopped")),
            _ => None,
        };
        let Some(entry) = entry else { return };
        self.n_heard += 1;
        self.last.push_back(entry);
        if self.last.len() > SHOWN_MAX {
            self.last.pop_front();
        }
    }

    /// What is shown of it, if there was anything.
    pub(super) fn shown(&self, session: &str) -> Option<String> {
        let n_above = self.n_heard - self.last.len();
        let above = (n_above > 0).then(|| {
            let more = format!("… {n_above} entries above: `haft sessions trace {session}`");
            fitted(&Paint::stderr().paint(Tone::Dim, &more), 2)
        });
        let lines: Vec<String> = above.into_iter().chain(self.last.iter().cloned()).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// The beginning of what was said.
fn words(content: &[ContentBlock]) -> Option<String> {
    let said: Vec<&str> = content.iter().filter_map(ContentBlock::as_text).collect();
    let said = fitted(said.join("\n\n").trim(), 0);
    let n_lines = said.lines().count();
    let mut shown: Vec<&str> = said.lines().take(LINES_MAX).collect();
    let more = format!("… {} lines more", n_lines.saturating_sub(LINES_MAX));
    if n_lines > LINES_MAX {
        shown.push(&more);
    }
    let mut prose = Prose::new(Paint::stderr(), None);
    let shown = prose.push(&shown.join("\n")) + &prose.end();
    (!shown.is_empty()).then_some(shown)
}

fn card(outcome: &Outcome, screen: &Screen, paint: Paint) -> String {
    let (called, given) = screen.called_with(outcome.call).unwrap_or((outcome.tool.as_str(), ""));
    let (mark, tone, gave) = match &outcome.result {
        CallResult::Ok(output) => ("✓", Tone::Good, said(output)),
        CallResult::Err(failure) => ("✗", Tone::Bad, failure.message.clone()),
    };
    let rest = format!("{}  → {}", shortened(given, GIVEN_MAX), shortened(&gave, GAVE_MAX));
    let room = width().unwrap_or(GIVEN_MAX + GAVE_MAX).saturating_sub(columns(called) + 3);
    let rest = paint.paint(Tone::Dim, &clipped(&rest, room));
    format!("{} {called} {rest}", paint.paint(tone, mark))
}
