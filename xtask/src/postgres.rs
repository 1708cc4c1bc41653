//! PostgreSQL for the tests, installed by the system's package manager where it is missing.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::Verdict;

/// Where Debian and Ubuntu keep the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

pub(crate) fn install() -> anyhow::Result<Verdict> {
    if is_installed(Path::new(VERSIONS)) {
        return Ok(Verdict::Clean);
    }
    println!("postgresql: not found in {VERSIONS}; installing the package");
    for args in [&["update"][..], &["install", "-y", "--no-install-recommends", "postgresql"]] {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .with_context(|| format!("starting `apt-get {}`", args.join(" ")))?;
        if !status.success() {
            return Ok(Verdict::Wanting);
        }
    }
    Ok(if is_installed(Path::new(VERSIONS)) { Verdict::Clean } else { Verdict::Wanting })
}

fn is_installed(versions: &Path) -> bool {
    let versions = std::fs::read_dir(versions).into_iter().flatten().flatten();
    versions.into_iter().any(|version| version.path().join("bin/initdb").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_server_is_no_installation() {
        assert!(!is_installed(Path::new("/no/such/directory")));
        assert!(!is_installed(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
}
