//! A minimal Debian system, for the image and for the trial of the package.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::linkage::Glibc;
use super::release::{Release, Source};
use super::{cache, commands};

/// Debian's releases, the oldest first, with the glibc that each has.
const SUITES: [(&str, Glibc); 2] =
    [("bookworm", Glibc { major: 2, minor: 36 }), ("trixie", Glibc { major: 2, minor: 41 })];

/// What agents use in a shell, beside Debian's essential packages such as bash and coreutils.
const PACKAGES: &str = "adduser,ca-certificates,git";

/// Returns an archive of the system's files. A release is made with a new one, so that it has
/// Debian's latest security updates; a trial takes the one that is in the user's cache.
pub(super) fn archive(release: &Release) -> anyhow::Result<PathBuf> {
    let suite = suite(release.linkage.glibc)?;
    let directory = cache().join("dist");
    let archive = directory.join(format!("{suite}-{}.tar", PACKAGES.replace(',', "-")));
    if archive.exists() && release.source == Source::Given {
        return Ok(archive);
    }
    println!("dist: making a Debian system ({suite})");
    fs::create_dir_all(&directory).context("making a directory in the user's cache")?;
    // Whoever is interrupted leaves no archive that is cut short.
    let made = directory.join(format!("{suite}-{}.part.tar", std::process::id()));
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--quiet", "--variant=minbase"]).arg(format!("--include={PACKAGES}"));
    mmdebstrap.arg(suite).arg(&made).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    commands::run(&mut mmdebstrap)?;
    fs::rename(&made, &archive).context("keeping the Debian system in the user's cache")?;
    Ok(archive)
}

/// The oldest release of Debian that runs the binary.
fn suite(needed: Glibc) -> anyhow::Result<&'static str> {
    let fitting = SUITES.iter().find(|(_, glibc)| *glibc >= needed);
    let (suite, _) = fitting.with_context(|| {
        format!("no release of Debian has glibc {needed}, which the binary needs")
    })?;
    Ok(suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_system_that_runs_the_binary_is_taken() {
        let needs = |minor| suite(Glibc { major: 2, minor });
        assert_eq!(needs(17).unwrap(), "bookworm");
        assert_eq!(needs(36).unwrap(), "bookworm");
        assert_eq!(needs(39).unwrap(), "trixie");
        assert!(needs(99).is_err());
    }
}
