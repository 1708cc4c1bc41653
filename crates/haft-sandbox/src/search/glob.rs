//! Finding files by the form of their path.

use super::walk::{Bounds, Hidden, Ignores, Walk, Walked};
use crate::files::{FileError, Files, Kind, Listed};
use crate::virtual_path::VirtualPath;
use globset::{GlobBuilder, GlobMatcher};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1024;
/// The most braces and double stars: each multiplies the work of building the matcher.
const MAX_BRANCHES: usize = 64;

/// A form of paths: `*.rs` for a name anywhere, `src/**/*.rs` for a path.
#[derive(Clone, Debug)]
pub struct Glob {
    matcher: GlobMatcher,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// Nothing to look for.
    #[error("the pattern is empty: it would match everything")]
    Empty,
    /// Longer, or with more branches, than is taken.
    #[error("the pattern is too large: at most {limit} {what} are taken")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The most that is taken.
        limit: usize,
    },
    /// `..` in it.
    #[error("a pattern cannot lead upwards with `..`: start from a directory further up")]
    Upwards,
    /// The pattern does not parse or is too costly.
    #[error("the pattern is not understood: {0}")]
    Syntax(String),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Globbed {
    /// The first of them, by path.
    pub entries: Vec<Listed>,
    /// How many there are in all, as far as the search went.
    pub total: usize,
    /// How far the search went.
    pub walked: Walked,
}

impl Glob {
    /// Reads a pattern; one without a slash is held against the last name alone.
    ///
    /// # Errors
    /// When it is none, or too costly.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        Self::read(pattern, |anchored| match anchored.contains('/') {
            true => anchored.to_owned(),
            false => format!("**/{anchored}"),
        })
    }

    /// Reads a pattern that is held against the whole path from the start of the search.
    ///
    /// # Errors
    /// When it is none, or too costly.
    pub fn parse_whole(pattern: &str) -> Result<Self, PatternError> {
        Self::read(pattern, str::to_owned)
    }

    fn read(pattern: &str, whole: impl FnOnce(&str) -> String) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        if pattern.len() > MAX_PATTERN {
            return Err(PatternError::TooLarge { what: "bytes", limit: MAX_PATTERN });
        }
        let branches = pattern.matches(['{', ',']).count() + pattern.matches("**").count();
        if branches > MAX_BRANCHES {
            return Err(PatternError::TooLarge { what: "alternatives", limit: MAX_BRANCHES });
        }
        if pattern.split('/').any(|name| name.replace(['[', ']'], "") == "..") {
            return Err(PatternError::Upwards);
        }
        let glob = GlobBuilder::new(&whole(pattern.trim_start_matches("./")))
            .literal_separator(true)
            .build()
            .map_err(|error| PatternError::Syntax(error.to_string()))?;
        Ok(Self { matcher: glob.compile_matcher() })
    }

    pub(super) fn matches(&self, relative: &std::path::Path) -> bool {
        self.matcher.is_match(relative)
    }
}

impl Files {
    /// Finds the entries below a directory whose path from there has this form.
    ///
    /// # Errors
    /// When the start is no directory, or its path leads out.
    pub fn glob(
        &self,
        path: &VirtualPath,
        glob: &Glob,
        kind: Option<Kind>,
        (hidden, ignores): (Hidden, Ignores),
        bounds: Bounds,
    ) -> Result<Globbed, FileError> {
        let (walk, rules) = Walk::open(self, path, hidden, ignores, bounds)?;
        let best = Mutex::new(Best::new(bounds.results));
        let walked = walk.run(rules, || {
            let mut mine = Hand { best: &best, found: Vec::new() };
            move |found| {
                let relative = found.relative();
                if kind.is_none_or(|kind| kind == found.kind) && glob.matches(&relative) {
                    mine.push(relative, found.kind);
                }
            }
        });
        let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (found, total) = best.finish();
        let entry = |(relative, kind): (PathBuf, Kind)| Listed {
            path: path.join(relative.as_os_str()),
            kind,
        };
        Ok(Globbed { entries: found.into_iter().map(entry).collect(), total, walked })
    }
}

/// What one thread has found and not yet handed over.
struct Hand<'a> {
    best: &'a Mutex<Best>,
    found: Vec<(PathBuf, Kind)>,
}

impl Hand<'_> {
    fn push(&mut self, relative: PathBuf, kind: Kind) {
        self.found.push((relative, kind));
        if self.found.len() >= 256 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.best.lock().unwrap_or_else(PoisonError::into_inner).take(&mut self.found);
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The first paths in order, in memory that does not grow with how many there are.
struct Best {
    limit: usize,
    found: Vec<(PathBuf, Kind)>,
    total: usize,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, found: Vec::new(), total: 0 }
    }

    fn take(&mut self, more: &mut Vec<(PathBuf, Kind)>) {
        self.total += more.len();
        self.found.append(more);
        if self.found.len() > self.limit.saturating_mul(2).max(4096) {
            self.prune();
        }
    }

    fn prune(&mut self) {
        self.found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.found.truncate(self.limit);
    }

    fn finish(mut self) -> (Vec<(PathBuf, Kind)>, usize) {
        self.prune();
        (self.found, self.total)
    }
}
