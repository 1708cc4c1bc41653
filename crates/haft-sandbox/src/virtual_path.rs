//! Paths as a caller names them: `/workspace/src/main.rs`, never a path of the host.
//!
//! A path is taken apart here by text alone, so that an error can be given early and name only what
//! the caller knows. That is not the boundary: the kernel resolves every path beneath its root.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The longest path taken, in bytes.
pub const MAX_BYTES: usize = 4096;
/// The most names in one path.
pub const MAX_DEPTH: usize = 128;
/// The longest single name that file systems take, in bytes.
const MAX_NAME: usize = 255;

/// An absolute path in the tree of mounted roots, without `.` and `..`.
///
/// Its text form is lossless: a byte that is no part of UTF-8 text, a control character, and the
/// backslash of something that looks like an escape are written `\xNN`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPath {
    names: Vec<Vec<u8>>,
    ending: Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Ending {
    Any,
    /// The text ended like `dir/` or `dir/.`, so that a file is not meant.
    Directory,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A path with nothing in it.
    #[error("the path is empty: give one such as `src/main.rs`")]
    Empty,
    /// NUL or another control character; `\xNN` may be written for one that is in a file's name.
    #[error("the path has the control character {0:#04x} in it")]
    Control(u8),
    /// Longer than any path may be.
    #[error("the path has {found} bytes, at most {MAX_BYTES} are taken")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// One name in it is longer than a file's name can be.
    #[error("a name in the path has {found} bytes, a file's name has at most {MAX_NAME}")]
    NameTooLong {
        /// Its length.
        found: usize,
    },
    /// More names than a path may have.
    #[error("the path is {found} names deep, at most {MAX_DEPTH} are taken")]
    TooDeep {
        /// How many it has.
        found: usize,
    },
    /// `..` from the top.
    #[error("the path leads above the top with `..`")]
    AboveTop,
}

impl VirtualPath {
    /// The top of the tree, where only mount points are.
    pub fn top() -> Self {
        Self { names: Vec::new(), ending: Ending::Any }
    }

    /// Reads a path that may be relative to `cwd`.
    ///
    /// # Errors
    /// When the text is no path, or leads above the top.
    pub fn parse(text: &str, cwd: &Self) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(PathError::TooLong { found: text.len() });
        }
        if let Some(byte) = text.bytes().find(u8::is_ascii_control) {
            return Err(PathError::Control(byte));
        }
        let bytes = unescape(text)?;
        let mut path = if bytes.starts_with(b"/") { Self::top() } else { cwd.clone() };
        path.ending = Ending::Any;
        for name in bytes.split(|byte| *byte == b'/') {
            path.step(name)?;
        }
        path.bounded()
    }

    /// Reads an absolute path of a sandbox, where virtual paths lie at their own places.
    pub(crate) fn of_inside(path: &[u8]) -> Option<Self> {
        path.starts_with(b"/").then_some(())?;
        Self::parse(&escaped(path), &Self::top()).ok()
    }

    /// The path of an entry in this directory, by the bytes of its name.
    pub fn join(&self, name: &OsStr) -> Self {
        let mut names = self.names.clone();
        names.extend(
            name.as_bytes()
                .split(|byte| *byte == b'/')
                .filter(|n| !n.is_empty())
                .map(<[u8]>::to_vec),
        );
        Self { names, ending: Ending::Any }
    }

    /// The directory it stands in; `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.names.split_last()?;
        Some(Self { names: above.to_vec(), ending: Ending::Any })
    }

    /// Its last name; `None` at the top.
    pub fn name(&self) -> Option<&OsStr> {
        self.names.last().map(|name| OsStr::from_bytes(name))
    }

    /// Whether it is this directory or something in it.
    pub fn starts_with(&self, directory: &Self) -> bool {
        self.names.starts_with(&directory.names)
    }

    pub(crate) fn depth(&self) -> usize {
        self.names.len()
    }

    /// What is left of it below its first `depth` names, as a relative path of the host.
    pub(crate) fn below(&self, depth: usize) -> PathBuf {
        self.names.iter().skip(depth).map(|name| OsStr::from_bytes(name)).collect()
    }

    pub(crate) fn means_a_directory(&self) -> bool {
        self.ending == Ending::Directory
    }

    fn step(&mut self, name: &[u8]) -> Result<(), PathError> {
        match name {
            b"" | b"." => self.ending = Ending::Directory,
            b".." => {
                self.names.pop().ok_or(PathError::AboveTop)?;
                self.ending = Ending::Directory;
            }
            name if name.len() > MAX_NAME => {
                return Err(PathError::NameTooLong { found: name.len() });
            }
            name => {
                self.names.push(name.to_vec());
                self.ending = Ending::Any;
            }
        }
        Ok(())
    }

    fn bounded(self) -> Result<Self, PathError> {
        if self.names.len() > MAX_DEPTH {
            return Err(PathError::TooDeep { found: self.names.len() });
        }
        Ok(self)
    }
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return f.write_str("/");
        }
        self.names.iter().try_for_each(|name| write!(f, "/{}", escaped(name)))
    }
}

/// Whether a character is not seen, or changes how others are seen: a name with it could pass for
/// another one.
pub fn is_hidden(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e01ef}'
        )
}

/// A file's name, or bytes of another kind, as text that `VirtualPath::parse` reads back.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid().chars().peekable();
        while let Some(char) = rest.next() {
            let like_an_escape = char == '\\' && rest.peek() == Some(&'x');
            match char {
                char if is_hidden(char) || like_an_escape => {
                    let mut bytes = [0; 4];
                    let bytes = char.encode_utf8(&mut bytes).bytes();
                    bytes.for_each(|byte| push_escape(&mut text, byte));
                }
                char => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_escape(&mut text, *byte));
    }
    text
}

fn push_escape(text: &mut String, byte: u8) {
    text.push_str("\\x");
    for half in [byte >> 4, byte & 15] {
        text.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
    }
}

/// Undoes [`escaped`]. What that never writes, such as an escaped `/` or `.`, is left as it stands.
fn unescape(text: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if let Some((byte, after)) = escape_at(rest) {
            if byte == 0 {
                return Err(PathError::Control(0));
            }
            bytes.push(byte);
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Ok(bytes)
}

fn escape_at(rest: &[u8]) -> Option<(u8, &[u8])> {
    let [b'\\', b'x', high, low, after @ ..] = rest else { return None };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let byte = digit(*high)? << 4 | digit(*low)?;
    let written_by_us = !byte.is_ascii() || byte.is_ascii_control() || byte == b'\\';
    written_by_us.then_some((byte, after))
}
