//! The verbs around sessions that are erased, and around backups.

use std::path::Path;

use haft_core::journal::Head;
use haft_core::{ArtifactId, SessionId, Timestamp};

use super::{Backend, Store};
use crate::erased::{EraseError, ErasedSession, ErasureRequest, written};
use crate::error::Error;
#[cfg(feature = "postgres")]
use crate::error::ErrorKind;
use crate::name::NodeId;
use crate::page::Page;
use crate::session::ListedSession;
use crate::work::Moment;

/// What the names of copies of the database contain that are being made beside it. Those that a
/// process which was killed has left behind are removed when the store is opened.
pub const COPY_MARK: &str = ".copy-";

#[haft_macros::boxed]
impl Store {
    /// Keeps that a session is to be erased, so that it is even if this process ends before.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn request_erasure(&self, request: &ErasureRequest) -> Result<(), Error> {
        let author = written(&request.by)?;
        on_backend!(self, request_erasure(request.clone(), author))
    }

    /// Lists sessions that are to be erased, the longest wanted first.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn erasure_requests(&self, limit: u32) -> Result<Vec<ErasureRequest>, Error> {
        on_backend!(self, erasure_requests(limit))
    }

    /// Erases a session that has ended: its log, its calls, its artifacts, and the versions that
    /// belong to it or to its calls. What is kept is returned; erasing it again returns the same.
    ///
    /// # Errors
    ///
    /// [`EraseError::NotEnded`] while something may still be written to it.
    pub async fn erase_session(
        &self,
        request: &ErasureRequest,
        at: Timestamp,
    ) -> Result<ErasedSession, EraseError> {
        let author = written(&request.by)?;
        on_backend!(self, erase_session(request.clone(), author, at))
    }

    /// Lists what is kept of sessions that were erased, in the order in which they were; a page
    /// goes on after a number.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn erasures(&self, page: &Page<u64>) -> Result<Vec<ErasedSession>, Error> {
        on_backend!(self, erasures(page.clone()))
    }

    /// Returns where the record of authority ends: the chain of every version of what gives power.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn authority_head(&self) -> Result<Head, Error> {
        on_backend!(self, authority_head())
    }

    /// Returns what is kept of a session, if it was erased.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn erased(&self, session: SessionId) -> Result<Option<ErasedSession>, Error> {
        on_backend!(self, erased(session))
    }

    /// Returns the artifacts that a session made, in the order of their ids.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn artifacts_of(&self, session: SessionId) -> Result<Vec<ArtifactId>, Error> {
        on_backend!(self, artifacts_of(session))
    }

    /// Lists sessions that no other opened, that do nothing, in which nothing waits and nothing is
    /// scheduled, and that were last appended to before a moment: the oldest first, after an id.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn at_rest_since(
        &self,
        before: Timestamp,
        page: &Page<SessionId>,
    ) -> Result<Vec<ListedSession>, Error> {
        on_backend!(self, at_rest_since(before, page.clone()))
    }

    /// Returns the nodes that have said of late that they are alive.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub async fn live_nodes(&self, now: Moment) -> Result<Vec<NodeId>, Error> {
        on_backend!(self, live_nodes(now))
    }

    /// Writes a consistent copy of the embedded database to a file that does not exist or is
    /// empty, while the store is in use. The copy holds nothing that was erased.
    ///
    /// # Errors
    ///
    /// When it cannot be written, and for PostgreSQL, which has tools of its own.
    pub async fn copy_to(&self, path: &Path) -> Result<(), Error> {
        match &self.backend {
            #[cfg(not(any(feature = "postgres", feature = "sqlite")))]
            Backend::Absent(absent) => absent.returns(path),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => {
                let context = format!(
                    "`{}` was not written: a PostgreSQL database is backed up with `pg_dump`",
                    path.display()
                );
                Err(Error::new(ErrorKind::Invalid, context))
            }
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(sqlite) => sqlite.copy_to(path.to_owned()).await,
        }
    }
}
