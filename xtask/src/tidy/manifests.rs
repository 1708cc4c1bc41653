//! One table of dependencies: the workspace's, sorted; members only point at it.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Finding, parse_toml};
use crate::tree::{SourceFile, Tree};

const ROOT: &str = "Cargo.toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.with_extension("toml").filter(|file| is_manifest(file));
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &SourceFile) -> Vec<Finding> {
    let manifest = match Manifest::parse(file) {
        Ok(manifest) => manifest,
        Err(finding) => return vec![finding],
    };
    let mut findings: Vec<Finding> = manifest
        .dependencies
        .iter()
        .filter(|dependency| dependency.origin == Origin::Own && !manifest.is_itself(dependency))
        .map(|dependency| {
            let what = format!("`{}` is not taken from the workspace", dependency.name);
            let fix = "move it to `[workspace.dependencies]` and write `workspace = true`";
            Finding::new(&file.path, dependency.line, what, fix)
        })
        .collect();
    findings.extend(out_of_order(file, &manifest.shared));
    findings
}

fn out_of_order(file: &SourceFile, shared: &[(String, usize)]) -> Option<Finding> {
    let pair = shared.windows(2).find(|pair| pair[0].0 > pair[1].0)?;
    let what = format!("`{}` stands after `{}`", pair[1].0, pair[0].0);
    Some(Finding::new(&file.path, pair[1].1, what, "sort `[workspace.dependencies]`"))
}

/// Workspaces of their own, with dependencies of their own: what Haft is measured beside, and a
/// crate as a user of `haft` has one.
const OTHERS: &[&str] = &["bench/", "tests/outside/"];

/// Whether the file is the root's manifest or a member's.
pub(super) fn is_manifest(file: &SourceFile) -> bool {
    let is_other = OTHERS.iter().any(|other| file.path.starts_with(other));
    file.path == ROOT || (file.path.ends_with("/Cargo.toml") && !is_other)
}

/// The parts of a `Cargo.toml` that the checks look at.
pub(super) struct Manifest {
    /// `None` for a root without a package of its own.
    pub(super) package: Option<String>,
    pub(super) dependencies: Vec<Dependency>,
    /// `[workspace.dependencies]` as written: names and lines.
    shared: Vec<(String, usize)>,
}

pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) kind: Kind,
    origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Build,
    Dev,
    Normal,
}

/// Who says which version of a dependency is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Origin {
    Own,
    Workspace,
}

const TABLES: &[(&str, Kind)] = &[
    ("build-dependencies", Kind::Build),
    ("dependencies", Kind::Normal),
    ("dev-dependencies", Kind::Dev),
];

impl Manifest {
    /// Whether a crate's tests name the crate itself, to have more of its features. Such an entry
    /// must have no version, or the crate could not be published before it is.
    fn is_itself(&self, dependency: &Dependency) -> bool {
        dependency.kind == Kind::Dev && self.package.as_deref() == Some(&dependency.name)
    }

    pub(super) fn parse(file: &SourceFile) -> Result<Manifest, Finding> {
        let table = parse_toml(file)?;
        let root = table.get_ref();
        let mut dependencies = dependencies_of(file, root);
        for (_, target) in entries(root, "target") {
            dependencies.extend(target.as_table().iter().flat_map(|t| dependencies_of(file, t)));
        }
        dependencies.sort_by_key(|dependency| dependency.line);
        Ok(Manifest { package: package_name(root), dependencies, shared: shared(file, root) })
    }
}

fn package_name(root: &DeTable<'_>) -> Option<String> {
    let name = root.get("package")?.get_ref().get("name")?.get_ref().as_str()?;
    Some(name.to_owned())
}

fn shared(file: &SourceFile, root: &DeTable<'_>) -> Vec<(String, usize)> {
    let workspace = root.get("workspace").and_then(|value| value.get_ref().as_table());
    let entries = workspace.into_iter().flat_map(|table| entries(table, "dependencies"));
    let mut shared: Vec<_> = entries
        .map(|(name, _)| (name.get_ref().to_string(), file.line_at(name.span().start)))
        .collect();
    shared.sort_by_key(|(_, line)| *line);
    shared
}

fn dependencies_of(file: &SourceFile, table: &DeTable<'_>) -> Vec<Dependency> {
    let of_kind = |(key, kind): &(&str, Kind)| {
        let dependency = |(name, value): (&Spanned<_>, &DeValue<'_>)| Dependency {
            name: package_of(name, value),
            line: file.line_at(name.span().start),
            kind: *kind,
            origin: origin_of(value),
        };
        entries(table, key).map(dependency).collect::<Vec<_>>()
    };
    TABLES.iter().flat_map(of_kind).collect()
}

/// A renamed dependency is known by the package it stands for.
fn package_of(name: &Spanned<Cow<'_, str>>, value: &DeValue<'_>) -> String {
    let package = value.get("package").and_then(|package| package.get_ref().as_str());
    package.unwrap_or(name.get_ref()).to_owned()
}

fn origin_of(value: &DeValue<'_>) -> Origin {
    match value.get("workspace").and_then(|workspace| workspace.get_ref().as_bool()) {
        Some(true) => Origin::Workspace,
        Some(false) | None => Origin::Own,
    }
}

fn entries<'t, 'i>(
    table: &'t DeTable<'i>,
    key: &str,
) -> impl Iterator<Item = (&'t Spanned<Cow<'i, str>>, &'t DeValue<'i>)> {
    let inner = table.get(key).and_then(|value| value.get_ref().as_table());
    inner.into_iter().flatten().map(|(name, value)| (name, value.get_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::printed;

    #[track_caller]
    fn check_manifest(text: &str, expected: &[&str]) {
        assert_eq!(printed(&check(&Tree::of(&[("Cargo.toml", text)]))), expected);
    }

    #[test]
    fn a_version_of_its_own_is_found_in_every_table() {
        let expected = |line| {
            format!(
                "Cargo.toml:{line}: `serde` is not taken from the workspace; \
                 move it to `[workspace.dependencies]` and write `workspace = true`"
            )
        };
        check_manifest("[dependencies]\nserde = \"1\"", &[&expected(2)]);
        check_manifest("[dev-dependencies]\nserde = { version = \"1\" }", &[&expected(2)]);
        check_manifest("[target.'cfg(unix)'.dependencies]\nserde = \"1\"", &[&expected(2)]);
        check_manifest("[build-dependencies.serde]\nversion = \"1\"", &[&expected(1)]);
    }

    #[test]
    fn pointers_to_the_workspace_pass() {
        check_manifest("[dependencies]\na.workspace = true\nb = { workspace = true }", &[]);
    }

    #[test]
    fn the_workspace_table_must_be_sorted() {
        let text = "[workspace.dependencies]\na = \"1\"\nc = \"1\"\nb = \"1\"\n";
        let expected = "Cargo.toml:4: `b` stands after `c`; sort `[workspace.dependencies]`";
        check_manifest(text, &[expected]);
    }

    #[test]
    fn a_broken_manifest_is_a_finding() {
        let findings = check(&Tree::of(&[("Cargo.toml", "[dependencies]\na = \n")]));
        assert!(findings[0].to_string().starts_with("Cargo.toml:2: no valid TOML: "));
    }
}
