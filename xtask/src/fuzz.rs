//! `cargo xtask fuzz`: libFuzzer with coverage over what reads other people's bytes, on the pinned
//! toolchain.
//!
//! The coverage comes from a pass of LLVM that stable compilers have, so that no nightly is needed.
//! What a run finds is kept: an input that reaches something new in `tests/fuzz/corpus`, one that
//! breaks something in `tests/fuzz/found`, with the command that runs it again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::{Verdict, metadata};

/// Where the crate is.
const CRATE: &str = "tests/fuzz";

/// What is fuzzed; multipart forms are fuzzed over HTTP, by a test of `haft-server`.
const TARGETS: [&str; 6] = ["json", "legible", "mcp_frame", "path", "policy", "sse"];

/// How long each target runs in `cargo xtask test`.
pub(crate) const BRIEF: u32 = 10;

/// Counters at every edge, the values of comparisons, and where each of them is.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions=on --cfg fuzzing";

/// Runs every target for some seconds. What is new in the corpus is kept only by a long run.
pub(crate) fn run(root: &Path, seconds: u32) -> anyhow::Result<Verdict> {
    let here = root.join(CRATE);
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from).join("fuzz");
    std::fs::create_dir_all(here.join("found")).context("making tests/fuzz/found")?;
    let mut build = metadata::cargo();
    let host = host()?;
    // With a target, build scripts and macros go without the counters.
    build.args(["build", "-q", "--target", &host]).current_dir(&here);
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", COVERAGE);
    ensure!(build.status().context("starting cargo")?.success(), "the targets do not compile");
    let mut verdict = Verdict::Clean;
    for name in TARGETS {
        let binary = target.join(&host).join("debug").join(name);
        let corpus = here.join("corpus").join(name);
        let fresh = target.join("corpus").join(name);
        std::fs::create_dir_all(&fresh).context("making a corpus")?;
        let mut fuzz = Command::new(&binary);
        let found = format!("{}/{name}-", here.join("found").display());
        // A long run is for the corpus that is kept; a short one writes elsewhere.
        match seconds > BRIEF {
            true => fuzz.arg(&corpus),
            false => fuzz.args([&fresh, &corpus]),
        };
        fuzz.args([format!("-max_total_time={seconds}"), format!("-artifact_prefix={found}")]);
        fuzz.args(["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-verbosity=0"]);
        println!("{name}: {seconds} s");
        if !fuzz.status().with_context(|| format!("starting {}", binary.display()))?.success() {
            println!("{name} broke; run it again with `{} FILE`", binary.display());
            verdict = Verdict::Wanting;
        }
    }
    Ok(verdict)
}

fn host() -> anyhow::Result<String> {
    let said = Command::new("rustc").arg("-vV").output().context("starting rustc")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say its host")
}
