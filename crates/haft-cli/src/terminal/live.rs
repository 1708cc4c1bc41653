//! One line at the bottom of a terminal that moves while something is under way.

use std::io::{IsTerminal as _, Write as _};

use super::style::{Paint, Tone};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// The line; nothing at all where nobody looks.
#[derive(Debug)]
pub(crate) struct LiveLine {
    is_seen: bool,
    is_there: bool,
    frame: usize,
    paint: Paint,
}

impl LiveLine {
    pub(crate) fn on_stderr() -> Self {
        let is_seen = std::io::stderr().is_terminal() && std::io::stdout().is_terminal();
        Self { is_seen, is_there: false, frame: 0, paint: Paint::stderr() }
    }

    /// Shows what is under way in place of what was shown before.
    pub(crate) fn show(&mut self, text: &str) {
        if !self.is_seen {
            return;
        }
        let room = super::width().unwrap_or(80).saturating_sub(4);
        let text = super::shortened(text, room);
        let spinner = self.paint.paint(Tone::Accent, FRAMES[self.frame % FRAMES.len()]);
        self.frame += 1;
        self.is_there = true;
        write(&format!("\r\u{1b}[K{spinner} {}", self.paint.paint(Tone::Dim, &text)));
    }

    /// Takes the line away, before anything is said that stays.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            write("\r\u{1b}[K");
        }
    }
}

/// What moves is decoration: that it could not be written changes nothing.
fn write(text: &str) {
    let mut err = std::io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}
