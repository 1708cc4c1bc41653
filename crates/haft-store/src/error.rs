//! What goes wrong between Haft and its database, sorted by who can do something about it.

use std::fmt;

use haft_core::SessionId;
use haft_core::journal::JournalError;

/// Something that keeps the store from doing its work.
///
/// Cheap to copy, because one failed commit fails everyone who shared it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    context: String,
}

/// The kinds of trouble with a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A stored row is not what was written.
    Corrupt,
    /// No space is left; nothing of the request was stored.
    DiskFull,
    /// The database does not answer, or someone holds a lock on it; nothing of the request was
    /// stored.
    Gone,
    /// Another process has the directory.
    InUse,
    /// The store, or what it rests on, is broken.
    Internal,
    /// The request cannot be stored as it is.
    Invalid,
    /// A newer Haft has written the database.
    NewerSchema,
    /// The program was built without a feature that the request needs.
    NotCompiled,
    /// The database may not be written to.
    ReadOnly,
    /// A write could not be made durable, so that the store takes no more of them.
    Stopped,
    /// The connection was lost during the commit, and what became of it could not be found out.
    Unknown,
    /// The file or database is not one of Haft's.
    WrongFile,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into() }
    }

    /// Returns the error for something in the store that cannot be read as what it is.
    pub fn corrupt(context: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Corrupt, format!("a stored row cannot be read: {context}"))
    }

    /// Refuses what this program cannot do because a feature is off.
    #[cfg(any(test, not(all(feature = "sqlite", feature = "tls"))))]
    pub(crate) fn not_compiled(needs: &str, feature: &str) -> Self {
        let context =
            format!("{needs}, and this program was built without the feature `{feature}`");
        Self::new(ErrorKind::NotCompiled, context)
    }

    pub(crate) fn unknown_session(session: SessionId) -> Self {
        Self::new(ErrorKind::Invalid, format!("there is no session `{session}`"))
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn during(self, doing: &str) -> Self {
        Self { kind: self.kind, context: format!("{doing}: {}", self.context) }
    }

    /// Returns what kind of trouble it is.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same request may work later without anyone's help.
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Gone | ErrorKind::DiskFull)
    }

    /// Returns what someone can do about it.
    pub const fn hint(&self) -> &'static str {
        match self.kind {
            ErrorKind::Corrupt => {
                "restore the database from a backup; `haft audit verify` says where"
            }
            ErrorKind::DiskFull => "free some space; the store goes on by itself",
            ErrorKind::Gone => {
                "start the database, or end what locks it; the store goes on by itself"
            }
            ErrorKind::InUse => "stop the other process, or choose another directory",
            ErrorKind::Internal => "please report this",
            ErrorKind::Invalid => "change the request",
            ErrorKind::NewerSchema => "use the newer haft that wrote it",
            ErrorKind::NotCompiled => {
                "enable the feature that the message names, for the crate `haft` in Cargo.toml"
            }
            ErrorKind::ReadOnly => "make the directory and its files writable for this user",
            ErrorKind::Stopped => "check the disk, then start the process again",
            ErrorKind::Unknown => "load the session to see whether it was stored",
            ErrorKind::WrongFile => "name a directory or database of its own for haft",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {}

/// An entry of a log that cannot be read is a damaged store.
impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        Self::corrupt(error)
    }
}
