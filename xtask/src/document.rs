//! The blocks of code in a Markdown document, and what each is marked as.
//!
//! A comment right above a block says how it is kept true:
//!
//! - `<!-- include: PATH -->`: it equals that file, or the file's part between `[readme]` marks;
//! - `<!-- output of: COMMAND -->`: it is what the command prints;
//! - `<!-- file: NAME -->`: what the reader saves under that name, for the commands below it;
//! - `<!-- tested by: PATH -->`: that test reads it from the document;
//! - `<!-- not run: REASON -->`: nothing checks it, for this reason.

/// A fenced block.
#[derive(Debug, PartialEq)]
pub(crate) struct Block<'a> {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The first word after the fence, such as `sh`.
    pub(crate) language: &'a str,
    pub(crate) mark: Option<Mark<'a>>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mark<'a> {
    Include(&'a str),
    OutputOf(&'a str),
    File(&'a str),
    TestedBy(&'a str),
    NotRun(&'a str),
}

impl<'a> Mark<'a> {
    fn parse(line: &'a str) -> Option<Mark<'a>> {
        let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
        let (kind, value) = comment.split_once(':')?;
        let value = value.trim();
        match kind.trim() {
            "include" => Some(Mark::Include(value)),
            "output of" => Some(Mark::OutputOf(value)),
            "file" => Some(Mark::File(value)),
            "tested by" => Some(Mark::TestedBy(value)),
            "not run" => Some(Mark::NotRun(value)),
            _ => None,
        }
    }
}

/// Returns the blocks in their order. One that is never closed ends with the document.
pub(crate) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut above = "";
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            above = if line.trim().is_empty() { above } else { line };
            continue;
        };
        let ticks = 3 + info.len() - info.trim_start_matches('`').len();
        let language = info.trim_start_matches('`').split([',', ' ']).next().unwrap_or_default();
        let margin = line.len() - line.trim_start().len();
        let is_end = |line: &str| line.trim() == "`".repeat(ticks);
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| !is_end(line));
        let text: String =
            inside.flat_map(|line| [line.get(margin..).unwrap_or_default(), "\n"]).collect();
        let mark = Mark::parse(above);
        found.push(Block { line: at + 1, language: language.trim(), mark, text });
        above = "";
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_a_language_a_line_and_the_mark_above_it() {
        let text = "# T\n\n<!-- file: a.py -->\n\n```python\nx = 1\n```\n\n```sh\nls\n```\n";
        let python = Block {
            line: 5,
            language: "python",
            mark: Some(Mark::File("a.py")),
            text: "x = 1\n".to_owned(),
        };
        let shell = Block { line: 9, language: "sh", mark: None, text: "ls\n".to_owned() };
        assert_eq!(blocks(text), [python, shell]);
    }

    #[test]
    fn fences_may_hold_fences_and_stand_in_lists() {
        let text = "- a\n  ````md\n  ```sh\n  ls\n  ```\n  ````\n";
        let found = blocks(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].language, found[0].text.as_str()), ("md", "```sh\nls\n```\n"));
    }

    #[test]
    fn attributes_of_a_language_are_not_its_name() {
        assert_eq!(blocks("```rust,no_run\n```\n")[0].language, "rust");
        assert_eq!(blocks("```\n```\n")[0].language, "");
    }
}
