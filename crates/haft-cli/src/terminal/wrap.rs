//! Where lines end: at spaces, counted in the columns that a terminal uses.

/// Returns how many columns a text takes; what only colours it takes none.
pub(crate) fn columns(text: &str) -> usize {
    let mut n_columns = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => chars.by_ref().take_while(|c| *c != 'm').for_each(drop),
            c => n_columns += columns_of(c),
        }
    }
    n_columns
}

/// Letters of East Asia and most emoji take two columns, what is put onto another character none.
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f
        | 0x1ab0..=0x1aff
        | 0x1dc0..=0x1dff
        | 0x200b..=0x200d
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfe20..=0xfe2f
        | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f
        | 0x231a..=0x231b
        | 0x2705
        | 0x2728
        | 0x274c
        | 0x2753..=0x2755
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xa960..=0xa97f
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x1fa70..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Returns the beginning of a text that fits into `room`, with a mark where something is missing.
pub(crate) fn clipped(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mut n_columns = 1;
    let fits = |c: &char| {
        n_columns += columns_of(*c);
        n_columns <= room
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Breaks lines at spaces so that none is wider than `room`, where words allow it; what goes on is
/// indented by `hang`.
pub(crate) fn wrapped(text: &str, room: usize, hang: usize) -> String {
    text.lines().map(|line| wrapped_line(line, room, hang)).collect::<Vec<_>>().join("\n")
}

fn wrapped_line(line: &str, room: usize, hang: usize) -> String {
    let mut shown = String::with_capacity(line.len());
    let (mut column, mut has_word, mut is_broken) = (0, false, false);
    for piece in line.split_inclusive(' ') {
        let word = piece.trim_end_matches(' ');
        if has_word && column + columns(word) > room {
            shown.truncate(shown.trim_end_matches(' ').len());
            shown.push('\n');
            shown.push_str(&" ".repeat(hang));
            (column, has_word, is_broken) = (hang, false, true);
        }
        has_word |= !word.is_empty();
        // Where a line was broken, the spaces around are no longer needed.
        if has_word || !is_broken {
            shown.push_str(piece);
            column += columns(piece);
        }
    }
    shown.truncate(shown.trim_end_matches(' ').len());
    shown
}

/// Breaks lines at spaces while the text is still coming: a word is shown when it is whole.
#[derive(Debug)]
pub(crate) struct Wrapping {
    room: Option<usize>,
    column: usize,
    n_spaces: usize,
    word: String,
}

impl Wrapping {
    /// Without room, text is shown as it comes.
    pub(crate) fn new(room: Option<usize>) -> Self {
        Self { room, column: 0, n_spaces: 0, word: String::new() }
    }

    pub(crate) fn push(&mut self, text: &str) -> String {
        let Some(room) = self.room else { return text.to_owned() };
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                ' ' => {
                    shown.push_str(&self.placed(room));
                    self.n_spaces += 1;
                }
                '\n' => {
                    shown.push_str(&self.placed(room));
                    shown.push('\n');
                    (self.column, self.n_spaces) = (0, 0);
                }
                c => self.word.push(c),
            }
        }
        shown
    }

    /// Ends the text; returns what was held back of it.
    pub(crate) fn end(&mut self) -> String {
        let rest = self.room.map(|room| self.placed(room)).unwrap_or_default();
        (self.column, self.n_spaces) = (0, 0);
        rest
    }

    fn placed(&mut self, room: usize) -> String {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return word;
        }
        let n_columns = columns(&word);
        let n_spaces = std::mem::take(&mut self.n_spaces);
        if self.column > 0 && self.column + n_spaces + n_columns > room {
            self.column = n_columns;
            return format!("\n{word}");
        }
        self.column += n_spaces + n_columns;
        format!("{}{word}", " ".repeat(n_spaces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_by_what_a_terminal_shows() {
        assert_eq!(wrapped("one two three", 8, 2), "one two\n  three");
        assert_eq!(
            wrapped("  why:  one two three", 14, 8),
            "  why:  one\n        two\n        three"
        );
        assert_eq!(wrapped("a-word-that-is-longer b", 8, 0), "a-word-that-is-longer\nb");
        assert_eq!(wrapped("\u{1b}[1mone two\u{1b}[0m", 7, 0), "\u{1b}[1mone two\u{1b}[0m");
        assert_eq!(
            (columns("日本"), columns("e\u{301}✓"), columns("\u{1b}[31mx\u{1b}[0m")),
            (4, 2, 1)
        );
        assert_eq!(
            (clipped("日本語", 5), clipped("abc", 3)),
            ("日本…".to_owned(), "abc".to_owned())
        );
    }

    #[test]
    fn text_that_is_still_coming_is_broken_alike() {
        let mut wrapping = Wrapping::new(Some(8));
        let said = ["on", "e tw", "o thr", "ee\n", "  in", "dented four"];
        let mut shown: String = said.map(|piece| wrapping.push(piece)).concat();
        shown.push_str(&wrapping.end());
        assert_eq!(shown, "one two\nthree\n  indented\nfour");
        assert_eq!(Wrapping::new(None).push("half a wo"), "half a wo");
    }
}
