//! The official SDKs and the front ends that people have, unmodified and from their registries,
//! against the real binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::Verdict;
use crate::metadata;

/// Where the conversations and the versions of what they need are.
const PYTHON: &str = "crates/haft-server/tests/sdk";
const SCRIPTS: &str = "crates/haft-server/tests";
/// Folders of scripts for Node.js, and the tests in them.
const SUITES: [(&str, &[&str]); 2] =
    [("sdk-ts", &["conversations.test.mjs"]), ("fronts", &["ag_ui.test.mjs", "chat.test.mjs"])];

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut build = metadata::cargo();
    build.args(["build", "-p", "haft-cli"]).current_dir(root);
    if !succeeds(&mut build)? || !python(root, &target)? {
        return Ok(Verdict::Wanting);
    }
    for (folder, tests) in SUITES {
        if !scripts(root, &target, folder, tests)? {
            return Ok(Verdict::Wanting);
        }
    }
    Ok(Verdict::Clean)
}

fn python(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let mut conversations = Command::new(target.join("sdk/python/bin/python"));
    conversations.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "."]);
    conversations.env("HAFT", target.join("debug/haft")).env("PYTHONDONTWRITEBYTECODE", "1");
    conversations.current_dir(root.join(PYTHON));
    Ok(install_python(root, target)? && succeeds(&mut conversations)?)
}

/// Makes the virtual environment with the official SDK, unless it is there.
pub(crate) fn install_python(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let (python, here) = (target.join("sdk/python"), root.join(PYTHON));
    let program = python.join("bin/python");
    if !program.exists() && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(&python))? {
        return Ok(false);
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    succeeds(install.arg(here.join("requirements.txt")))
}

/// Runs a copy: Node.js looks for packages beside the scripts, and they do not belong there.
fn scripts(root: &Path, target: &Path, folder: &str, tests: &[&str]) -> anyhow::Result<bool> {
    let (here, copy) = (root.join(SCRIPTS).join(folder), target.join("sdk").join(folder));
    fs::create_dir_all(&copy).with_context(|| format!("making `{}`", copy.display()))?;
    for entry in fs::read_dir(&here).with_context(|| format!("reading `{}`", here.display()))? {
        let entry = entry?;
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&copy);
    let mut conversations = Command::new("node");
    conversations.args(["--test", "--test-concurrency=1"]).args(tests).current_dir(&copy);
    conversations.env("HAFT", target.join("debug/haft"));
    Ok(succeeds(&mut install)? && succeeds(&mut conversations)?)
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    Ok(status.success())
}
