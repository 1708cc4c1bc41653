//! The official SDKs, the front ends that people have and the MCP clients that others wrote,
//! unmodified and from their registries, against the real binary.

mod peers;

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
    if !succeeds(&mut build)? || !python(root, &target)? || !own_python(root, &target)? {
        return Ok(Verdict::Wanting);
    }
    if !own_scripts(root, &target)? {
        return Ok(Verdict::Wanting);
    }
    for (folder, tests) in SUITES {
        if !scripts(root, &target, folder, tests)? {
            return Ok(Verdict::Wanting);
        }
    }
    match peers::run(root, &target)? {
        true => Ok(Verdict::Clean),
        false => Ok(Verdict::Wanting),
    }
}

fn python(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let Some(program) = sdk_python(root, target)? else {
        return Ok(false);
    };
    let mut conversations = Command::new(&program);
    conversations.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."]);
    conversations.env("HAFT", target.join("debug/haft")).env("PYTHONDONTWRITEBYTECODE", "1");
    succeeds(conversations.current_dir(root.join(PYTHON)))
}

/// Checks the types of our own package for Python, and runs its tests, among them those that kill
/// workers and servers.
fn own_python(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let here = root.join("sdk/python");
    let place = target.join("sdk/worker-python");
    let Some(program) = python_with(&here.join("tests/requirements.txt"), &place)? else {
        return Ok(false);
    };
    let mut types = Command::new(&program);
    types.args(["-m", "mypy", "--cache-dir"]).arg(target.join("sdk/mypy")).current_dir(&here);
    let mut tests = Command::new(&program);
    tests.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests"]);
    tests.env("HAFT", target.join("debug/haft")).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("PYTHONPATH", here.join("src")).current_dir(&here);
    Ok(succeeds(&mut types)? && succeeds(&mut tests)?)
}

/// Checks the types of our own package for npm, and runs its tests.
fn own_scripts(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let (here, copy) = (root.join("sdk/typescript"), target.join("sdk/typescript"));
    for folder in ["src", "tests"] {
        let place = copy.join(folder);
        fs::create_dir_all(&place).with_context(|| format!("making `{}`", place.display()))?;
        for entry in fs::read_dir(here.join(folder))? {
            let entry = entry?;
            fs::copy(entry.path(), place.join(entry.file_name()))?;
        }
    }
    if !copied(&here, &copy)? {
        return Ok(false);
    }
    let mut types = Command::new("npx");
    types.args(["tsc", "-p", "."]).current_dir(&copy);
    let mut tests = Command::new("node");
    tests.args(["--test", "--test-concurrency=1", "tests/worker.test.mjs"]).current_dir(&copy);
    tests.env("HAFT", target.join("debug/haft"));
    Ok(succeeds(&mut types)? && succeeds(&mut tests)?)
}

/// Returns a Python that has the official SDK.
pub(crate) fn sdk_python(root: &Path, target: &Path) -> anyhow::Result<Option<PathBuf>> {
    python_with(&root.join(PYTHON).join("requirements.txt"), &target.join("sdk/python"))
}

/// Returns a Python that has what a file requires, in a place of its own; nothing when it cannot
/// be had.
fn python_with(requirements: &Path, place: &Path) -> anyhow::Result<Option<PathBuf>> {
    let program = place.join("bin/python");
    if !program.exists() && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(place))? {
        return Ok(None);
    }
    let mut install = Command::new(&program);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    Ok(succeeds(install.arg(requirements))?.then_some(program))
}

/// Runs a copy: Node.js looks for packages beside the scripts, and they do not belong there.
fn scripts(root: &Path, target: &Path, folder: &str, tests: &[&str]) -> anyhow::Result<bool> {
    let (here, copy) = (root.join(SCRIPTS).join(folder), target.join("sdk").join(folder));
    if !copied(&here, &copy)? {
        return Ok(false);
    }
    let mut conversations = Command::new("node");
    conversations.args(["--test", "--test-concurrency=1"]).args(tests).current_dir(&copy);
    conversations.env("HAFT", target.join("debug/haft"));
    succeeds(&mut conversations)
}

/// Copies scripts and installs what they need beside them.
fn copied(here: &Path, copy: &Path) -> anyhow::Result<bool> {
    fs::create_dir_all(copy).with_context(|| format!("making `{}`", copy.display()))?;
    for entry in fs::read_dir(here).with_context(|| format!("reading `{}`", here.display()))? {
        let entry = entry?;
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
    }
    // `npm ci` refuses a lock file without the builds for other systems, which a mirror may lack.
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(copy);
    succeeds(&mut install)
}

fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    Ok(status.success())
}
