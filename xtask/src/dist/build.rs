//! The release binary, linked against a glibc that is old enough for the systems people run.
//!
//! `cargo-zigbuild` gives zig's linker the symbols of one version of glibc, whatever this machine
//! has. Both come from PyPI as wheels with programs inside.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::{cache, commands};
use crate::metadata;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The versions to try, the oldest first: CentOS 7, Debian 10, Debian 11.
const GLIBC: [&str; 3] = ["2.17", "2.28", "2.31"];

const LINKER: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.0"];

/// Builds `haft` and returns the binary.
pub(super) fn release(root: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let programs = linker()?;
    let own = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs).chain(std::env::split_paths(&own));
    let path = std::env::join_paths(path).context("joining PATH")?;
    for glibc in GLIBC {
        println!("dist: building the release against glibc {glibc}");
        let mut build = metadata::cargo();
        build.args(["zigbuild", "--release", "--locked", "-p", "haft-cli", "--target"]);
        build.arg(format!("{TARGET}.{glibc}")).current_dir(root);
        build.env("PATH", &path).env("CARGO_TARGET_DIR", target);
        let status = build.status().with_context(|| format!("starting {build:?}"))?;
        if status.success() {
            return Ok(target.join(TARGET).join("release/haft"));
        }
        println!("dist: the release does not build against glibc {glibc}");
    }
    bail!("the release builds against none of glibc {}", GLIBC.join(", "))
}

/// Returns the directory of `cargo-zigbuild` and of a Python that has zig.
fn linker() -> anyhow::Result<PathBuf> {
    let place = cache().join("dist").join(LINKER.join("-").replace("==", "-"));
    let python = place.join("bin/python");
    if !python.exists() {
        commands::run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    commands::run(install.args(LINKER))?;
    Ok(place.join("bin"))
}
