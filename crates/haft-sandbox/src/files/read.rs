//! Reading part of a file, in bounded memory whatever its size.

use super::{ContentHash, Context as _, Entry, FileError, Files};
use crate::virtual_path::VirtualPath;
use rustix::fs::{FileType, OFlags};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

/// A file larger than this is not read through to count its lines and hash it.
pub const SCAN_LIMIT: u64 = 64 * 1024 * 1024;
/// The most lines a tail reaches back.
const MAX_TAIL: usize = 100_000;

/// Which part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From its beginning.
    Whole,
    /// Some lines, the first of which has the number 1.
    Lines {
        /// The first line wanted.
        first: u64,
        /// How many lines.
        count: u64,
    },
    /// The last lines.
    Tail {
        /// How many.
        count: u64,
    },
    /// Some bytes.
    Bytes {
        /// How many to skip.
        offset: u64,
        /// How many to take.
        count: u64,
    },
}

/// Part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The bytes of the window, as many as were allowed. Cut between characters where it is text.
    pub bytes: Vec<u8>,
    /// Whether the window holds more than `bytes`.
    pub cut: bool,
    /// Whether it holds NUL, so that it is hardly text.
    pub binary: bool,
    /// The size of the whole file.
    pub size: u64,
    /// What reading all of it told; `None` when it is larger than [`SCAN_LIMIT`].
    pub whole: Option<Whole>,
}

/// What is known of a file that was read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// How many line ends it has, as `wc -l` counts.
    pub lines: u64,
    /// The hash of its content.
    pub hash: ContentHash,
}

impl Files {
    /// Reads a window of a regular file, at most `limit` bytes of it.
    ///
    /// # Errors
    /// When it is no regular file, or the path leads out.
    pub fn read(
        &self,
        path: &VirtualPath,
        window: Window,
        limit: usize,
    ) -> Result<Reading, FileError> {
        let (file, size) = self.open_regular(path)?;
        let mut scan = Scan::new(window);
        if size <= SCAN_LIMIT || matches!(window, Window::Lines { .. }) {
            scan.run(&file).at(path)?;
        }
        let (start, end) = scan.span(size);
        let wanted = end.saturating_sub(start);
        let count = usize::try_from(wanted).unwrap_or(usize::MAX).min(limit);
        let mut bytes = read_span(&file, start, count).at(path)?;
        let cut = wanted > bytes.len() as u64 && count == limit;
        if cut {
            trim_to_char(&mut bytes);
        }
        let binary = memchr::memchr(0, &bytes).is_some();
        Ok(Reading { bytes, cut, binary, size, whole: scan.whole() })
    }

    /// Reads a whole regular file that has at most `limit` bytes.
    ///
    /// # Errors
    /// When it is larger, is no regular file, or the path leads out.
    pub fn read_all(&self, path: &VirtualPath, limit: u64) -> Result<Vec<u8>, FileError> {
        let (file, size) = self.open_regular(path)?;
        let too_large = |size| FileError::TooLarge { path: path.clone(), size, limit };
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes).at(path)?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }

    pub(crate) fn open_regular(&self, path: &VirtualPath) -> Result<(File, u64), FileError> {
        let wrong_kind = || FileError::Kind { path: path.clone(), expected: Entry::File };
        if path.means_a_directory() {
            return Err(wrong_kind());
        }
        let located = self.locate(path)?;
        let file = self.open_beneath(&located, OFlags::RDONLY, path)?;
        let stat = rustix::fs::fstat(&file).at(path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong_kind());
        }
        Ok((File::from(file), u64::try_from(stat.st_size).unwrap_or(0)))
    }
}

/// One pass over a file that finds where the window lies, counts line ends and hashes.
struct Scan {
    window: Window,
    hasher: Sha256,
    lines: u64,
    read: u64,
    /// Whether the pass reached the end of the file.
    complete: bool,
    start: Option<u64>,
    end: Option<u64>,
    /// Where the last lines begin, oldest first.
    tail: VecDeque<u64>,
}

impl Scan {
    fn new(window: Window) -> Self {
        let start = match window {
            Window::Lines { first, .. } if first > 1 => None,
            Window::Whole | Window::Lines { .. } | Window::Tail { .. } => Some(0),
            Window::Bytes { offset, .. } => Some(offset),
        };
        Self {
            window,
            hasher: Sha256::new(),
            lines: 0,
            read: 0,
            complete: false,
            start,
            end: None,
            tail: VecDeque::from([0]),
        }
    }

    fn run(&mut self, mut file: &File) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while self.read <= SCAN_LIMIT {
            let count = file.read(&mut buffer)?;
            let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else {
                self.complete = true;
                return Ok(());
            };
            self.hasher.update(chunk);
            for at in memchr::memchr_iter(b'\n', chunk) {
                self.line_ends(self.read + at as u64 + 1);
            }
            self.read += count as u64;
        }
        Ok(())
    }

    fn line_ends(&mut self, next: u64) {
        self.lines += 1;
        match self.window {
            Window::Lines { first, count } => {
                if self.lines + 1 == first {
                    self.start = Some(next);
                }
                if self.lines + 1 == first.max(1).saturating_add(count) {
                    self.end = Some(next);
                }
            }
            Window::Tail { count } => {
                self.tail.push_back(next);
                // One more than asked for: a file that ends in a newline has no line after it.
                let keep = usize::try_from(count).unwrap_or(MAX_TAIL).min(MAX_TAIL) + 1;
                while self.tail.len() > keep {
                    self.tail.pop_front();
                }
            }
            Window::Whole | Window::Bytes { .. } => {}
        }
    }

    fn span(&self, size: u64) -> (u64, u64) {
        let size = if self.complete { self.read } else { size };
        match self.window {
            Window::Whole => (0, size),
            Window::Lines { count: 0, .. } | Window::Tail { count: 0 } => (0, 0),
            Window::Lines { .. } => {
                let start = self.start.unwrap_or(size);
                (start, self.end.unwrap_or(size))
            }
            Window::Tail { count } => {
                let mut starts: Vec<u64> =
                    self.tail.iter().copied().filter(|at| *at < size).collect();
                let keep = usize::try_from(count).unwrap_or(MAX_TAIL).min(starts.len());
                (starts.drain(starts.len() - keep..).next().unwrap_or(0), size)
            }
            Window::Bytes { offset, count } => {
                (offset.min(size), offset.saturating_add(count).min(size))
            }
        }
    }

    fn whole(self) -> Option<Whole> {
        self.complete.then(|| Whole { lines: self.lines, hash: ContentHash::finish(self.hasher) })
    }
}

fn read_span(file: &File, start: u64, count: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, start + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Drops the beginning of a character that the cut went through.
fn trim_to_char(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}
