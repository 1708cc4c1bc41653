//! What people see: colours where they are wanted, tables, times, cards.
//!
//! Data goes to stdout and is all that `--json` changes; whatever moves or is coloured depends on
//! whether a person looks at it. Colour never carries meaning alone.

mod card;
mod diff;
mod live;
mod style;
mod table;
mod times;
mod wrap;

pub(crate) use card::{arguments_line, wait_card};
pub(crate) use diff::diff;
pub(crate) use live::LiveLine;
pub(crate) use style::{Paint, Tone};
pub(crate) use table::Table;
pub(crate) use times::{ago, left, now, took};
pub(crate) use wrap::{Wrapping, clipped, columns, wrapped};

use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use haft_core::legible;
use serde_json::Value;

/// Why something was not printed.
static UNSAID: OnceLock<io::Error> = OnceLock::new();

/// Prints a line to stdout.
pub(crate) fn say(text: &str) {
    print(format!("{text}\n").as_bytes());
}

/// Prints to stdout. A reader that has gone away, as in `haft pending | head -1`, has had enough;
/// whatever else keeps it from being printed is told when the command is done.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(UNSAID.set(error)),
        Ok(()) | Err(_) => {}
    }
}

/// Returns why something was not printed, if all should have been.
pub(crate) fn unsaid() -> Option<&'static io::Error> {
    UNSAID.get()
}

/// Prints sentences to stdout, with lines that fit where they are seen; what goes on is indented by
/// `hang`.
pub(crate) fn say_prose(text: &str, hang: usize) {
    match width() {
        Some(width) => say(&wrapped(text, width, hang)),
        None => say(text),
    }
}

pub(crate) fn say_json(value: &Value) -> anyhow::Result<()> {
    say(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// How wide lines on stdout may be; `None` where nobody looks.
pub(crate) fn width() -> Option<usize> {
    width_of(&io::stdout())
}

/// How wide lines of a stream may be; `None` where nobody looks.
fn width_of(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stream).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns >= 20)
}

/// A text for stderr, with lines that fit where it is seen; what goes on is indented by `hang`.
pub(crate) fn fitted(text: &str, hang: usize) -> String {
    match width_of(&io::stderr()) {
        Some(width) => wrapped(text, width, hang),
        None => text.to_owned(),
    }
}

/// The beginning of a text, on one line.
pub(crate) fn shortened(text: &str, n_max: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    clipped(&printable(&line), n_max)
}

/// What models and tools say, with everything made visible that a terminal would hide or obey.
pub(crate) fn printable(text: &str) -> String {
    legible(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\n"), "a‹U+001B›[2Jb‹U+202E›c\n");
        assert_eq!(shortened("one\n two   three", 9), "one two …");
    }
}
