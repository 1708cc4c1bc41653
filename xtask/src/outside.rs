//! A crate outside the workspace that depends on `haft` alone: what it compiles, whether the
//! examples compile there, and whether its logs and the binary's are one another's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::{Verdict, metadata};

/// Where the crate is.
const CRATE: &str = "tests/outside";

/// How many crates a user of `haft` with its default features compiles at most.
const CRATES_MAX: usize = 110;

/// A feature of serde_json that changes what other crates of a program print.
const FOREIGN: &str = "preserve_order";

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let outside = Outside::new(root)?;
    let tree = Tree::parse(&outside.cargo(&[
        "tree",
        "-e",
        "normal",
        "--prefix",
        "none",
        "-f",
        "{p} [{f}]",
    ])?);
    let n_crates = tree.crates.len();
    println!("a user of `haft` compiles {n_crates} crates");
    if n_crates > CRATES_MAX {
        println!("expected at most {CRATES_MAX}; `cargo tree -e normal` in {CRATE} shows them");
        return Ok(Verdict::Wanting);
    }
    if tree.serde_json.iter().any(|feature| feature == FOREIGN) {
        println!("`haft` switches serde_json's `{FOREIGN}` on for the programs that use it");
        return Ok(Verdict::Wanting);
    }
    outside.cargo(&["test", "-q"])?;
    outside.cargo(&["run", "-q", "--example", "refund"])?;
    outside.exchange_logs(root)?;
    Ok(Verdict::Clean)
}

/// What `cargo tree` says, one crate on each line.
struct Tree {
    crates: BTreeSet<String>,
    serde_json: Vec<String>,
}

impl Tree {
    fn parse(text: &str) -> Self {
        let (mut crates, mut serde_json) = (BTreeSet::new(), Vec::new());
        // The first line is the crate that asks.
        for line in text.lines().skip(1) {
            let mut words = line.split(' ');
            let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
            crates.insert(format!("{name} {version}"));
            let features = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            if let Some((features, _)) = features.filter(|_| name == "serde_json") {
                serde_json = features.split(',').map(str::to_owned).collect();
            }
        }
        Self { crates, serde_json }
    }
}

struct Outside {
    here: PathBuf,
    /// Where the workspace is built.
    target: PathBuf,
    /// Where this crate is built: in the workspace's directory, the two would undo what build
    /// scripts of the other left.
    own_target: PathBuf,
}

impl Outside {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let here = root.join(CRATE);
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root.join("target"), PathBuf::from);
        // The versions that the workspace has: they are downloaded already.
        std::fs::copy(root.join("Cargo.lock"), here.join("Cargo.lock"))
            .context("copying Cargo.lock")?;
        let own_target = target.join("outside");
        Ok(Self { here, target, own_target })
    }

    fn cargo(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut cargo = metadata::cargo();
        cargo.args(args).current_dir(&self.here).env("CARGO_TARGET_DIR", &self.own_target);
        output(&mut cargo)
    }

    /// Has this crate's program go on with what the binary wrote, and the binary with what the
    /// program wrote. The binary keeps the order of members in JSON, and the program does not.
    fn exchange_logs(&self, root: &Path) -> anyhow::Result<()> {
        let mut build = metadata::cargo();
        output(build.args(["build", "-q", "-p", "haft-cli"]).current_dir(root))?;
        let place = self.target.join("outside-logs");
        if place.exists() {
            std::fs::remove_dir_all(&place).context("removing the logs of an earlier run")?;
        }
        let built = self.own_target.join("debug/outside");
        let program = |args: &[&str]| output(Command::new(&built).args(args));
        let (ours, theirs) = (place.join("ours"), place.join("theirs"));
        let (ours, theirs) = (path(&ours)?, path(&theirs)?);
        let haft = |data: &str, args: &[&str]| {
            let mut haft = Command::new(self.target.join("debug/haft"));
            haft.args(args).args(["--data", data]).stdin(Stdio::null());
            haft
        };

        let written = program(&["write", ours])?;
        let (session, call) = written.trim().split_once(' ').context("reading two ids")?;
        output(&mut haft(ours, &["audit", "verify"]))?;
        output(&mut haft(ours, &["deny", call]))?;
        output(&mut haft(ours, &["audit", "verify"]))?;
        program(&["verify", ours, session])?;

        let arguments = r#"{"command": "true", "cwd": "."}"#;
        let mut asked = haft(theirs, &["tools", "call", "shell_run", "--args", arguments]);
        // It ends with the code for "somebody is asked"; what counts is what it leaves.
        asked.output().with_context(|| format!("starting {asked:?}"))?;
        let pending = output(&mut haft(theirs, &["pending", "--json"]))?;
        let pending: Value = serde_json::from_str(&pending).context("reading what waits")?;
        let (session, call) = ids(&pending).context("a call waits")?;
        program(&["deny", theirs, session, call])?;
        let audit = output(&mut haft(theirs, &["audit", "verify"]))?;
        ensure!(audit.ends_with("whole\n"), "expected a whole journal, found: {audit}");
        Ok(())
    }
}

/// Finds the ids of the first call in what `haft pending --json` prints.
fn ids(pending: &Value) -> Option<(&str, &str)> {
    let first = pending.get("data")?.get(0)?;
    Some((first.get("session")?.as_str()?, first.get("call")?.as_str()?))
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Runs a command that must succeed, and returns what it prints.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&said).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading what {command:?} prints"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_counts_once_for_each_of_its_versions() {
        let text = "outside v0.0.0 (/here) []\n\
                    haft v0.1.0 (/there) [default,sqlite]\n\
                    serde_json v1.0.1 [default,preserve_order,std]\n\
                    syn v2.0.1 []\nsyn v3.0.1 [full]\nsyn v3.0.1 [full] (*)\n";
        let tree = Tree::parse(text);
        let expected = ["haft v0.1.0", "serde_json v1.0.1", "syn v2.0.1", "syn v3.0.1"];
        assert_eq!(tree.crates.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(tree.serde_json, ["default", FOREIGN, "std"]);
    }
}
