//! The console and its elements in a real Chromium, against the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::Verdict;
use crate::metadata;

/// Where the tests and the versions of what they need are.
const TESTS: &str = "crates/haft-server/tests/browser";

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let here = root.join(TESTS);
    let mut build = metadata::cargo();
    build.args(["build", "-p", "haft-cli"]).current_dir(root);
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&here);
    let mut types = Command::new("npm");
    types.args(["run", "--silent", "types"]).current_dir(&here);
    let mut tests = Command::new("npm");
    tests.args(["test", "--silent"]).current_dir(&here);
    tests.env("HAFT_BINARY", target.join("debug/haft"));
    for command in [&mut build, &mut install, &mut types, &mut tests] {
        let status = command.status().with_context(|| format!("starting {command:?}"))?;
        if !status.success() {
            return Ok(Verdict::Wanting);
        }
    }
    Ok(Verdict::Clean)
}
