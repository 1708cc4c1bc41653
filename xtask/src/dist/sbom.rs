//! The bill of materials: every crate that is in the binary, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::commands::{self, Mode};
use super::release::Release;
use super::{LICENCE, SUMMARY, sums};
use crate::metadata;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A crate's name and version.
type Id = (String, String);

pub(super) fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let contained = contained(&tree(release)?);
    let about =
        metadata::cargo_metadata(&release.root, &["--locked", "--filter-platform", TARGET])?;
    let about: Value = serde_json::from_str(&about).context("parsing `cargo metadata`")?;
    let checksums = checksums(&release.text("Cargo.lock")?);
    let time = format!("@{}", release.epoch);
    let time = commands::output(Command::new("date").args(["-u", "-d", &time, "+%FT%TZ"]))?;
    let bom = bom(&release.version, time.trim(), &contained, &about, &checksums)?;
    let file = release.out.join(format!("haft-{}.cdx.json", release.version));
    commands::put(&file, format!("{bom:#}\n"), Mode::Data)?;
    Ok(file)
}

/// The crates that `haft-cli` is compiled from, with those that only its build uses.
fn tree(release: &Release) -> anyhow::Result<String> {
    let mut tree = metadata::cargo();
    tree.args(["tree", "--locked", "-p", "haft-cli", "-e", "normal,build", "--target", TARGET]);
    tree.args(["--prefix", "none", "--format", "{p}"]).current_dir(&release.root);
    commands::output(&mut tree)
}

fn contained(tree: &str) -> BTreeSet<Id> {
    let id = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        let version = rest.split(' ').next()?;
        Some((name.to_owned(), version.to_owned()))
    };
    tree.lines().filter_map(id).collect()
}

/// Reads the digests of the archives that crates were fetched as.
fn checksums(lock: &str) -> BTreeMap<Id, String> {
    let value = |package: &str, key: &str| {
        let lines = package.lines();
        let found =
            lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")).next()?;
        Some(found.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    let checksum = |package: &str| {
        let id = (value(package, "name")?, value(package, "version")?);
        Some((id, value(package, "checksum")?))
    };
    packages.filter_map(checksum).collect()
}

fn bom(
    version: &str,
    time: &str,
    contained: &BTreeSet<Id>,
    about: &Value,
    checksums: &BTreeMap<Id, String>,
) -> anyhow::Result<Value> {
    let packages = about["packages"].as_array().context("`cargo metadata` has no packages")?;
    let named: BTreeMap<&str, (Id, &Value)> = packages
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, (id(package)?, package))))
        .collect();
    let mut components: Vec<Value> = named
        .values()
        .filter(|(id, _)| contained.contains(id) && id.0 != "haft-cli")
        .map(|(id, package)| component(id, package, checksums.get(id)))
        .collect();
    components.sort_by_key(|component| component["purl"].to_string());
    let nodes = about["resolve"]["nodes"].as_array().context("`cargo metadata` has no graph")?;
    let mut edges: Vec<Value> =
        nodes.iter().filter_map(|node| edge(node, &named, contained)).collect();
    edges.sort_by_key(|edge| edge["ref"].to_string());
    let digest = Sha256::digest(json!([version, components, edges]).to_string());
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": format!("urn:uuid:{}", uuid(&digest)),
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": purl("haft-cli", version),
                "name": "haft",
                "version": version,
                "description": SUMMARY,
                "purl": purl("haft-cli", version),
                "licenses": [{ "expression": LICENCE }],
            },
        },
        "components": components,
        "dependencies": edges,
    }))
}

fn id(package: &Value) -> Option<Id> {
    Some((package["name"].as_str()?.to_owned(), package["version"].as_str()?.to_owned()))
}

fn component(id: &Id, package: &Value, checksum: Option<&String>) -> Value {
    let purl = purl(&id.0, &id.1);
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": id.0,
        "version": id.1,
        "purl": purl,
    });
    if let Some(licence) = package["license"].as_str() {
        component["licenses"] = json!([{ "expression": expression(licence) }]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn edge(
    node: &Value,
    named: &BTreeMap<&str, (Id, &Value)>,
    contained: &BTreeSet<Id>,
) -> Option<Value> {
    let reference = |package: &Value| {
        let (id, _) = named.get(package.as_str()?)?;
        contained.contains(id).then(|| purl(&id.0, &id.1))
    };
    let from = reference(&node["id"])?;
    let on: BTreeSet<String> =
        node["deps"].as_array()?.iter().filter_map(|dep| reference(&dep["pkg"])).collect();
    Some(json!({ "ref": from, "dependsOn": on }))
}

/// The address of a crate in the notation of package URLs, where `+` has to be escaped.
fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// A licence as SPDX writes it; crates before 2018 have `/` for `OR`.
fn expression(licence: &str) -> String {
    let parts: Vec<&str> = licence.split('/').map(str::trim).collect();
    parts.join(" OR ")
}

/// A UUID that is the same for the same content.
fn uuid(digest: &[u8]) -> String {
    let mut bytes = digest[..16].to_vec();
    // Version 8, "custom", and the variant that all UUIDs have.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = sums::hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_lists_what_is_in_the_binary_with_purl_licence_and_hash() {
        let tree = "haft-cli v1.0.0 (/src)\nserde v1.0.2\nserde v1.0.2 (*)\n";
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.2\"\nchecksum = \"ab12\"\n";
        let about = json!({
            "packages": [
                { "id": "s", "name": "serde", "version": "1.0.2", "license": "MIT/Apache-2.0" },
                { "id": "c", "name": "haft-cli", "version": "1.0.0", "license": "MIT" },
                { "id": "x", "name": "proptest", "version": "1.0.0", "license": "MIT" },
            ],
            "resolve": { "nodes": [
                { "id": "c", "deps": [{ "pkg": "s" }, { "pkg": "x" }] },
                { "id": "s", "deps": [] },
                { "id": "x", "deps": [] },
            ] },
        });
        let bom = bom("1.0.0", "2026-01-01T00:00:00Z", &contained(tree), &about, &checksums(lock));
        let bom = bom.unwrap();
        let serde = json!({
            "type": "library",
            "bom-ref": "pkg:cargo/serde@1.0.2",
            "name": "serde",
            "version": "1.0.2",
            "purl": "pkg:cargo/serde@1.0.2",
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "ab12" }],
        });
        assert_eq!(bom["components"], json!([serde]));
        let on = json!([
            { "ref": "pkg:cargo/haft-cli@1.0.0", "dependsOn": ["pkg:cargo/serde@1.0.2"] },
            { "ref": "pkg:cargo/serde@1.0.2", "dependsOn": [] },
        ]);
        assert_eq!(bom["dependencies"], on);
        assert_eq!(bom["metadata"]["component"]["version"], "1.0.0");
    }

    #[test]
    fn a_version_with_build_metadata_is_escaped_in_its_purl() {
        assert_eq!(purl("a", "1.0.0+2"), "pkg:cargo/a@1.0.0%2B2");
    }

    #[test]
    fn the_serial_number_is_a_uuid() {
        assert_eq!(uuid(&[0xff; 32]), "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}
