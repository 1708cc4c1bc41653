//! The official SDKs, unmodified and from their registries, against the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::Verdict;
use crate::metadata;

/// Where the conversations and the versions of what they need are.
const PYTHON: &str = "crates/haft-server/tests/sdk";

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut build = metadata::cargo();
    build.args(["build", "-p", "haft-cli"]).current_dir(root);
    if !succeeds(&mut build)? {
        return Ok(Verdict::Wanting);
    }
    let (python, here) = (target.join("sdk/python"), root.join(PYTHON));
    let program = python.join("bin/python");
    if !program.exists() && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(&python))? {
        return Ok(Verdict::Wanting);
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    if !succeeds(install.arg(here.join("requirements.txt")))? {
        return Ok(Verdict::Wanting);
    }
    let mut conversations = Command::new(&program);
    conversations.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "."]);
    conversations.env("HAFT", target.join("debug/haft")).env("PYTHONDONTWRITEBYTECODE", "1");
    let passed = succeeds(conversations.current_dir(here))?;
    Ok(if passed { Verdict::Clean } else { Verdict::Wanting })
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    Ok(status.success())
}
