//! Peers from the registries, installed once for all tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages, with their versions: what they are is part of what is tested.
const NPM: &[&str] = &[
    "node@22.23.3",
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-memory",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
];

/// Returns whether tests that need more than the toolchain are left out.
pub(crate) fn left_out(what: &str) -> bool {
    let fast = std::env::var_os("HAFT_TEST_FAST").is_some();
    if fast {
        println!("left out: {what} (HAFT_TEST_FAST=1)");
    }
    fast
}

/// The directory of the installed packages of npm.
pub(crate) fn npm() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-npm");
    std::fs::create_dir_all(&directory).unwrap();
    // Tests are processes of their own, and only one of them may install.
    let lock = File::create(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    let done = directory.join("installed");
    let wanted = NPM.join("\n");
    if std::fs::read_to_string(&done).is_ok_and(|found| found == wanted) {
        return directory;
    }
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&directory).args(NPM);
    run(&mut install);
    // The package `node` fetches its binary in a script, which npm may be told not to run.
    let script = directory.join("node_modules/node/installArchSpecificPackage.js");
    if !node(&directory).exists() {
        run(Command::new("node").arg(script).current_dir(directory.join("node_modules/node")));
    }
    std::fs::write(done, wanted).unwrap();
    directory
}

pub(crate) fn node(npm: &Path) -> PathBuf {
    npm.join("node_modules/node/bin/node")
}

fn run(command: &mut Command) {
    let output = command.output().expect("npm is there, or HAFT_TEST_FAST=1 leaves this out");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {said}");
}
