//! Every block of code in a document is compiled, run or compared with something that is; what
//! cannot be says why.

use super::Finding;
use crate::document::{Block, Mark, blocks};
use crate::guides::is_guide;
use crate::tree::{SourceFile, Tree};

/// The module that has rustdoc compile the Rust blocks of the documents it names.
const COMPILED: &str = "crates/haft/src/guides.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let compiled = tree.file(COMPILED).map_or("", |file| file.text.as_str());
    let objections = |file: &SourceFile| {
        let objections = blocks(&file.text).into_iter().filter_map(|block| {
            let kept = match block.mark {
                Some(Mark::TestedBy(test)) => tested(tree, &file.path, test),
                _ => kept(&file.path, &block, compiled),
            };
            kept.finding(&file.path, block.line)
        });
        objections.collect::<Vec<_>>()
    };
    tree.with_extension("md").flat_map(objections).collect()
}

/// How a block is kept true.
enum Kept {
    /// By a test, or by another check.
    Checked,
    /// It is not, and says why.
    Excused(String),
    Not {
        what: String,
        fix: &'static str,
    },
}

/// A test that reads a document names it.
fn tested(tree: &Tree, path: &str, test: &str) -> Kept {
    match tree.file(test).is_some_and(|file| file.text.contains(path)) {
        true => Kept::Checked,
        false => {
            let what = format!("`{test}` does not read this document");
            Kept::Not { what, fix: "name the test that does" }
        }
    }
}

fn kept(path: &str, block: &Block<'_>, compiled: &str) -> Kept {
    let unchecked = |what: &str, fix| Kept::Not { what: what.to_owned(), fix };
    let in_guide = |fix| match is_guide(path) {
        true => Kept::Checked,
        false => unchecked("nothing runs this block", fix),
    };
    match (block.language, block.mark) {
        ("", _) => unchecked("a block without a language", "name it after the fence"),
        (_, Some(Mark::NotRun(""))) => unchecked("no reason for not running it", "say why"),
        (_, Some(Mark::NotRun(why))) => Kept::Excused(format!("a block that is not run: {why}")),
        (_, Some(Mark::Include(_) | Mark::OutputOf(_) | Mark::TestedBy(_))) | ("mermaid", _) => {
            Kept::Checked
        }
        ("sh" | "console", _) | (_, Some(Mark::File(_))) => {
            in_guide("move it below docs/ or examples/, or write `<!-- not run: REASON -->` above")
        }
        ("rust", None) if compiled.contains(&format!("{path}\")")) => Kept::Checked,
        ("rust", None) => {
            unchecked("nothing compiles this block", "name the document in `haft`'s guides.rs")
        }
        (_, None) => unchecked(
            "nothing checks this block",
            "mark it as a file, an include or an output, or write `<!-- not run: REASON -->` above",
        ),
    }
}

impl Kept {
    fn finding(self, path: &str, line: usize) -> Option<Finding> {
        match self {
            Kept::Checked => None,
            Kept::Excused(what) => {
                Some(Finding::new(path, line, what, "run it when it can be").into_note())
            }
            Kept::Not { what, fix } => Some(Finding::new(path, line, what, fix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    #[track_caller]
    fn assert_block(path: &str, text: &str, expected: &[&str]) {
        let guides = "#[doc = include_str!(\"../../../docs/compiled.md\")]";
        let tree = Tree::of(&[(path, text), (COMPILED, guides)]);
        assert_eq!(printed(&check(&tree)), expected);
    }

    #[test]
    fn what_is_run_compiled_or_compared_is_fine() {
        assert_block("docs/a.md", "```sh\nls\n```\n", &[]);
        assert_block("docs/a.md", "<!-- file: a.py -->\n```python\n```\n", &[]);
        assert_block("docs/compiled.md", "```rust\n```\n", &[]);
        assert_block("README.md", "<!-- output of: cargo x -->\n```text\n```\n", &[]);
        assert_block("docs/a.md", "```mermaid\ngraph\n```\n", &[]);
    }

    #[test]
    fn what_nothing_checks_is_found() {
        let nothing = |path: &str, what: &str| format!("{path}:1: {what}");
        let fix = "mark it as a file, an include or an output, or write `<!-- not run: REASON -->` \
                   above";
        let expected = nothing("docs/a.md", &format!("nothing checks this block; {fix}"));
        assert_block("docs/a.md", "```python\n```\n", &[&expected]);
        let expected = "nothing compiles this block; name the document in `haft`'s guides.rs";
        assert_block("docs/a.md", "```rust\n```\n", &[&nothing("docs/a.md", expected)]);
        let expected = "a block without a language; name it after the fence";
        assert_block("docs/a.md", "```\n```\n", &[&nothing("docs/a.md", expected)]);
        let expected = "nothing runs this block; move it below docs/ or examples/, or write \
                        `<!-- not run: REASON -->` above";
        assert_block("README.md", "```sh\n```\n", &[&nothing("README.md", expected)]);
    }

    #[test]
    fn what_a_test_reads_is_fine_if_the_test_says_so() {
        let text = "<!-- tested by: a.rs -->\n```python\n```\n";
        let tree = |test| Tree::of(&[("docs/a.md", text), ("a.rs", test)]);
        assert_eq!(printed(&check(&tree("// reads docs/a.md"))), [""; 0]);
        let expected = "docs/a.md:2: `a.rs` does not read this document; name the test that does";
        assert_eq!(printed(&check(&tree("// reads nothing"))), [expected]);
    }

    #[test]
    fn what_is_not_run_says_why_and_is_counted() {
        let text = "<!-- not run: it takes an hour -->\n```sh\n```\n";
        let expected =
            "README.md:2: note: a block that is not run: it takes an hour; run it when it can be";
        assert_block("README.md", text, &[expected]);
        let expected = "README.md:2: no reason for not running it; say why";
        assert_block("README.md", "<!-- not run: -->\n```sh\n```\n", &[expected]);
    }
}
