//! The wheel: `pip install haft` and `uvx haft` put the binary on the path, and the package `haft`
//! of `sdk/python` beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::commands::{self, Mode};
use super::linkage::Glibc;
use super::release::Release;
use super::{LICENCE, LICENCE_FILES, SUMMARY};

/// Packs a directory; Python has a writer of zip archives, and we have none.
const PACK: &str = include_str!("wheel.py");

pub(super) fn make(release: &Release) -> anyhow::Result<PathBuf> {
    let (tree, tag) = (release.work.join("wheel"), tag(release.linkage.glibc));
    commands::emptied(&tree)?;
    let files = files(release, &tag)?;
    for file in &files {
        commands::put(&tree.join(&file.path), &file.content, file.mode)?;
    }
    let info = format!("haft-{}.dist-info", release.version);
    commands::put(&tree.join(&info).join("RECORD"), record(&files, &info), Mode::Data)?;
    let wheel = release.out.join(format!("haft-{}-{tag}.whl", release.version));
    let mut pack = Command::new("python3");
    pack.args(["-c", PACK]).arg(&tree).arg(&wheel).arg(release.epoch.to_string());
    commands::run(&mut pack)?;
    Ok(wheel)
}

/// A file of the wheel; `path` is relative to its root.
struct File {
    path: String,
    content: Vec<u8>,
    mode: Mode,
}

fn files(release: &Release, tag: &str) -> anyhow::Result<Vec<File>> {
    let version = &release.version;
    let info = format!("haft-{version}.dist-info");
    let data = |path: String, content: String| File {
        path,
        content: content.into_bytes(),
        mode: Mode::Data,
    };
    let binary = fs::read(&release.binary).context("reading the binary")?;
    let script = format!("haft-{version}.data/scripts/haft");
    let mut files = vec![
        File { path: script, content: binary, mode: Mode::Program },
        data(format!("{info}/METADATA"), metadata(version, &release.text("README.md")?)),
        data(format!("{info}/WHEEL"), description(tag)),
    ];
    for name in LICENCE_FILES {
        files.push(data(format!("{info}/licenses/{name}"), release.text(name)?));
    }
    for name in package(&release.root)? {
        files.push(data(format!("haft/{name}"), release.text(&format!("{PACKAGE}/{name}"))?));
    }
    Ok(files)
}

/// Where the package for Python is.
const PACKAGE: &str = "sdk/python/src/haft";

/// The files of the package, in order.
fn package(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join(PACKAGE)).context("listing the Python package")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".py") || name == "py.typed" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The systems that the wheel is for: those with this glibc or a newer one.
fn tag(glibc: Glibc) -> String {
    format!("py3-none-manylinux_{}_{}_x86_64", glibc.major, glibc.minor)
}

fn metadata(version: &str, readme: &str) -> String {
    let licences = LICENCE_FILES.map(|name| format!("License-File: {name}\n")).concat();
    format!(
        "Metadata-Version: 2.4\nName: haft\nVersion: {version}\nSummary: {SUMMARY}\n\
         License-Expression: {LICENCE}\n{licences}Requires-Python: >=3.10\n\
         Requires-Dist: pydantic>=2.6\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    )
}

fn description(tag: &str) -> String {
    format!("Wheel-Version: 1.0\nGenerator: haft-xtask\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// The list of all files with their digests, as installers verify it.
fn record(files: &[File], info: &str) -> String {
    let line = |File { path, content, .. }: &File| {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        format!("{path},sha256={digest},{}\n", content.len())
    };
    files.iter().map(line).collect::<String>() + &format!("{info}/RECORD,,\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_lists_digest_and_size_of_every_file_but_itself() {
        let file = File { path: "a/b".to_owned(), content: b"abc".to_vec(), mode: Mode::Data };
        assert_eq!(
            record(&[file], "haft-1.dist-info"),
            "a/b,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\nhaft-1.dist-info/RECORD,,\n"
        );
    }

    #[test]
    fn the_tag_names_the_glibc_that_the_binary_needs() {
        assert_eq!(tag(Glibc { major: 2, minor: 17 }), "py3-none-manylinux_2_17_x86_64");
    }

    #[test]
    fn the_wheel_has_the_package_with_its_types() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let names = package(root).unwrap();
        for name in ["__init__.py", "_worker.py", "py.typed", "testing.py"] {
            assert!(names.iter().any(|found| found == name), "{names:?}");
        }
        assert!(metadata("1.2.3", "").contains("Requires-Dist: pydantic>="));
    }

    #[test]
    fn the_metadata_has_its_headers_before_the_readme() {
        let metadata = metadata("1.2.3", "# Haft\n");
        let (headers, readme) = metadata.split_once("\n\n").unwrap();
        assert!(headers.contains("Version: 1.2.3\n"), "{headers}");
        assert!(headers.contains("License-Expression: MIT OR Apache-2.0\n"), "{headers}");
        assert_eq!(readme, "# Haft\n");
    }
}
