//! Which requirement is proven by which test.
//!
//! `xtask/requirements.tsv` numbers the requirements; a test claims one by carrying its id in its
//! name or in a comment above it. This module joins the two. It trusts the claim: whether the test
//! truly proves the requirement is for a reader to judge.

mod foreign_tests;
mod ids;
mod page;
mod rust_tests;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

pub(crate) use ids::Id;
pub(crate) use page::{PAGE, render};

use crate::tree::Tree;

pub(crate) const INDEX: &str = "xtask/requirements.tsv";

#[derive(Debug, PartialEq)]
pub(crate) struct Requirement {
    pub(crate) id: Id,
    text: String,
}

/// A line of the index that is no requirement.
#[derive(Debug, PartialEq)]
pub(crate) struct BadLine {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// Reads the index: an id, a tab and one line of text each.
pub(crate) fn parse_index(text: &str) -> Result<Vec<Requirement>, BadLine> {
    let mut requirements: Vec<Requirement> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let bad = |what: String| BadLine { line: at + 1, what };
        let Some((id, text)) = line.split_once('\t') else {
            return Err(bad("no tab between id and text".to_owned()));
        };
        let id = Id::parse(id).ok_or_else(|| bad(format!("`{id}` is no id")))?;
        if requirements.iter().any(|known| known.id == id) {
            return Err(bad(format!("`{id}` stands here a second time")));
        }
        requirements.push(Requirement { id, text: text.to_owned() });
    }
    Ok(requirements)
}

/// A test that claims to prove at least one requirement.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) test: String,
    pub(crate) ids: Vec<Id>,
}

impl Claim {
    /// `None` when neither the name nor the comment carries an id.
    fn from_test(path: &str, line: usize, test: String, comment: &str) -> Option<Claim> {
        let mut ids = ids::in_name(&test);
        ids.extend(ids::in_prose(&test));
        ids.extend(ids::in_prose(comment));
        ids.sort();
        ids.dedup();
        (!ids.is_empty()).then(|| Claim { path: path.to_owned(), line, test, ids })
    }
}

/// All claims of the workspace, ordered by path and line.
pub(crate) fn claims(tree: &Tree) -> Vec<Claim> {
    let mut claims: Vec<Claim> = tree.with_extension("rs").flat_map(rust_tests::claims).collect();
    let foreign = tree.files().filter(|file| file.is_below("tests"));
    claims.extend(foreign.flat_map(foreign_tests::claims));
    claims.sort();
    claims
}

pub(crate) fn write_page(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let index = tree.file(INDEX).with_context(|| format!("{INDEX} is missing"))?;
    let requirements = parse_index(&index.text)
        .map_err(|bad| anyhow::anyhow!("{INDEX}:{}: {}", bad.line, bad.what))?;
    let path = root.join(PAGE);
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(&path, render(&requirements, &claims(&tree)))
        .with_context(|| format!("writing {PAGE}"))?;
    println!("docs: wrote {PAGE}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_bad(text: &str, line: usize, what: &str) {
        assert_eq!(parse_index(text), Err(BadLine { line, what: what.to_owned() }));
    }

    #[test]
    fn an_index_line_is_an_id_a_tab_and_a_text() {
        let requirements = parse_index("S0-1\tOne.\nS2-T1\tTwo.\nD3\tThree.\n").unwrap();
        assert_eq!(requirements.len(), 3);
        check_bad("S0-1 One.", 1, "no tab between id and text");
        check_bad("S0-1\tOne.\nfoo\tTwo.", 2, "`foo` is no id");
        check_bad("S0-1\tOne.\nS0-1\tTwo.", 2, "`S0-1` stands here a second time");
    }

    #[test]
    fn claims_are_collected_from_every_language() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[test]\nfn d1_once() {}"),
            ("crates/a/tests/sdk.py", "def test_d2():\n    pass"),
            ("crates/a/tests/sdk.mjs", "test(\"D3\", () => {});"),
            ("scripts/other.py", "def test_d4():\n    pass"),
        ]);
        let tests: Vec<String> = claims(&tree).into_iter().map(|claim| claim.test).collect();
        assert_eq!(tests, ["d1_once", "D3", "test_d2"]);
    }
}
