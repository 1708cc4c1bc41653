//! The documents a reader meets first exist, stay short and show code that compiles.

use super::Finding;
use crate::tree::{SourceFile, Tree};

const README: &str = "README.md";
const README_LINES_MAX: usize = 150;
const README_COMMANDS: &[&str] = &["cargo run --release -- serve", "cargo xtask test"];
const REQUIRED: &[&str] =
    &["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md", README];

const REGION_START: &str = "[readme]";
const REGION_END: &str = "[/readme]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| tree.file(path).is_none());
    let mut findings: Vec<Finding> = missing
        .map(|path| Finding::new(path, 1, "no such file", "write it, readers look for it first"))
        .collect();
    if let Some(readme) = tree.file(README) {
        findings.extend(readme_findings(readme));
    }
    for document in tree.with_extension("md") {
        let includes = Include::all(document);
        findings.extend(includes.iter().filter_map(|include| include.objection(tree)));
    }
    findings.extend(tree.file("CHANGELOG.md").and_then(changelog_finding));
    findings
}

fn readme_findings(readme: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let n_lines = readme.text.lines().count();
    if n_lines > README_LINES_MAX {
        let what = format!("{n_lines} lines of at most {README_LINES_MAX}");
        let fix = "move what a newcomer does not need to docs/";
        findings.push(Finding::new(README, README_LINES_MAX + 1, what, fix));
    }
    for command in README_COMMANDS.iter().filter(|command| !readme.text.contains(**command)) {
        let what = format!("`{command}` is not mentioned");
        findings.push(Finding::new(README, 1, what, "show it, everybody starts there"));
    }
    findings
}

fn changelog_finding(changelog: &SourceFile) -> Option<Finding> {
    let has_heading = changelog.text.lines().any(|line| line.trim_end() == "## Unreleased");
    let fix = "keep it, also right after a release";
    (!has_heading).then(|| Finding::new(&changelog.path, 1, "no heading `## Unreleased`", fix))
}

/// A `<!-- include: PATH -->` in a document and the block of code below it.
struct Include<'a> {
    document: &'a str,
    line: usize,
    path: &'a str,
    /// `None` when no block follows the comment.
    code: Option<String>,
}

impl Include<'_> {
    fn all(document: &SourceFile) -> Vec<Include<'_>> {
        let lines: Vec<&str> = document.text.lines().collect();
        let include = |at: usize| {
            let comment = lines[at].trim().strip_prefix("<!-- include:")?.strip_suffix("-->")?;
            let code = block(&lines[at + 1..]);
            Some(Include { document: &document.path, line: at + 1, path: comment.trim(), code })
        };
        (0..lines.len()).filter_map(include).collect()
    }

    fn objection(&self, tree: &Tree) -> Option<Finding> {
        let finding = |what: String, fix| Some(Finding::new(self.document, self.line, what, fix));
        let Some(file) = tree.file(self.path) else {
            return finding(format!("no file `{}`", self.path), "correct the path");
        };
        let Some(code) = &self.code else {
            return finding("no block below the include".to_owned(), "add the block");
        };
        if code.trim_end() != region(&file.text).trim_end() {
            let what = format!("the block differs from `{}`", self.path);
            return finding(what, "copy the file's text into the block");
        }
        None
    }
}

fn block(below: &[&str]) -> Option<String> {
    let start = below.iter().position(|line| !line.trim().is_empty())?;
    below[start].starts_with("```").then_some(())?;
    let code = &below[start + 1..];
    let end = code.iter().position(|line| line.starts_with("```"))?;
    Some(code[..end].join("\n"))
}

/// The part between the markers, or everything when there are none.
fn region(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = |marker: &str| {
        let is_marker = |line: &&str| line.trim_start_matches(['/', '#', ' ']).trim_end() == marker;
        lines.iter().position(is_marker)
    };
    let start = at(REGION_START).map_or(0, |at| at + 1);
    let end = at(REGION_END).unwrap_or(lines.len());
    lines[start..end.max(start)].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    const START: &str = "cargo run --release -- serve\ncargo xtask test\n";

    #[track_caller]
    fn check_files(changed: &[(&str, &str)], expected: &[&str]) {
        let mut files = vec![
            ("ARCHITECTURE.md", ""),
            ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n"),
            ("CONTRIBUTING.md", ""),
            ("GLOSSARY.md", ""),
            (README, START),
        ];
        files.retain(|(path, _)| changed.iter().all(|(other, _)| other != path));
        files.extend(changed);
        assert_eq!(printed(&check(&Tree::of(&files))), expected);
    }

    #[test]
    fn missing_documents_are_found() {
        let findings = printed(&check(&Tree::of(&[("README.md", START)])));
        let expected = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GLOSSARY.md"]
            .map(|path| format!("{path}:1: no such file; write it, readers look for it first"));
        assert_eq!(findings, expected);
        check_files(&[], &[]);
    }

    #[test]
    fn a_readme_that_is_long_or_hides_its_commands_is_found() {
        let text = "cargo run --release -- serve\n".to_owned() + &"line\n".repeat(150);
        let expected = [
            "README.md:151: 151 lines of at most 150; \
             move what a newcomer does not need to docs/",
            "README.md:1: `cargo xtask test` is not mentioned; \
             show it, everybody starts there",
        ];
        check_files(&[(README, &text)], &expected);
    }

    #[test]
    fn a_changelog_needs_its_unreleased_heading() {
        let expected = "CHANGELOG.md:1: no heading `## Unreleased`; \
                        keep it, also right after a release";
        check_files(&[("CHANGELOG.md", "## 0.1\n")], &[expected]);
    }

    #[track_caller]
    fn check_include(block: &str, file: &str, expected: &[&str]) {
        let readme = format!("{START}<!-- include: a.rs -->\n{block}\n");
        check_files(&[(README, &readme), ("a.rs", file)], expected);
    }

    #[test]
    fn an_included_block_must_equal_its_file() {
        let differs = "README.md:3: the block differs from `a.rs`; \
                       copy the file's text into the block";
        check_include("```rust\nfn a() {}\n```", "fn a() {}\n", &[]);
        check_include("\n```rust,no_run\nfn a() {}\n```", "fn a() {}\n", &[]);
        check_include("```rust\nfn a() {}\n```", "fn b() {}\n", &[differs]);
        let absent = "README.md:3: no block below the include; add the block";
        check_include("Prose.", "fn b() {}\n", &[absent]);
    }

    #[test]
    fn a_marked_region_stands_for_its_file() {
        let file = "//! Doc.\n// [readme]\nfn a() {}\n// [/readme]\nfn b() {}\n";
        check_include("```rust\nfn a() {}\n```", file, &[]);
    }

    #[test]
    fn an_include_of_nothing_is_found() {
        let readme = format!("{START}<!-- include: gone.rs -->\n```rust\n```\n");
        let expected = "README.md:3: no file `gone.rs`; correct the path";
        check_files(&[(README, &readme)], &[expected]);
    }
}
