//! The README's transcripts are what the commands print.
//!
//! A block below `<!-- output of: COMMAND -->` must equal what the command prints. Only cargo
//! commands, so that nothing has to be installed to check them.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::{Verdict, metadata};

const README: &str = "README.md";

pub(crate) fn run(root: &Path) -> anyhow::Result<Verdict> {
    let readme = std::fs::read_to_string(root.join(README)).context("reading the README")?;
    let mut verdict = Verdict::Clean;
    for transcript in transcripts(&readme)? {
        let printed = output(root, transcript.command)?;
        if printed.trim_end() != transcript.shown.trim_end() {
            println!("{README}: `{}` prints something else:\n{printed}", transcript.command);
            verdict = Verdict::Wanting;
        }
    }
    Ok(verdict)
}

/// Writes the page that the binary prints about its commands.
pub(crate) fn write_cli_reference(root: &Path) -> anyhow::Result<Verdict> {
    let page = output(root, "cargo run -q -p haft-cli -- reference")?;
    let directory = root.join("docs/reference");
    std::fs::create_dir_all(&directory).context("making docs/reference")?;
    std::fs::write(directory.join("cli.md"), page).context("writing docs/reference/cli.md")?;
    Ok(Verdict::Clean)
}

#[derive(Debug, PartialEq)]
struct Transcript<'a> {
    command: &'a str,
    shown: String,
}

fn transcripts(readme: &str) -> anyhow::Result<Vec<Transcript<'_>>> {
    let lines: Vec<&str> = readme.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let comment = line.trim().strip_prefix("<!-- output of:");
        let Some(command) = comment.and_then(|rest| rest.strip_suffix("-->")) else { continue };
        let Some(shown) = block(&lines[at + 1..]) else {
            bail!("{README}:{}: no block of text below the comment", at + 1);
        };
        found.push(Transcript { command: command.trim(), shown });
    }
    Ok(found)
}

fn block(below: &[&str]) -> Option<String> {
    let (fence, text) = below.split_first()?;
    fence.starts_with("```").then_some(())?;
    let end = text.iter().position(|line| line.starts_with("```"))?;
    Some(text[..end].join("\n"))
}

fn output(root: &Path, command: &str) -> anyhow::Result<String> {
    let Some(args) = command.strip_prefix("cargo ") else {
        bail!("expected a cargo command, found `{command}`");
    };
    let output = metadata::cargo()
        .args(args.split_whitespace())
        .current_dir(root)
        .output()
        .with_context(|| format!("running `{command}`"))?;
    if !output.status.success() {
        bail!("`{command}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).context("reading what the command printed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_the_block_below_its_command() {
        let readme = "x\n<!-- output of: cargo run -q -->\n```text\na\nb\n```\n";
        let expected = Transcript { command: "cargo run -q", shown: "a\nb".to_owned() };
        assert_eq!(transcripts(readme).unwrap(), [expected]);
    }

    #[test]
    fn a_command_without_its_block_is_an_error() {
        let error = transcripts("<!-- output of: cargo run -->\ntext").unwrap_err();
        assert_eq!(error.to_string(), "README.md:1: no block of text below the comment");
    }
}
