//! What a machine can check about the source, so that a rule on paper is a rule in fact.
//!
//! One module per rule. A check is a function from the workspace in memory to findings; it prints
//! nothing and stops at nothing, so that one run shows everything there is to do.

mod banners;
mod blocks;
mod documents;
mod edges;
mod licences;
mod manifests;
mod marks;
mod modules;
mod proofs;
mod reexports;
mod sizes;

use std::fmt;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use crate::Verdict;
use crate::metadata::{self, Package};
use crate::rust_file::RustFile;
use crate::tree::{SourceFile, Tree};

/// Checks of one Rust file at a time.
const FILE_CHECKS: &[fn(&RustFile<'_>) -> Vec<Finding>] =
    &[banners::check, marks::check, modules::check, reexports::check, sizes::check];

/// Checks that must see the whole workspace.
const TREE_CHECKS: &[fn(&Tree) -> Vec<Finding>] =
    &[blocks::check, documents::check, edges::check, manifests::check, proofs::check];

#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    fix: &'static str,
    weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Weight {
    Error,
    /// Worth knowing, never a failure.
    Note,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, fix: &'static str) -> Finding {
        let path = path.to_owned();
        Finding { path, line, what: what.into(), fix, weight: Weight::Error }
    }

    fn into_note(self) -> Finding {
        Finding { weight: Weight::Note, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.weight {
            Weight::Error => "",
            Weight::Note => "note: ",
        };
        write!(f, "{}:{}: {label}{}; {}", self.path, self.line, self.what, self.fix)
    }
}

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let findings = check(&Tree::read(root)?, &metadata::all_packages(root)?);
    for finding in &findings {
        println!("{finding}");
    }
    let n_errors = findings.iter().filter(|finding| finding.weight == Weight::Error).count();
    println!("tidy: {n_errors} findings, {} notes", findings.len() - n_errors);
    Ok(if n_errors == 0 { Verdict::Clean } else { Verdict::Wanting })
}

fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.with_extension("rs").flat_map(check_file).collect();
    findings.extend(TREE_CHECKS.iter().flat_map(|check| check(tree)));
    findings.extend(licences::check(tree, packages));
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

fn check_file(source: &SourceFile) -> Vec<Finding> {
    match RustFile::lex(source) {
        Ok(file) => FILE_CHECKS.iter().flat_map(|check| check(&file)).collect(),
        Err(error) => {
            let line = error.span().start().line;
            vec![Finding::new(&source.path, line, "no valid Rust tokens", "let `cargo check` pass")]
        }
    }
}

fn parse_toml(file: &SourceFile) -> Result<Spanned<DeTable<'_>>, Finding> {
    DeTable::parse(&file.text).map_err(|error| {
        let line = error.span().map_or(1, |span| file.line_at(span.start));
        let what = format!("no valid TOML: {}", error.message());
        Finding::new(&file.path, line, what, "correct it")
    })
}

/// Runs a check of single files on one text and compares what it prints.
#[cfg(test)]
#[track_caller]
fn assert_findings(
    check: fn(&RustFile<'_>) -> Vec<Finding>,
    (path, text): (&str, &str),
    expected: &[&str],
) {
    let tree = Tree::of(&[(path, text)]);
    let file = RustFile::lex(tree.file(path).unwrap()).unwrap();
    assert_eq!(printed(&check(&file)), expected);
}

#[cfg(test)]
fn printed(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        assert_eq!(run(&crate::root()).unwrap(), Verdict::Clean, "see what is printed above");
    }

    #[test]
    fn a_file_that_is_no_rust_is_a_finding() {
        let tree = Tree::of(&[("src/broken.rs", "//! Broken.\nfn open( {\n")]);
        let findings = check_file(tree.file("src/broken.rs").unwrap());
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("no valid Rust tokens"));
    }
}
