//! `SHA256SUMS`: what `sha256sum --check` compares the artifacts with.

use std::fs;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::Artifact;
use super::commands::{self, Mode};
use super::release::Release;

pub(super) fn write(release: &Release, artifacts: &[Artifact]) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for file in artifacts.iter().flat_map(|artifact| &artifact.files) {
        let content = fs::read(file).with_context(|| format!("reading `{}`", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        lines.push((name.clone().into_owned(), line(&content, &name)));
    }
    lines.sort();
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    commands::put(&release.out.join("SHA256SUMS"), text, Mode::Data)
}

fn line(content: &[u8], name: &str) -> String {
    format!("{}  {name}\n", hex(&Sha256::digest(content)))
}

/// Bytes as two lower-case digits each.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_what_sha256sum_prints() {
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(line(b"abc", "a.deb"), format!("{digest}  a.deb\n"));
    }
}
