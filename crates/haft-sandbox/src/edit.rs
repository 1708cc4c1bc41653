//! Replacing text in a file, literally, with a preview that the change is bound to.

use crate::files::{ContentHash, Expected, FileError, Files, Parents, Written};
use crate::virtual_path::VirtualPath;
use haft_core::text_diff;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// The largest file that is edited.
pub const MAX_FILE: u64 = 16 * 1024 * 1024;
/// How long a diff may take before it is given coarser.
const DIFF_TIME: Duration = Duration::from_millis(500);
/// How long to look for what was perhaps meant.
const NEAR_TIME: Duration = Duration::from_millis(100);

/// A replacement of text by other text. Nothing in either has a meaning of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is there.
    pub old: String,
    /// What shall be there.
    pub new: String,
    /// How many places are meant.
    pub places: Places,
}

/// How many places an edit means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Exactly one; more are refused.
    One,
    /// Every one.
    All,
}

/// Why an edit was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Nothing to look for.
    #[error("the old text is empty: give the text to replace, or write the whole file")]
    EmptyOld,
    /// Nothing to change.
    #[error("the old and the new text are the same")]
    NoChange,
    /// The text is not there.
    #[error("the old text is not in the file{}", near.as_ref().map_or_else(String::new, Near::words))]
    NotFound {
        /// What was perhaps meant.
        near: Option<Near>,
    },
    /// The text is there more than once.
    #[error(
        "the old text is in the file {count} times (lines {lines:?}): give more of what is around it, or ask for all"
    )]
    Ambiguous {
        /// How often.
        count: usize,
        /// On which lines the first of them begin.
        lines: Vec<usize>,
    },
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A place that resembles what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// Its line, from 1.
    pub line: usize,
    /// What is there.
    pub text: String,
    /// How it differs.
    pub difference: Difference,
}

/// How a near match differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// By spaces, tabs or line ends only.
    Whitespace,
    /// By its text.
    Text,
}

/// An edit worked out on some content, not yet written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new content.
    pub content: Vec<u8>,
    /// How many places were replaced.
    pub replacements: usize,
}

/// What an edit would do, for someone to agree to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The change as a unified diff.
    pub diff: String,
    /// The content that it was worked out on; give it to [`Files::edit`] to change only that.
    pub base: ContentHash,
    /// The content it leads to.
    pub result: ContentHash,
    /// How many places are replaced.
    pub replacements: usize,
}

impl Files {
    /// Works out an edit without writing.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn preview_edit(&self, path: &VirtualPath, edit: &Edit) -> Result<Preview, EditError> {
        let old = self.read_all(path, MAX_FILE)?;
        let edited = edit.apply(&old)?;
        Ok(Preview {
            diff: unified_diff(&path.to_string(), &old, &edited.content),
            base: ContentHash::of(&old),
            result: ContentHash::of(&edited.content),
            replacements: edited.replacements,
        })
    }

    /// Edits a file. With `base`, only if that is still its content.
    ///
    /// # Errors
    /// When it cannot be done; then the file is as it was.
    pub fn edit(
        &self,
        path: &VirtualPath,
        edit: &Edit,
        base: Option<ContentHash>,
    ) -> Result<(Edited, Written), EditError> {
        let old = self.read_all(path, MAX_FILE)?;
        let found = ContentHash::of(&old);
        if let Some(expected) = base.filter(|base| *base != found) {
            let path = path.clone();
            return Err(FileError::Changed { path, expected, found: Some(found) }.into());
        }
        let edited = edit.apply(&old)?;
        let expected = Expected::Content(found);
        let written = self.write(path, &edited.content, expected, Parents::MustExist)?;
        Ok((edited, written))
    }
}

impl Edit {
    /// Replaces in some content.
    ///
    /// # Errors
    /// When the text is not there, or is there more often than meant.
    pub fn apply(&self, content: &[u8]) -> Result<Edited, EditError> {
        if self.old.is_empty() {
            return Err(EditError::EmptyOld);
        }
        if self.old == self.new {
            return Err(EditError::NoChange);
        }
        let ends = LineEnds::of(content);
        let mut old = Cow::Borrowed(self.old.as_bytes());
        let mut found = places(content, &old);
        if found.is_empty() && ends == LineEnds::CrLf {
            old = ends.written(&self.old);
            found = places(content, &old);
        }
        match (found.len(), self.places) {
            (0, _) => Err(EditError::NotFound { near: near(content, &self.old) }),
            (1, _) | (_, Places::All) => Ok(Edited {
                content: replaced(content, &found, old.len(), &ends.written(&self.new)),
                replacements: found.len(),
            }),
            (count, Places::One) => Err(EditError::Ambiguous {
                count,
                lines: found.iter().take(10).map(|at| line_of(content, *at)).collect(),
            }),
        }
    }
}

/// The change from one content to another as a unified diff with three lines around it.
pub fn unified_diff(name: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let deadline = Instant::now() + DIFF_TIME;
    let names = [format!("a{name}"), format!("b{name}")];
    let names = names.each_ref().map(String::as_str);
    text_diff::unified(names, &old, &new, &|| Instant::now() > deadline)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    CrLf,
    AsGiven,
}

impl LineEnds {
    /// CRLF only where every line ends so: a mixed file is left as it is.
    fn of(content: &[u8]) -> Self {
        let mut ends = memchr::memchr_iter(b'\n', content).peekable();
        let any = ends.peek().is_some();
        let all = ends.all(|at| at > 0 && content.get(at - 1) == Some(&b'\r'));
        if any && all { Self::CrLf } else { Self::AsGiven }
    }

    fn written(self, text: &str) -> Cow<'_, [u8]> {
        match self {
            Self::AsGiven => Cow::Borrowed(text.as_bytes()),
            Self::CrLf => Cow::Owned(text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()),
        }
    }
}

/// Where the text is, without overlaps.
fn places(content: &[u8], text: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(content, text).collect()
}

fn replaced(content: &[u8], places: &[usize], length: usize, new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(content.len());
    let mut from = 0;
    for at in places {
        result.extend_from_slice(content.get(from..*at).unwrap_or_default());
        result.extend_from_slice(new);
        from = at + length;
    }
    result.extend_from_slice(content.get(from..).unwrap_or_default());
    result
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', content.get(..at).unwrap_or(content)).count() + 1
}

/// The place that most resembles the text: the same but for white space, else the line most like its first.
fn near(content: &[u8], text: &str) -> Option<Near> {
    let content = String::from_utf8_lossy(content);
    let lines: Vec<&str> = content.lines().collect();
    let wanted: Vec<String> = text.lines().map(squeezed).skip_while(String::is_empty).collect();
    let first = wanted.first()?;
    let squeezed: Vec<String> = lines.iter().map(|line| squeezed(line)).collect();
    let same = squeezed.windows(wanted.len()).position(|window| window == wanted);
    let (at, difference) = match same {
        Some(at) => (at, Difference::Whitespace),
        None => (most_alike(&squeezed, first)?, Difference::Text),
    };
    let shown = lines.get(at..)?.iter().take(wanted.len().min(5));
    let text = shown.copied().collect::<Vec<_>>().join("\n").chars().take(400).collect();
    Some(Near { line: at + 1, text, difference })
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn most_alike(lines: &[String], wanted: &str) -> Option<usize> {
    let deadline = Instant::now() + NEAR_TIME;
    let is_over = || Instant::now() > deadline;
    let mut best = (0.6, None);
    for (at, line) in lines.iter().enumerate() {
        if is_over() {
            break;
        }
        if line.len() > 4 * wanted.len() + 40 || wanted.len() > 4 * line.len() + 40 {
            continue;
        }
        let likeness = text_diff::likeness(line, wanted, &is_over);
        if likeness > best.0 {
            best = (likeness, Some(at));
        }
    }
    best.1
}

impl Near {
    fn words(&self) -> String {
        let difference = match self.difference {
            Difference::Whitespace => "the same but for white space",
            Difference::Text => "resembling it",
        };
        format!("; line {} has, {difference}:\n{}", self.line, self.text)
    }
}
