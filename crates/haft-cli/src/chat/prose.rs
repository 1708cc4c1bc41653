//! What a model says, as it comes: `**strong**` and `` `code` `` are shown as such, the rest as it
//! is.

use crate::terminal::{Paint, printable};

/// Takes pieces of text, cut anywhere, and gives what a terminal shows.
#[derive(Debug)]
pub(super) struct Prose {
    paint: Paint,
    is_strong: bool,
    is_code: bool,
    /// A star that may be half of a mark.
    has_star: bool,
}

impl Prose {
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint, is_strong: false, is_code: false, has_star: false }
    }

    pub(super) fn push(&mut self, piece: &str) -> String {
        let piece = printable(piece);
        if self.paint == Paint::Plain {
            return piece;
        }
        let mut shown = String::with_capacity(piece.len());
        for c in piece.chars() {
            let had_star = std::mem::take(&mut self.has_star);
            match c {
                '*' if had_star => {
                    self.is_strong = !self.is_strong;
                    shown.push_str(self.marks());
                }
                '*' if !self.is_code => self.has_star = true,
                '`' => {
                    shown.push_str(if had_star { "*" } else { "" });
                    self.is_code = !self.is_code;
                    shown.push_str(self.marks());
                }
                c => {
                    shown.push_str(if had_star { "*" } else { "" });
                    shown.push(c);
                }
            }
        }
        shown
    }

    /// Ends what was said; nothing stays coloured.
    pub(super) fn end(&mut self) -> &'static str {
        let was_marked = self.is_strong || self.is_code;
        (self.is_strong, self.is_code, self.has_star) = (false, false, false);
        if was_marked { self.marks() } else { "" }
    }

    fn marks(&self) -> &'static str {
        match (self.is_strong, self.is_code) {
            (_, true) => "\u{1b}[0;36m",
            (true, false) => "\u{1b}[0;1m",
            (false, false) => "\u{1b}[0m",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_shown_however_the_text_is_cut() {
        let mut prose = Prose::new(Paint::Coloured);
        let cut = ["a *", "*b*", "* `c", "` 2*3"].map(|piece| prose.push(piece)).concat();
        assert_eq!(cut, "a \u{1b}[0;1mb\u{1b}[0m \u{1b}[0;36mc\u{1b}[0m 2*3");
        assert_eq!(Prose::new(Paint::Plain).push("**a**"), "**a**");
    }
}
