//! What a model says, as it comes: `**strong**` and `` `code` `` are shown as such, the rest as it
//! is.

use crate::terminal::{Paint, Wrapping, printable};

/// Takes pieces of text, cut anywhere, and gives what a terminal shows.
#[derive(Debug)]
pub(super) struct Prose {
    paint: Paint,
    is_strong: bool,
    is_code: bool,
    /// A star that may be half of a mark.
    has_star: bool,
    wrapping: Wrapping,
}

impl Prose {
    /// Lines are broken where the width is known.
    pub(super) fn new(paint: Paint, width: Option<usize>) -> Self {
        let wrapping = Wrapping::new(width);
        Self { paint, is_strong: false, is_code: false, has_star: false, wrapping }
    }

    pub(super) fn push(&mut self, piece: &str) -> String {
        let marked = self.marked(&printable(piece));
        self.wrapping.push(&marked)
    }

    fn marked(&mut self, piece: &str) -> String {
        if self.paint == Paint::Plain {
            return piece.to_owned();
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
    pub(super) fn end(&mut self) -> String {
        let was_marked = self.is_strong || self.is_code;
        (self.is_strong, self.is_code, self.has_star) = (false, false, false);
        let rest = self.wrapping.end();
        format!("{rest}{}", if was_marked { self.marks() } else { "" })
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
        let mut prose = Prose::new(Paint::Coloured, None);
        let cut = ["a *", "*b*", "* `c", "` 2*3"].map(|piece| prose.push(piece)).concat();
        assert_eq!(cut, "a \u{1b}[0;1mb\u{1b}[0m \u{1b}[0;36mc\u{1b}[0m 2*3");
        assert_eq!(Prose::new(Paint::Plain, None).push("**a**"), "**a**");
    }
}
