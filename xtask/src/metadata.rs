//! What cargo knows about the packages: licences, sources and kinds of targets.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Where cargo fetched it from; `None` for a package on disk.
    pub(crate) source: Option<String>,
    pub(crate) member: Member,
    pub(crate) target_kinds: Vec<String>,
}

/// Whether a package is part of this workspace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Member {
    Ours,
    Theirs,
}

pub(crate) fn members(root: &Path) -> anyhow::Result<Vec<Package>> {
    parse(&cargo_metadata(root, &["--no-deps", "--offline"])?)
}

/// The members and all they depend on, on every platform.
///
/// What the local cache lacks is fetched: on a fresh machine xtask runs before anything has asked
/// for the dependencies of the other crates.
pub(crate) fn all_packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let json = cargo_metadata(root, &["--locked", "--offline"])
        .or_else(|_| cargo_metadata(root, &["--locked"]))?;
    parse(&json)
}

pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells us about xtask: `ring` is built again whenever it differs, and everything
    // above it, so what is built by hand and what is built here would undo one another.
    let about_us = |name: &str| {
        name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST")
            || name == "CARGO_BIN_NAME"
    };
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(about_us) {
            cargo.env_remove(name);
        }
    }
    cargo
}

pub(crate) fn cargo_metadata(root: &Path, flags: &[&str]) -> anyhow::Result<String> {
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .args(flags)
        .current_dir(root)
        .output()
        .context("starting `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("reading the output of `cargo metadata`")
}

fn parse(json: &str) -> anyhow::Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(json).context("parsing `cargo metadata`")?;
    let members = list(&metadata, "workspace_members")?;
    list(&metadata, "packages")?.iter().map(|package| parse_package(package, members)).collect()
}

fn parse_package(package: &Value, members: &[Value]) -> anyhow::Result<Package> {
    let member = if members.contains(&package["id"]) { Member::Ours } else { Member::Theirs };
    let kinds = list(package, "targets")?.iter().filter_map(|target| target["kind"].as_array());
    Ok(Package {
        name: text(package, "name").context("a package without a name")?,
        version: text(package, "version").context("a package without a version")?,
        license: text(package, "license"),
        source: text(package, "source"),
        member,
        target_kinds: kinds.flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn list<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("`cargo metadata` has no list `{key}`"))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_from_what_they_depend_on() {
        let packages = all_packages(&crate::root()).unwrap();
        let member = |name: &str| packages.iter().find(|p| p.name == name).unwrap().member;
        assert_eq!(member("xtask"), Member::Ours);
        assert_eq!(member("serde_json"), Member::Theirs);
    }

    #[test]
    fn a_shape_cargo_does_not_have_is_an_error() {
        assert!(parse("{}").is_err());
        assert!(parse("{\"packages\": [{}], \"workspace_members\": []}").is_err());
    }
}
