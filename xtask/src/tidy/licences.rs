//! Every package comes from an allowed place under an allowed licence.
//!
//! The lists are those of `deny.toml`, so that `cargo deny` says the same to whoever has it.
//! Nothing here judges advisories or duplicate versions.

use std::iter::Peekable;

use toml::de::{DeTable, DeValue};

use super::{Finding, parse_toml};
use crate::metadata::{Member, Package};
use crate::tree::{SourceFile, Tree};

const POLICY: &str = "deny.toml";

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let Some(file) = tree.file(POLICY) else {
        return vec![Finding::new(POLICY, 1, "no such file", "write one with an allow list")];
    };
    let policy = match Policy::parse(file) {
        Ok(policy) => policy,
        Err(finding) => return vec![finding],
    };
    packages.iter().filter_map(|package| policy.objection(package, tree)).collect()
}

struct Policy {
    licences: Vec<String>,
    registries: Vec<String>,
}

impl Policy {
    fn parse(file: &SourceFile) -> Result<Policy, Finding> {
        let table = parse_toml(file)?;
        Ok(Policy {
            licences: strings(table.get_ref(), "licenses", "allow"),
            registries: strings(table.get_ref(), "sources", "allow-registry"),
        })
    }

    fn objection(&self, package: &Package, tree: &Tree) -> Option<Finding> {
        let (what, fix) = self.source_objection(package).or_else(|| {
            self.licence_objection(package)
                .map(|what| (what, "use another crate, or allow the licence in deny.toml"))
        })?;
        let line = tree
            .file("Cargo.lock")
            .map_or(1, |lock| lock.line_of(&format!("name = \"{}\"\n", package.name)));
        let what = format!("`{}` {} {what}", package.name, package.version);
        Some(Finding::new("Cargo.lock", line, what, fix))
    }

    fn source_objection(&self, package: &Package) -> Option<(String, &'static str)> {
        let allowed = match (&package.source, package.member) {
            (None, Member::Ours) => true,
            (None, Member::Theirs) => false,
            (Some(source), _) => self
                .registries
                .iter()
                .any(|registry| source.strip_prefix("registry+") == Some(registry)),
        };
        let place = package.source.as_deref().unwrap_or("a folder outside the workspace");
        (!allowed).then(|| (format!("comes from {place}"), "take it from crates.io"))
    }

    fn licence_objection(&self, package: &Package) -> Option<String> {
        let Some(expression) = &package.license else {
            return Some("names no licence".to_owned());
        };
        match is_allowed(expression, &self.licences) {
            Some(true) => None,
            Some(false) => Some(format!("is under `{expression}`")),
            None => Some(format!("has a licence that cannot be read: `{expression}`")),
        }
    }
}

fn strings(table: &DeTable<'_>, section: &str, key: &str) -> Vec<String> {
    let list = table.get(section).and_then(|section| section.get_ref().get(key));
    let list = list.and_then(|list| list.get_ref().as_array());
    let text = |value: &toml::Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
    list.into_iter().flatten().filter_map(text).collect()
}

/// Whether an SPDX expression can be satisfied with the allowed licences alone; `None` when it is
/// none. A `/` is read as `OR`, as crates.io did before it asked for SPDX.
fn is_allowed(expression: &str, allowed: &[String]) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = any_of(&mut words, allowed)?;
    words.next().is_none().then_some(verdict)
}

fn any_of<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &[String],
) -> Option<bool> {
    let mut verdict = all_of(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all_of(words, allowed)?;
    }
    Some(verdict)
}

fn all_of<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &[String],
) -> Option<bool> {
    let mut verdict = term(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= term(words, allowed)?;
    }
    Some(verdict)
}

fn term<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &[String],
) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let verdict = any_of(words, allowed)?;
        return (words.next()? == ")").then_some(verdict);
    }
    if [")", "AND", "OR", "WITH"].contains(&word) {
        return None;
    }
    let licence = match words.next_if_eq(&"WITH") {
        Some(_) => format!("{word} WITH {}", words.next()?),
        None => word.to_owned(),
    };
    Some(allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
    const DENY: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\"]\n\
        [sources]\nallow-registry = [\"https://github.com/rust-lang/crates.io-index\"]\n";

    #[track_caller]
    fn check_package(license: Option<&str>, source: Option<&str>, expected: &[&str]) {
        let lock = "version = 4\n\n[[package]]\nname = \"left\"\n";
        let tree = Tree::of(&[("deny.toml", DENY), ("Cargo.lock", lock)]);
        let package = Package {
            name: "left".to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            member: Member::Theirs,
            target_kinds: Vec::new(),
        };
        assert_eq!(printed(&check(&tree, &[package])), expected);
    }

    #[test]
    fn a_licence_outside_the_list_is_found() {
        let expected = "Cargo.lock:4: `left` 1.0.0 is under `GPL-3.0`; \
                        use another crate, or allow the licence in deny.toml";
        check_package(Some("GPL-3.0"), Some(CRATES_IO), &[expected]);
        let expected = "Cargo.lock:4: `left` 1.0.0 names no licence; \
                        use another crate, or allow the licence in deny.toml";
        check_package(None, Some(CRATES_IO), &[expected]);
        check_package(Some("MIT"), Some(CRATES_IO), &[]);
    }

    #[test]
    fn a_foreign_source_is_found() {
        let expected = "Cargo.lock:4: `left` 1.0.0 comes from git+https://example.org/left; \
                        take it from crates.io";
        check_package(Some("MIT"), Some("git+https://example.org/left"), &[expected]);
        let expected = "Cargo.lock:4: `left` 1.0.0 comes from a folder outside the workspace; \
                        take it from crates.io";
        check_package(Some("MIT"), None, &[expected]);
    }

    #[test]
    fn a_missing_policy_is_found() {
        let expected = "deny.toml:1: no such file; write one with an allow list";
        assert_eq!(printed(&check(&Tree::of(&[]), &[])), [expected]);
    }

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        let allowed = allowed.map(str::to_owned);
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("MIT/GPL-3.0", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", Some(true)),
            ("MIT OR GPL-3.0 AND BSD-3-Clause", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0", Some(false)),
            ("(MIT", None),
            ("MIT OR", None),
            ("MIT GPL-3.0", None),
            ("", None),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
