//! Commands that must succeed, and trees of files to pack.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Runs a command; whatever it prints is shown only if it fails.
pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    output(command).map(drop)
}

/// Runs a command and returns what it printed.
pub(super) fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("starting {command:?}"))?;
    if !done.status.success() {
        let (printed, said) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        bail!("{command:?} failed with {}:\n{printed}{said}", done.status);
    }
    String::from_utf8(done.stdout).with_context(|| format!("reading the output of {command:?}"))
}

/// Makes an empty directory, whatever was there before.
pub(super) fn emptied(directory: &Path) -> anyhow::Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("emptying `{}`", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("making `{}`", directory.display()))
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Data = 0o644,
    Program = 0o755,
}

/// Writes a file and the directories above it.
pub(super) fn put(file: &Path, content: impl AsRef<[u8]>, mode: Mode) -> anyhow::Result<()> {
    let above = file.parent().context("a file without a directory")?;
    fs::create_dir_all(above).with_context(|| format!("making `{}`", above.display()))?;
    fs::write(file, content).with_context(|| format!("writing `{}`", file.display()))?;
    fs::set_permissions(file, fs::Permissions::from_mode(mode as u32))
        .with_context(|| format!("setting the mode of `{}`", file.display()))
}

/// Copies a file, making the directories above the copy.
pub(super) fn copy(from: &Path, to: &Path, mode: Mode) -> anyhow::Result<()> {
    let content = fs::read(from).with_context(|| format!("reading `{}`", from.display()))?;
    put(to, content, mode)
}

/// Packs members of a directory, to be named after this, so that the same files give the same
/// bytes.
pub(super) fn tar(epoch: u64, directory: &Path, out: &Path) -> Command {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("-cf").arg(out).arg("-C").arg(directory);
    tar
}
