//! Columns that line up.

use super::style::{Paint, Tone};
use super::{printable, width};

/// Rows of cells; the last column takes what is left of the line.
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
        let n_columns = self.heads.len();
        let length = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..n_columns)
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells
                    .map(|cell| length(&cell.text))
                    .chain([length(self.heads[at])])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let before: usize = widths[..n_columns - 1].iter().map(|width| width + GAP.len()).sum();
        // The last column is cut to the terminal; for a pipe nothing is.
        let room = width.map(|width| width.saturating_sub(before).max(12));
        let line = |cells: &[(String, Option<Tone>)]| {
            let mut line = String::new();
            for (at, (text, tone)) in cells.iter().enumerate() {
                let is_last = at + 1 == n_columns;
                let cut = match (is_last, room) {
                    (true, Some(room)) => super::shortened(text, room),
                    (true, None) | (false, _) => text.clone(),
                };
                let pad = if is_last { 0 } else { widths[at].saturating_sub(length(&cut)) };
                line.push_str(&tone.map_or_else(|| cut.clone(), |tone| paint.paint(tone, &cut)));
                if !is_last {
                    line.push_str(&" ".repeat(pad));
                    line.push_str(GAP);
                }
            }
            line.trim_end().to_owned()
        };
        let heads: Vec<_> =
            self.heads.iter().map(|head| ((*head).to_owned(), Some(Tone::Dim))).collect();
        let rows = self.rows.iter().map(|row| {
            let cells: Vec<_> = row.iter().map(|cell| (cell.text.clone(), cell.tone)).collect();
            line(&cells)
        });
        std::iter::once(line(&heads)).chain(rows).collect()
    }
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
}
