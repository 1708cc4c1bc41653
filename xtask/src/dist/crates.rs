//! Whether the crates can be published: packaged by cargo in order, and whole without the
//! repository around them.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::release::Release;
use crate::metadata;
use crate::tree::{SourceFile, Tree};

/// Crates that stay in the repository.
const PRIVATE: [&str; 1] = ["xtask"];

pub(super) fn check(release: &Release) -> anyhow::Result<()> {
    let tree = Tree::read(&release.root)?;
    let escapes: Vec<String> = tree.with_extension("rs").flat_map(escapes).collect();
    if !escapes.is_empty() {
        bail!(
            "published crates lack files from outside their directory; link to these from inside, \
             as crates/haft-cli/errors does:\n{}",
            escapes.join("\n")
        );
    }
    let order = publishing_order(&release.root)?;
    let members = metadata::members(&release.root)?;
    let missing = members
        .iter()
        .map(|member| member.name.as_str())
        .find(|name| !PRIVATE.contains(name) && !order.iter().any(|published| published == name));
    if let Some(name) = missing {
        bail!("`{name}` would not be published; is `publish` false in its manifest?");
    }
    println!("dist: crates in the order of publishing: {}", order.join(", "));
    Ok(())
}

/// Has cargo do everything but compile and upload, and returns the crates in cargo's order.
fn publishing_order(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut publish = metadata::cargo();
    publish.args(["publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty"]);
    let done = publish.env("CARGO_TERM_COLOR", "never").current_dir(root).output();
    let done = done.context("starting `cargo publish`")?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("`cargo publish --dry-run` failed:\n{said}");
    }
    let uploads = said.lines().filter_map(|line| line.trim().strip_prefix("Uploading "));
    Ok(uploads.filter_map(|upload| upload.split(' ').next()).map(str::to_owned).collect())
}

/// The files that a crate's shipped source includes from outside the crate's directory.
fn escapes(file: &SourceFile) -> Vec<String> {
    let Some((_, below)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/'))
    else {
        return Vec::new();
    };
    if !below.starts_with("src/") {
        return Vec::new();
    }
    let depth = below.matches('/').count();
    // Tests are run where the repository is.
    let shipped = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let macros = ["include_str!(", "include_bytes!("];
    let includes = macros.iter().flat_map(|name| shipped.split(*name).skip(1));
    let paths = includes.filter_map(|rest| rest.split('"').nth(1));
    paths
        .filter(|path| path.matches("../").count() > depth)
        .map(|path| format!("{}: {path}", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_escapes(path: &str, text: &str, expected: &[&str]) {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(escapes(&file), expected);
    }

    #[test]
    fn a_file_from_outside_the_crate_is_found() {
        let text = "include_str!(concat!(\"../../../docs/\", $code))";
        let found = ["crates/a/src/b.rs: ../../../docs/"];
        assert_escapes("crates/a/src/b.rs", text, &found);
        assert_escapes("crates/a/src/b.rs", "include_str!(\"../data/x.json\")", &[]);
        assert_escapes("crates/a/src/b/c.rs", "include_bytes!(\"../../data/x.json\")", &[]);
        assert_escapes("crates/a/src/b.rs", &format!("#[cfg(test)]\n{text}"), &[]);
        assert_escapes("crates/a/tests/b.rs", text, &[]);
        assert_escapes("xtask/src/a.rs", text, &[]);
    }
}
