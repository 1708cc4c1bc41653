//! Finding lines by their content, with ripgrep's own engine.

use super::glob::Glob;
use super::walk::{Bounds, Found, Hidden, Ignores, Walk, Walked};
use crate::files::{FileError, Files, Kind};
use crate::virtual_path::VirtualPath;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;
/// What a compiled pattern may take; the engine's own default takes half a second to refuse.
const MAX_COMPILED: usize = 1 << 20;
/// A file with a longer line than this is searched up to it.
const MAX_LINE: usize = 4 << 20;
/// How much of a line is given.
const MAX_SHOWN: usize = 1000;
/// The most lines given around a match.
const MAX_CONTEXT: usize = 20;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Grep {
    matcher: RegexMatcher,
    /// Lines given before and after each match.
    context: usize,
    /// Only in files whose path has this form.
    only: Option<Glob>,
}

/// A pattern as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// Text that stands for itself.
    Text(&'a str),
    /// A regular expression; its time is linear in the text.
    Regex(&'a str),
}

/// Why a search could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrepError {
    /// The pattern would match everything.
    #[error("the pattern is empty: it would match every line")]
    Empty,
    /// The pattern is longer than is taken.
    #[error("the pattern has {found} bytes, at most {MAX_PATTERN} are taken")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// The pattern does not parse, or is too costly. Look-around and back-references do not exist here.
    #[error(
        "the pattern is not understood (look-around and back-references do not exist here): {0}"
    )]
    Syntax(String),
    /// The place could not be searched.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grepped {
    /// The files with the first matches, by path.
    pub files: Vec<HitFile>,
    /// How many lines match in all, as far as the search went.
    pub total: usize,
    /// How far the search went.
    pub walked: Walked,
}

/// Matches in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitFile {
    /// The file.
    pub path: VirtualPath,
    /// The lines, in order.
    pub hits: Vec<Hit>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its number, from 1.
    pub line: u64,
    /// Where in it the first match begins, in bytes; `None` for a line that is only around one.
    pub column: Option<usize>,
    /// What is in it, without its end; long lines are cut.
    pub text: String,
}

impl Grep {
    /// Prepares a search.
    ///
    /// # Errors
    /// When the pattern is none, or too costly.
    pub fn new(query: Query<'_>, case: Case) -> Result<Self, GrepError> {
        let (Query::Text(pattern) | Query::Regex(pattern)) = query;
        if pattern.is_empty() {
            return Err(GrepError::Empty);
        }
        if pattern.len() > MAX_PATTERN {
            return Err(GrepError::TooLong { found: pattern.len() });
        }
        let matcher = RegexMatcherBuilder::new()
            .fixed_strings(matches!(query, Query::Text(_)))
            .case_insensitive(case == Case::Insensitive)
            .size_limit(MAX_COMPILED)
            .nest_limit(50)
            .line_terminator(Some(b'\n'))
            .build(pattern)
            .map_err(|error| GrepError::Syntax(error.to_string()))?;
        Ok(Self { matcher, context: 0, only: None })
    }

    /// With so many lines around each match.
    #[must_use]
    pub fn context(mut self, lines: usize) -> Self {
        self.context = lines.min(MAX_CONTEXT);
        self
    }

    /// Only in files whose path from the start has this form.
    #[must_use]
    pub fn only(mut self, glob: Glob) -> Self {
        self.only = Some(glob);
        self
    }

    fn searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_LINE))
            .line_number(true)
            .build()
    }
}

/// Whether letters match their other case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// They do.
    Insensitive,
    /// They do not.
    Sensitive,
}

impl Files {
    /// Finds the lines that match in a file, or in the files below a directory.
    ///
    /// # Errors
    /// When the path leads out or is not there.
    pub fn grep(
        &self,
        path: &VirtualPath,
        grep: &Grep,
        (hidden, ignores): (Hidden, Ignores),
        bounds: Bounds,
    ) -> Result<Grepped, GrepError> {
        let opened = Walk::open(self, path, hidden, ignores, bounds);
        let (walk, rules) = match opened {
            Err(FileError::Kind { .. }) => return Ok(self.grep_file(path, grep, bounds)?),
            opened => opened?,
        };
        let all =
            Mutex::new(Collected { limit: bounds.results, files: Vec::new(), kept: 0, total: 0 });
        let walked = walk.run(rules, || {
            let mut searcher = grep.searcher();
            let all = &all;
            move |found| search_found(grep, &mut searcher, found, all)
        });
        let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(all.finish(walked))
    }

    fn grep_file(
        &self,
        path: &VirtualPath,
        grep: &Grep,
        bounds: Bounds,
    ) -> Result<Grepped, FileError> {
        let (file, _) = self.open_regular(path)?;
        let deadline = std::time::Instant::now() + bounds.time;
        let over = || std::time::Instant::now() > deadline;
        let (hits, total, cut) = search(grep, &mut grep.searcher(), &file, bounds.results, &over);
        let mut all = Collected { limit: bounds.results, files: Vec::new(), kept: 0, total: 0 };
        all.add(total, || HitFile { path: path.clone(), hits });
        Ok(all.finish(Walked { entries: 1, complete: !cut }))
    }
}

fn search_found(grep: &Grep, searcher: &mut Searcher, found: &Found<'_>, all: &Mutex<Collected>) {
    let wanted = grep.only.as_ref().is_none_or(|only| only.matches(&found.relative()));
    if found.kind != Kind::File || !wanted || found.walk.over() {
        return;
    }
    let Some(file) = found.open().map(File::from) else { return };
    let limit = all.lock().unwrap_or_else(PoisonError::into_inner).limit;
    let (hits, total, _) = search(grep, searcher, &file, limit, &|| found.walk.over());
    if total > 0 {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(total, || HitFile { path: found.path(), hits });
    }
}

/// The first matches in a file, how many there are, and whether the search was cut short.
fn search(
    grep: &Grep,
    searcher: &mut Searcher,
    file: &File,
    limit: usize,
    over: &dyn Fn() -> bool,
) -> (Vec<Hit>, usize, bool) {
    let mut lines = Lines { grep, limit, hits: Vec::new(), total: 0 };
    let mut reader = Bounded { file, over, reads: 0, cut: false };
    // A line longer than the engine holds, or a read error, ends this file; what was found stands.
    let ended = searcher.search_reader(&grep.matcher, &mut reader, &mut lines);
    let cut = reader.cut || ended.is_err();
    (lines.hits, lines.total, cut)
}

/// A file that ends early when the time is up.
struct Bounded<'a> {
    file: &'a File,
    over: &'a dyn Fn() -> bool,
    reads: u32,
    cut: bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(16) && (self.over)() {
            self.cut = true;
            return Ok(0);
        }
        self.file.read(buffer)
    }
}

struct Lines<'a> {
    grep: &'a Grep,
    limit: usize,
    hits: Vec<Hit>,
    total: usize,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.total += 1;
        if self.total <= self.limit {
            let first = self.grep.matcher.find(found.bytes()).ok().flatten();
            let column = first.map_or(0, |first| first.start());
            self.push(found.line_number(), Some(column), found.bytes());
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        let wanted = match found.kind() {
            SinkContextKind::Before => self.total < self.limit,
            _ => self.total <= self.limit,
        };
        if wanted {
            self.push(found.line_number(), None, found.bytes());
        }
        Ok(true)
    }
}

impl Lines<'_> {
    fn push(&mut self, line: Option<u64>, column: Option<usize>, bytes: &[u8]) {
        let ends: &[u8] = b"\r\n";
        let end = bytes.iter().rposition(|byte| !ends.contains(byte)).map_or(0, |last| last + 1);
        let shown = bytes.get(..end.min(MAX_SHOWN)).unwrap_or_default();
        let text = String::from_utf8_lossy(shown).into_owned();
        self.hits.push(Hit { line: line.unwrap_or(0), column, text });
    }
}

/// The first matches by path, in memory that does not grow with how many there are.
struct Collected {
    limit: usize,
    files: Vec<HitFile>,
    kept: usize,
    total: usize,
}

impl Collected {
    fn add(&mut self, total: usize, file: impl FnOnce() -> HitFile) {
        self.total += total;
        let file = file();
        self.kept += file.hits.len();
        self.files.push(file);
        if self.kept > self.limit.saturating_mul(2).max(4096) {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut left = self.limit;
        self.kept = 0;
        self.files.retain_mut(|file| {
            let matches = file.hits.iter().filter(|hit| hit.column.is_some()).count();
            if matches > left {
                let mut seen = 0;
                file.hits.retain(|hit| {
                    seen += usize::from(hit.column.is_some());
                    seen <= left
                });
            }
            let some = left > 0;
            left = left.saturating_sub(matches);
            self.kept += if some { file.hits.len() } else { 0 };
            some
        });
    }

    fn finish(mut self, walked: Walked) -> Grepped {
        self.prune();
        self.files.retain(|file| !file.hits.is_empty());
        Grepped { files: self.files, total: self.total, walked }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { results: 1000, entries: 1_000_000, time: Duration::from_secs(10) }
    }
}
