//! What a change would do to a file, line by line.

use super::printable;
use super::style::{Paint, Tone};

/// Colours a unified diff; the signs at the beginning of lines say the same.
pub(crate) fn diff(text: &str, paint: Paint) -> String {
    let line = |line: &str| {
        let line = printable(line);
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Tone::Dim,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Accent,
            _ => return line,
        };
        paint.paint(tone, &line)
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
