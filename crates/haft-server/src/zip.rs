//! Zip archives of files as they are: the few headers that hold them together.

use std::num::TryFromIntError;

const FILE: [u8; 4] = *b"PK\x03\x04";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
/// The second version of the format, which knows directories.
const FORMAT: u16 = 20;
/// The modes below are those of Unix.
const MADE_BY: u16 = (3 << 8) | FORMAT;
const NAMES_IN_UTF8: u16 = 1 << 11;
const AS_THEY_ARE: u16 = 0;
/// The earliest that can be told, so that the same files make the same bytes.
const TIME: u16 = 0;
const DATE: u16 = (1 << 5) | 1;
const PLAIN_FILE: u32 = 0o100_644 << 16;

/// Puts files, by their paths, into an archive.
///
/// # Errors
///
/// When there are more of them, or they are larger, than the format can tell.
pub(crate) fn archive(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, TryFromIntError> {
    let (mut out, mut entries) = (Vec::new(), Vec::new());
    for (path, body) in files {
        let (begin, header) = (u32::try_from(out.len())?, header(path, body)?);
        out.extend(FILE);
        out.extend(&header);
        out.extend(path.as_bytes());
        out.extend(body);
        entries.extend(ENTRY);
        entries.extend(MADE_BY.to_le_bytes());
        entries.extend(&header);
        let (comment_len, disk, inner): (u16, u16, u16) = (0, 0, 0);
        entries.extend(words([comment_len, disk, inner]));
        entries.extend(PLAIN_FILE.to_le_bytes());
        entries.extend(begin.to_le_bytes());
        entries.extend(path.as_bytes());
    }
    let (begin, size) = (u32::try_from(out.len())?, u32::try_from(entries.len())?);
    let n_files = u16::try_from(files.len())?;
    let (disk, first_disk, comment_len): (u16, u16, u16) = (0, 0, 0);
    out.extend(entries);
    out.extend(END);
    out.extend(words([disk, first_disk, n_files, n_files]));
    out.extend(size.to_le_bytes());
    out.extend(begin.to_le_bytes());
    out.extend(comment_len.to_le_bytes());
    Ok(out)
}

/// What is said of a file both in front of it and at the end.
fn header(path: &str, body: &[u8]) -> Result<Vec<u8>, TryFromIntError> {
    let size = u32::try_from(body.len())?.to_le_bytes();
    let (path_len, extra_len) = (u16::try_from(path.len())?, 0);
    let mut header = Vec::from_iter(words([FORMAT, NAMES_IN_UTF8, AS_THEY_ARE, TIME, DATE]));
    header.extend(crc32(body).to_le_bytes());
    // As it is stored, and as it is.
    header.extend(size);
    header.extend(size);
    header.extend(words([path_len, extra_len]));
    Ok(header)
}

fn words<const N: usize>(words: [u16; N]) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u16::to_le_bytes)
}

/// The checksum of IEEE 802.3, its lowest bit first.
fn crc32(bytes: &[u8]) -> u32 {
    let next = |crc: u32, byte: &u8| {
        let [lowest, ..] = crc.to_le_bytes();
        CRCS[usize::from(lowest ^ byte)] ^ (crc >> 8)
    };
    !bytes.iter().fold(!0, next)
}

/// The checksum of each byte.
static CRCS: [u32; 256] = {
    let (mut crcs, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        crcs[byte] = crc;
        byte += 1;
    }
    crcs
};

#[cfg(test)]
mod tests {
    use super::crc32;

    // The value that every description of this checksum gives.
    #[test]
    fn the_checksum_is_the_one_that_others_compute() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
