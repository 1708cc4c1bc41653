//! Every requirement id in a test exists, and the page of requirements is in step with the tests.

use super::Finding;
use crate::requirements::{self, Claim, INDEX, PAGE, Requirement};
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(index) = tree.file(INDEX) else {
        return vec![Finding::new(INDEX, 1, "no such file", "restore it")];
    };
    let requirements = match requirements::parse_index(&index.text) {
        Ok(requirements) => requirements,
        Err(bad) => return vec![Finding::new(INDEX, bad.line, bad.what, "correct the line")],
    };
    let claims = requirements::claims(tree);
    let mut findings: Vec<Finding> =
        claims.iter().flat_map(|claim| unknown_ids(claim, &requirements)).collect();
    findings.extend(stale_page(tree, &requirements::render(&requirements, &claims)));
    findings
}

fn unknown_ids(claim: &Claim, requirements: &[Requirement]) -> Vec<Finding> {
    let is_unknown = |id: &&_| requirements.iter().all(|known| known.id != **id);
    let finding = |id| {
        let what = format!("`{}` names the requirement {id}, which does not exist", claim.test);
        Finding::new(&claim.path, claim.line, what, "correct the id, see docs/requirements.md")
    };
    claim.ids.iter().filter(is_unknown).map(finding).collect()
}

fn stale_page(tree: &Tree, expected: &str) -> Option<Finding> {
    let text = tree.file(PAGE).map_or("", |page| &page.text);
    if text == expected {
        return None;
    }
    let same = text.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    let fix = "run `cargo xtask docs`";
    Some(Finding::new(PAGE, same + 1, "out of step with the tests", fix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    const INDEX_TEXT: &str = "D1\tOnce.\n";

    fn page(files: &[(&str, &str)]) -> String {
        let requirements = requirements::parse_index(INDEX_TEXT).unwrap();
        requirements::render(&requirements, &requirements::claims(&Tree::of(files)))
    }

    #[test]
    fn an_id_that_does_not_exist_is_found() {
        let test = ("a.rs", "// D2\n#[test]\nfn a() {}\n");
        let files = [(INDEX, INDEX_TEXT), test, (PAGE, &page(&[test]))];
        let expected = "a.rs:3: `a` names the requirement D2, which does not exist; \
                        correct the id, see docs/requirements.md";
        assert_eq!(printed(&check(&Tree::of(&files))), [expected]);
    }

    #[test]
    fn a_page_that_lags_behind_the_tests_is_found() {
        let test = ("a.rs", "#[test]\nfn d1() {}\n");
        let fresh = page(&[test]);
        assert_eq!(check(&Tree::of(&[(INDEX, INDEX_TEXT), test, (PAGE, &fresh)])), []);
        let stale = page(&[]);
        let findings = printed(&check(&Tree::of(&[(INDEX, INDEX_TEXT), test, (PAGE, &stale)])));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].ends_with("out of step with the tests; run `cargo xtask docs`"));
    }

    #[test]
    fn a_broken_or_missing_index_is_found() {
        let expected = "xtask/requirements.tsv:1: no such file; restore it";
        assert_eq!(printed(&check(&Tree::of(&[]))), [expected]);
        let expected = "xtask/requirements.tsv:1: no tab between id and text; correct the line";
        assert_eq!(printed(&check(&Tree::of(&[(INDEX, "D1 Once.\n")]))), [expected]);
    }
}
