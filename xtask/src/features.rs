//! The crate `haft` with the features that its users choose, and the core without those of
//! serde_json that the binary switches on.

use std::path::Path;

use anyhow::Context as _;

use crate::{Verdict, metadata};

/// The features of `haft` that are checked, each set without the default one. All of them at once
/// is what the binary has, and what the other steps check.
const SETS: &[&str] = &["", "sqlite", "postgres", "tls", "postgres,sqlite", "policy-file,sqlite"];

/// What hashes and stores JSON must not depend on `preserve_order` and `float_roundtrip`. A run of
/// the whole workspace has both, a run of this crate has neither.
const WITHOUT: &[&str] = &["test", "-q", "-p", "haft-core", "--lib", "--tests"];

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    for set in SETS {
        println!("haft with {}", if set.is_empty() { "no feature" } else { set });
        let args = ["clippy", "-q", "-p", "haft", "--no-default-features", "--features", set];
        if !succeeds(root, &[&args[..], &["--", "-D", "warnings"]].concat())? {
            return Ok(Verdict::Wanting);
        }
    }
    println!("the core without serde_json's `preserve_order` and `float_roundtrip`");
    Ok(if succeeds(root, WITHOUT)? { Verdict::Clean } else { Verdict::Wanting })
}

fn succeeds(root: &Path, args: &[&str]) -> anyhow::Result<bool> {
    let status = metadata::cargo().args(args).current_dir(root).status();
    Ok(status.with_context(|| format!("starting `cargo {}`", args.join(" ")))?.success())
}
