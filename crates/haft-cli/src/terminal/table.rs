//! Columns that line up.

use std::ops::Range;

use super::style::{Paint, Tone};
use super::{columns, printable, shortened, width};

/// Rows of cells; the last column takes what is left of the line. In a narrow terminal a row goes
/// on below rather than that an id is cut.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
struct Cell {
    text: String,
    tone: Option<Tone>,
}

const GAP: &str = "  ";
/// What goes before the cells of a row that have no room on its first line.
const INDENT: &str = "  ";
/// How much of the last column is worth its place on a line.
const LAST_MIN: usize = 12;

impl Table {
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Tone>)>) {
        let cell = |(text, tone): (String, _)| Cell { text: printable(&text), tone };
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub(crate) fn shown(&self, paint: Paint) -> String {
        self.lines(paint, width()).join("\n")
    }

    fn lines(&self, paint: Paint, width: Option<usize>) -> Vec<String> {
        let widths = self.widths();
        let folds = folds(&widths, width);
        let heads: Vec<Cell> = self
            .heads
            .iter()
            .map(|head| Cell { text: (*head).to_owned(), tone: Some(Tone::Dim) })
            .collect();
        let rows = std::iter::once(&heads).chain(&self.rows);
        let line = |row: &[Cell], fold: &Range<usize>| {
            let mut line = if fold.start == 0 { String::new() } else { INDENT.to_owned() };
            for (at, cell) in row.iter().enumerate().take(fold.end).skip(fold.start) {
                // Only the last column is cut, to the terminal; for a pipe nothing is.
                let text = match width.filter(|_| at + 1 == widths.len()) {
                    Some(width) => shortened(&cell.text, width.saturating_sub(columns(&line))),
                    None => cell.text.clone(),
                };
                line.push_str(
                    &cell.tone.map_or_else(|| text.clone(), |tone| paint.paint(tone, &text)),
                );
                if at + 1 < fold.end {
                    line.push_str(&" ".repeat(widths[at].saturating_sub(columns(&text))));
                    line.push_str(GAP);
                }
            }
            line.trim_end().to_owned()
        };
        rows.flat_map(|row| folds.iter().map(|fold| line(row, fold)).collect::<Vec<_>>()).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let width = |(at, head): (usize, &&str)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| columns(&cell.text)).chain([columns(head)]).max().unwrap_or(0)
        };
        self.heads.iter().enumerate().map(width).collect()
    }
}

/// Which columns stand on which line of a row: all on one, where the terminal is wide enough.
fn folds(widths: &[usize], width: Option<usize>) -> Vec<Range<usize>> {
    let n_columns = widths.len();
    let Some(width) = width else { return std::iter::once(0..n_columns).collect() };
    let (mut folds, mut start, mut column) = (Vec::new(), 0, 0);
    for (at, wanted) in widths.iter().enumerate() {
        let least = if at + 1 == n_columns { LAST_MIN.min(*wanted) } else { *wanted };
        let gap = if at == start { 0 } else { GAP.len() };
        if at > start && column + gap + least > width {
            folds.push(start..at);
            (start, column) = (at, INDENT.len() + least);
        } else {
            column += gap + least;
        }
    }
    folds.push(start..n_columns);
    folds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_is_cut() {
        let mut table = Table::new(&["A", "WHAT"]);
        table.row([("long one".to_owned(), None), ("a sentence that goes on".to_owned(), None)]);
        table.row([("x".to_owned(), Some(Tone::Good)), ("y".to_owned(), None)]);
        let lines = table.lines(Paint::Plain, Some(24));
        assert_eq!(lines, ["A         WHAT", "long one  a sentence th…", "x         y"]);
    }
    #[test]
    fn a_row_goes_on_below_where_the_terminal_is_narrow() {
        let mut table = Table::new(&["CALL", "TOOL", "LEFT", "ARGUMENTS"]);
        let cells = ["call_01k5c3q7xyab", "日本_edit", "4:05", "path=/workspace/note.md and more"];
        table.row(cells.map(|cell| (cell.to_owned(), None)));
        let lines = table.lines(Paint::Plain, Some(36));
        let expected = [
            "CALL               TOOL       LEFT",
            "  ARGUMENTS",
            "call_01k5c3q7xyab  日本_edit  4:05",
            "  path=/workspace/note.md and more",
        ];
        assert_eq!(lines, expected);
        assert!(table.lines(Paint::Plain, Some(24)).iter().all(|line| columns(line) <= 24));
        assert!(table.lines(Paint::Plain, None)[1].ends_with("and more"));
    }
}
