//! What all artifacts are made from: one binary, the version, and the pages that the binary writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use super::commands::{self, Mode};
use super::linkage::Linkage;
use super::{Order, build};
use crate::metadata;

/// The first time that a zip archive can hold, for a source without a commit.
const EPOCH_MIN: u64 = 315_532_800;

#[derive(Debug)]
pub(super) struct Release {
    pub(super) root: PathBuf,
    pub(super) version: String,
    /// The time that every file in an artifact has, in seconds since 1970.
    pub(super) epoch: u64,
    /// A copy of the binary, without symbols for debuggers.
    pub(super) binary: PathBuf,
    pub(super) linkage: Linkage,
    /// Where the artifacts go.
    pub(super) out: PathBuf,
    /// Where the trees are that artifacts are packed from.
    pub(super) work: PathBuf,
    pub(super) source: Source,
}

/// Where the binary came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// It was built for this release.
    Built,
    /// It was given, such as the binary that the tests have built.
    Given,
}

/// A page or script that the binary writes about itself.
#[derive(Debug)]
pub(super) struct Extra {
    pub(super) file: PathBuf,
    pub(super) kind: ExtraKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ExtraKind {
    ManPage,
    Bash,
    Fish,
    Zsh,
}

impl Release {
    pub(super) fn prepare(root: &Path, order: &Order) -> anyhow::Result<Release> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let out = std::path::absolute(order.out.clone().unwrap_or_else(|| target.join("dist")))?;
        let (given, source) = match &order.binary {
            Some(binary) => (binary.clone(), Source::Given),
            None => (build::release(root, &target)?, Source::Built),
        };
        require_ours(&out)?;
        commands::emptied(&out)?;
        let work = out.join("work");
        let binary = work.join("haft");
        commands::copy(&given, &binary, Mode::Program)?;
        commands::run(Command::new("strip").arg("--strip-debug").arg(&binary))?;
        let version = workspace_version(root)?;
        require_version(&binary, &version)?;
        let linkage = Linkage::of(&binary)?;
        let (root, epoch) = (root.to_path_buf(), epoch(root)?);
        let release = Release { root, version, epoch, binary, linkage, out, work, source };
        release.write_extras()?;
        Ok(release)
    }

    fn extras_directory(&self) -> PathBuf {
        self.work.join("extras")
    }

    fn write_extras(&self) -> anyhow::Result<()> {
        let directory = self.extras_directory();
        commands::run(Command::new(&self.binary).arg("man").arg(directory.join("man")))?;
        for (shell, name) in [("bash", "haft.bash"), ("zsh", "_haft"), ("fish", "haft.fish")] {
            let script = commands::output(Command::new(&self.binary).args(["completions", shell]))?;
            commands::put(&directory.join(name), script, Mode::Data)?;
        }
        Ok(())
    }

    /// The man pages and completions, in the order of their names.
    pub(super) fn extras(&self) -> anyhow::Result<Vec<Extra>> {
        let directory = self.extras_directory();
        let extra = |name: &str, kind| Extra { file: directory.join(name), kind };
        let mut extras = vec![
            extra("haft.bash", ExtraKind::Bash),
            extra("haft.fish", ExtraKind::Fish),
            extra("_haft", ExtraKind::Zsh),
        ];
        for entry in fs::read_dir(directory.join("man")).context("listing the man pages")? {
            extras.push(Extra { file: entry?.path(), kind: ExtraKind::ManPage });
        }
        extras.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(extras)
    }

    /// A file of the repository.
    pub(super) fn text(&self, path: &str) -> anyhow::Result<String> {
        let file = self.root.join(path);
        fs::read_to_string(&file).with_context(|| format!("reading `{}`", file.display()))
    }
}

impl ExtraKind {
    /// The directory below `share` in which the shell, or `man`, looks.
    pub(super) const fn below_share(self, zsh: &'static str) -> &'static str {
        match self {
            Self::ManPage => "man/man1",
            Self::Bash => "bash-completion/completions",
            Self::Fish => "fish/vendor_completions.d",
            Self::Zsh => zsh,
        }
    }

    /// The name under which the shell looks for it.
    pub(super) fn name(self, file: &Path) -> String {
        match self {
            Self::Bash => "haft".to_owned(),
            _ => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// Keeps `--out` from deleting what something else has made.
fn require_ours(out: &Path) -> anyhow::Result<()> {
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    if is_empty || ["SHA256SUMS", "work"].iter().any(|name| out.join(name).exists()) {
        return Ok(());
    }
    bail!("`{}` holds other files; name an empty directory with --out", out.display())
}

fn workspace_version(root: &Path) -> anyhow::Result<String> {
    let members = metadata::members(root)?;
    let versions = members.iter().map(|member| (member.name.as_str(), member.version.as_str()));
    agreed(versions).map(str::to_owned)
}

/// The version that all have.
fn agreed<'a>(versions: impl Iterator<Item = (&'a str, &'a str)>) -> anyhow::Result<&'a str> {
    let mut first: Option<(&str, &str)> = None;
    for (name, version) in versions {
        match first {
            None => first = Some((name, version)),
            Some((other, expected)) if expected != version => {
                bail!("`{name}` has version {version}, but `{other}` has {expected}")
            }
            Some(_) => {}
        }
    }
    Ok(first.context("the workspace has no members")?.1)
}

fn require_version(binary: &Path, version: &str) -> anyhow::Result<()> {
    let said = commands::output(Command::new(binary).arg("--version"))?;
    if said.trim() != format!("haft {version}") {
        bail!(
            "`{}` says it is `{}`, but the workspace has version {version}; build it again",
            binary.display(),
            said.trim()
        );
    }
    Ok(())
}

fn epoch(root: &Path) -> anyhow::Result<u64> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return given.parse().with_context(|| format!("SOURCE_DATE_EPOCH is `{given}`"));
    }
    let mut commit = Command::new("git");
    commit.args(["log", "-1", "--format=%ct"]).current_dir(root);
    let time = commands::output(&mut commit).ok().and_then(|said| said.trim().parse().ok());
    Ok(time.unwrap_or(EPOCH_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_two_versions_are_not_released_together() {
        let same = [("haft", "0.1.0"), ("haft-core", "0.1.0")];
        assert_eq!(agreed(same.into_iter()).unwrap(), "0.1.0");
        let error = agreed([("haft", "0.1.0"), ("haft-core", "0.2.0")].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "`haft-core` has version 0.2.0, but `haft` has 0.1.0");
        assert!(agreed([].into_iter()).is_err());
    }

    #[test]
    fn the_crates_of_the_workspace_agree_with_one_another_and_with_their_requirements() {
        let root = crate::root();
        let version = workspace_version(&root).unwrap();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let required = manifest.lines().filter(|line| line.contains("{ path = \"crates/haft-"));
        for line in required {
            assert!(line.contains(&format!("version = \"{version}\"")), "{line}");
        }
    }
}
