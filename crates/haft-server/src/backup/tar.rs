//! The tar format, as far as a backup needs it: POSIX headers, with extended ones before entries
//! whose names or sizes do not fit.

use std::io::{self, Read, Write};

/// The unit of the format: headers have one, and contents are filled up to whole ones.
pub(super) const BLOCK: usize = 512;

/// The largest size that a header can tell.
const SIZE_MAX: u64 = 0o77_777_777_777;

const NAME_MAX: usize = 100;

/// The longest extended header that is read.
const EXTENDED_MAX: u64 = 1 << 20;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    File,
    Link,
}

/// An entry without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    /// In seconds since 1970.
    pub(super) modified: u64,
    pub(super) size: u64,
    /// Where a link leads.
    pub(super) target: Vec<u8>,
}

/// Writes the header of an entry; its content and [`filling`] follow.
pub(super) fn write_header(out: &mut dyn Write, entry: &Entry) -> io::Result<()> {
    let mut records = Vec::new();
    if entry.path.len() > NAME_MAX {
        records.extend(record(b"path", &entry.path));
    }
    if entry.target.len() > NAME_MAX {
        records.extend(record(b"linkpath", &entry.target));
    }
    if entry.size > SIZE_MAX {
        records.extend(record(b"size", entry.size.to_string().as_bytes()));
    }
    if !records.is_empty() {
        let size = records.len() as u64;
        let extended = Entry { path: b"extended".to_vec(), size, target: Vec::new(), ..*entry };
        out.write_all(&header(&extended, b'x'))?;
        out.write_all(&records)?;
        out.write_all(filling(size))?;
    }
    let kind = match entry.kind {
        Kind::Directory => b'5',
        Kind::File => b'0',
        Kind::Link => b'2',
    };
    out.write_all(&header(entry, kind))
}

/// What fills the content of an entry up to a whole block.
pub(super) fn filling(size: u64) -> &'static [u8] {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    let over = (size % BLOCK as u64) as usize;
    &ZEROS[..(BLOCK - over) % BLOCK]
}

/// A line of an extended header, which begins with its own length.
fn record(name: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", name, b"=", value, b"\n"].concat()
}

fn header(entry: &Entry, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    let octal = |value: u64, digits: usize| format!("{value:0digits$o}\0").into_bytes();
    put(0, &entry.path[..entry.path.len().min(NAME_MAX)]);
    put(100, &octal(u64::from(entry.mode & 0o7777), 7));
    put(108, &octal(0, 7));
    put(116, &octal(0, 7));
    put(124, &octal(entry.size.min(SIZE_MAX), 11));
    put(136, &octal(entry.modified.min(SIZE_MAX), 11));
    put(148, b"        ");
    put(156, &[kind]);
    put(157, &entry.target[..entry.target.len().min(NAME_MAX)]);
    put(257, b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Reads the next header; `None` at the end of the file's entries.
pub(super) fn read_header(from: &mut dyn Read) -> io::Result<Option<Entry>> {
    let mut extended = ExtendedHeader::default();
    loop {
        let mut block = [0; BLOCK];
        from.read_exact(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        let own: u64 = block[148..156].iter().map(|byte| u64::from(*byte)).sum();
        if octal(&block[148..156])? != sum - own + 8 * u64::from(b' ') {
            return Err(damaged("the checksum of a header does not match"));
        }
        let size = octal(&block[124..136])?;
        let kind = match block[156] {
            b'x' => {
                extended = ExtendedHeader::read(from, size)?;
                continue;
            }
            b'0' => Kind::File,
            b'2' => Kind::Link,
            b'5' => Kind::Directory,
            _ => return Err(damaged("an entry is neither file, directory nor link")),
        };
        let ExtendedHeader { path, target, size: large } = std::mem::take(&mut extended);
        return Ok(Some(Entry {
            path: path.unwrap_or_else(|| text(&block[..100])),
            kind,
            mode: u32::try_from(octal(&block[100..108])?).unwrap_or(0o600),
            modified: octal(&block[136..148])?,
            size: large.unwrap_or(size),
            target: target.unwrap_or_else(|| text(&block[157..257])),
        }));
    }
}

/// What an extended header says of the entry after it.
#[derive(Default)]
struct ExtendedHeader {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
}

impl ExtendedHeader {
    fn read(from: &mut dyn Read, size: u64) -> io::Result<Self> {
        if size > EXTENDED_MAX {
            return Err(damaged("an extended header is too long"));
        }
        let mut records = vec![0; size as usize + filling(size).len()];
        from.read_exact(&mut records)?;
        records.truncate(size as usize);
        let mut extended = Self::default();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let bad = || damaged("an extended header cannot be read");
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
            let length = std::str::from_utf8(&rest[..space]).ok();
            let length: usize = length.and_then(|text| text.parse().ok()).ok_or_else(bad)?;
            let line = rest.get(space + 1..length.saturating_sub(1)).ok_or_else(bad)?;
            let equals = line.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
            let value = line[equals + 1..].to_vec();
            match &line[..equals] {
                b"path" => extended.path = Some(value),
                b"linkpath" => extended.target = Some(value),
                b"size" => {
                    let value = String::from_utf8(value).ok();
                    let value = value.and_then(|value| value.parse().ok()).ok_or_else(bad)?;
                    extended.size = Some(value);
                }
                _ => {}
            }
            rest = &rest[length..];
        }
        Ok(extended)
    }
}

fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    field[..end].to_vec()
}

fn octal(field: &[u8]) -> io::Result<u64> {
    let digits: Vec<u8> = field.iter().copied().filter(|byte| !matches!(byte, 0 | b' ')).collect();
    let text = std::str::from_utf8(&digits).ok();
    let value = text.and_then(|text| u64::from_str_radix(text, 8).ok());
    value.ok_or_else(|| damaged("a number in a header cannot be read"))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_with_long_names_and_large_sizes_are_read_as_they_were_written() {
        for (length, size) in [(1, 0), (99, 1), (100, 511), (101, 512), (3_000, SIZE_MAX + 1)] {
            let entry = Entry {
                path: vec![b'a'; length],
                kind: Kind::File,
                mode: 0o640,
                modified: 1_700_000_000,
                size,
                target: Vec::new(),
            };
            let mut out = Vec::new();
            write_header(&mut out, &entry).unwrap();
            assert_eq!(out.len() % BLOCK, 0);
            assert_eq!(read_header(&mut &out[..]).unwrap(), Some(entry));
        }
        let link = Entry {
            path: b"here".to_vec(),
            kind: Kind::Link,
            mode: 0o777,
            modified: 0,
            size: 0,
            target: vec![0xff; 200],
        };
        let mut out = Vec::new();
        write_header(&mut out, &link).unwrap();
        assert_eq!(read_header(&mut &out[..]).unwrap(), Some(link));
        out[BLOCK * 2] ^= 1;
        assert!(read_header(&mut &out[..]).is_err());
    }
}
