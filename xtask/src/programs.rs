//! What the tests need beside the toolchain, installed by the system's package manager where it is
//! missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::Verdict;

/// A program that Debian and Ubuntu have a package of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Program {
    Binutils,
    Bubblewrap,
    Buildah,
    Chromium,
    Curl,
    /// The keys that Debian signs its packages with, which other systems lack.
    DebianKeyring,
    Fd,
    Jq,
    Mmdebstrap,
    Npm,
    Pgbouncer,
    Postgresql,
    PythonVenv,
    Ripgrep,
    Strace,
}

/// Where Debian and Ubuntu keep the programs of each version of PostgreSQL.
const POSTGRESQL_VERSIONS: &str = "/usr/lib/postgresql";

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Binutils => "binutils",
            Self::Bubblewrap => "bubblewrap",
            Self::Buildah => "buildah",
            Self::Chromium => "chromium",
            Self::Curl => "curl",
            Self::DebianKeyring => "debian-archive-keyring",
            Self::Fd => "fd-find",
            Self::Jq => "jq",
            Self::Mmdebstrap => "mmdebstrap",
            Self::Npm => "npm",
            Self::Pgbouncer => "pgbouncer",
            Self::Postgresql => "postgresql",
            Self::PythonVenv => "python3-venv",
            Self::Ripgrep => "ripgrep",
            Self::Strace => "strace",
        }
    }

    fn is_installed(self) -> bool {
        match self {
            Self::Binutils => answers("readelf") && answers("strip"),
            Self::Bubblewrap => answers("bwrap"),
            Self::Chromium => Path::new("/usr/bin/chromium").exists(),
            Self::Buildah | Self::Curl | Self::Jq | Self::Mmdebstrap => answers(self.name()),
            Self::DebianKeyring => {
                Path::new("/usr/share/keyrings/debian-archive-keyring.gpg").exists()
            }
            Self::Fd => answers("fdfind"),
            Self::Npm => answers("node") && answers("npm"),
            Self::Pgbouncer => Path::new("/usr/sbin/pgbouncer").exists(),
            Self::Postgresql => has_server(Path::new(POSTGRESQL_VERSIONS)),
            Self::PythonVenv => has_venv(),
            Self::Ripgrep => answers("rg"),
            Self::Strace => Path::new("/usr/bin/strace").exists(),
        }
    }
}

pub(crate) fn install(program: Program) -> anyhow::Result<Verdict> {
    if program.is_installed() {
        return Ok(Verdict::Clean);
    }
    let name = program.name();
    println!("{name}: not found; installing the package");
    for args in [&["update"][..], &["install", "-y", "--no-install-recommends", name]] {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .status()
            .with_context(|| format!("starting `apt-get {}`", args.join(" ")))?;
        if !status.success() {
            return Ok(Verdict::Wanting);
        }
    }
    Ok(if program.is_installed() { Verdict::Clean } else { Verdict::Wanting })
}

/// Whether a program is there and runs, wherever it was installed from.
fn answers(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Debian's Python comes without what a virtual environment is made of.
fn has_venv() -> bool {
    let found = Command::new("python3").args(["-c", "import ensurepip"]).status();
    found.is_ok_and(|status| status.success())
}

fn has_server(versions: &Path) -> bool {
    server_in(versions).is_some()
}

/// Returns where the programs of an installed PostgreSQL server are.
pub(crate) fn postgresql() -> Option<PathBuf> {
    server_in(Path::new(POSTGRESQL_VERSIONS))
}

fn server_in(versions: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin"));
    programs.into_iter().find(|programs| programs.join("initdb").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_server_is_no_installation() {
        assert!(!has_server(Path::new("/no/such/directory")));
        assert!(!has_server(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
}
