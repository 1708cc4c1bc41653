//! `docs/requirements.md`: every requirement and the tests that claim to prove it.
//!
//! The page depends on nothing but its inputs, so that tidy can compare it with the file on disk.

use std::fmt::Write as _;

use super::{Claim, Requirement};

pub(crate) const PAGE: &str = "docs/requirements.md";

const INTRO: &str = "\
# Requirements

What Haft must do, and the tests that show it does. The numbers come from the five documents that
describe Haft from five sides (`S0` to `S4`) and from the failures of earlier systems (`D`);
`(sibling)` marks what a document takes from its neighbours, `(source only)` what only its
implementation had. A test claims a requirement by carrying its id in its name (`s4_20_…`) or in a
comment right above it (`// S4-20`).

This page is written by `cargo xtask docs` from `xtask/requirements.tsv` and the tests.
";

const DOCUMENTS: &[(&str, &str)] = &[
    ("S0", "call, result, mode"),
    ("S1", "definition, result, context"),
    ("S2", "managed tools, permissions, sessions, outcomes, memory, shell, resources"),
    ("S3", "registry, schema rules, lifecycle, artifacts, safety"),
    ("S4", "executors, approval gate, suspension and resolution"),
    ("D", "what earlier systems get wrong"),
];

pub(crate) fn render(requirements: &[Requirement], claims: &[Claim]) -> String {
    let of = |document: &str| -> Vec<Row<'_>> {
        let belongs = |requirement: &&Requirement| requirement.id.document() == document;
        requirements.iter().filter(belongs).map(|found| Row::new(found, claims)).collect()
    };
    let sections: Vec<(&str, &str, Vec<Row<'_>>)> =
        DOCUMENTS.iter().map(|(document, title)| (*document, *title, of(document))).collect();

    let mut page = format!("{INTRO}\n{}\n", summary(&sections));
    for (document, title, rows) in &sections {
        page += &format!("\n## {document}: {title}\n\n{}", table(rows));
    }
    page
}

struct Row<'a> {
    requirement: &'a Requirement,
    /// As `path::name`, sorted, each once.
    tests: Vec<String>,
}

impl<'a> Row<'a> {
    fn new(requirement: &'a Requirement, claims: &[Claim]) -> Row<'a> {
        let claims = claims.iter().filter(|claim| claim.ids.contains(&requirement.id));
        let mut tests: Vec<String> =
            claims.map(|claim| format!("{}::{}", claim.path, claim.test)).collect();
        tests.sort();
        tests.dedup();
        Row { requirement, tests }
    }
}

fn n_proven(rows: &[Row<'_>]) -> usize {
    rows.iter().filter(|row| !row.tests.is_empty()).count()
}

fn summary(sections: &[(&str, &str, Vec<Row<'_>>)]) -> String {
    let n_all: usize = sections.iter().map(|(_, _, rows)| rows.len()).sum();
    let n_all_proven: usize = sections.iter().map(|(_, _, rows)| n_proven(rows)).sum();
    let part = |(document, _, rows): &(&str, &str, Vec<Row<'_>>)| {
        format!("{document} {} of {}", n_proven(rows), rows.len())
    };
    let parts: Vec<String> = sections.iter().map(part).collect();
    format!("**{n_all_proven} of {n_all} proven:** {}.", parts.join(", "))
}

fn table(rows: &[Row<'_>]) -> String {
    let mut table = "| id | requirement | tests |\n|---|---|---|\n".to_owned();
    for row in rows {
        let tests: Vec<String> =
            row.tests.iter().map(|test| format!("`{}`", escaped(test))).collect();
        let tests = if tests.is_empty() { "—".to_owned() } else { tests.join("<br>") };
        let text = escaped(&row.requirement.text);
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {} | {text} | {tests} |", row.requirement.id);
    }
    table
}

/// A bar ends a cell even between backticks.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requirements::{Id, parse_index};

    fn claim(path: &str, test: &str, id: &str) -> Claim {
        let ids = vec![Id::parse(id).unwrap()];
        Claim { path: path.to_owned(), line: 1, test: test.to_owned(), ids }
    }

    #[test]
    fn a_requirement_stands_beside_its_tests() {
        let requirements = parse_index("S0-1\tread|write.\nD1\tOnce.\n").unwrap();
        let claims =
            [claim("b.rs", "two", "D1"), claim("a.rs", "one", "D1"), claim("a.rs", "one", "D1")];
        let page = render(&requirements, &claims);
        assert!(page.contains("| S0-1 | read\\|write. | — |\n"), "{page}");
        assert!(page.contains("| D1 | Once. | `a.rs::one`<br>`b.rs::two` |\n"), "{page}");
        let summary = "**1 of 2 proven:** S0 0 of 1, S1 0 of 0, S2 0 of 0, S3 0 of 0, S4 0 of 0, \
                       D 1 of 1.\n";
        assert!(page.contains(summary), "{page}");
    }

    #[test]
    fn every_requirement_of_the_index_has_a_section() {
        let text = include_str!("../../requirements.tsv");
        let requirements = parse_index(text).unwrap();
        let page = render(&requirements, &[]);
        for requirement in &requirements {
            assert!(page.contains(&format!("| {} | ", requirement.id)), "{requirement:?}");
        }
    }
}
