//! The text files of the workspace, held in memory.
//!
//! Every check reads from a [`Tree`], so that a test can show it a bad workspace as a list of
//! strings. Nothing here knows what a check looks for.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

const EXTENSIONS: &[&str] =
    &["js", "lock", "md", "mjs", "py", "rs", "service", "toml", "ts", "tsv"];

/// Folders that hold what a tool has made or fetched, never what we wrote.
const FOREIGN_FOLDERS: &[&str] = &["node_modules", "target"];

/// One file; its path is relative to the workspace and has `/` between its parts.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Whether some folder on the way to the file has this name.
    pub(crate) fn is_below(&self, folder: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|part| part == folder)
    }

    /// The line, counted from 1, on which `needle` first stands, or 1 when it stands nowhere.
    pub(crate) fn line_of(&self, needle: &str) -> usize {
        self.text.find(needle).map_or(1, |offset| self.line_at(offset))
    }

    /// The line, counted from 1, that holds the byte at `offset`.
    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

/// The files of the workspace, ordered by path.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        Ok(Tree::from_files(files))
    }

    fn from_files(mut files: Vec<SourceFile>) -> Tree {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { files }
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(move |file| file.has_extension(extension))
    }

    pub(crate) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Tree::from_files(files.iter().map(file).collect())
    }
}

fn read_folder(root: &Path, below: &str, files: &mut Vec<SourceFile>) -> anyhow::Result<()> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type().with_context(|| format!("looking at {path}"))?;
        if kind.is_dir() && is_ours(&entry.path(), &name) {
            read_folder(root, &path, files)?;
        } else if kind.is_file() && is_text(&name) {
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("reading {path} as UTF-8"))?;
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

/// `CACHEDIR.TAG` marks target directories and virtual environments whatever they are called.
fn is_ours(folder: &Path, name: &str) -> bool {
    !name.starts_with('.')
        && !FOREIGN_FOLDERS.contains(&name)
        && !folder.join("CACHEDIR.TAG").exists()
}

fn is_text(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_read_without_what_tools_made() {
        let tree = Tree::read(&crate::root()).unwrap();
        assert!(tree.file("xtask/src/tree.rs").is_some());
        assert!(tree.files().all(|file| !file.is_below("target") && !file.is_below(".git")));
        assert!(tree.files().is_sorted_by(|a, b| a.path < b.path));
    }

    #[test]
    fn lines_are_counted_from_one() {
        let tree = Tree::of(&[("a.toml", "x = 1\ny = 2\n")]);
        let file = tree.file("a.toml").unwrap();
        assert_eq!((file.line_of("x"), file.line_of("y"), file.line_of("z")), (1, 2, 1));
    }
}
