//! Backups: everything that a data directory needs to be put back, in one tar file.
//!
//! The first entry says what the file is, the last one (`haft-manifest.json`) lists every file with its
//! hash. So a file that was cut off, or in which anything was changed, is recognised.

mod tar;
mod unpack;
mod write;

pub use unpack::{UnpackError, unpack};
pub use write::{BackupError, write};

use haft_core::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

/// The form of backups that this program writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// The first entry.
const LABEL: &str = "haft-backup.json";

/// The last entry.
const MANIFEST: &str = "haft-manifest.json";

/// The database's name, here and in a data directory.
const DATABASE: &str = "haft.db";

/// What a backup is, as its first entry says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    format: u32,
    /// The version of Haft that wrote it.
    pub haft: String,
    /// The moment that the database is as of.
    pub backed_up_at: Timestamp,
}

/// Everything in a backup, as its last entry lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Manifest {
    files: Vec<ListedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ListedFile {
    /// Where it is, below the data directory. Names that are not UTF-8 are written with `%`.
    path: String,
    bytes: u64,
    sha256: Digest,
}

/// Writes a path as text: bytes that are not UTF-8, and `%`, in hexadecimal.
fn as_text(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
    }
    text
}
