//! The verbs around requests that may be sent again.

use std::ops::RangeInclusive;

use haft_core::{Actor, Timestamp};

use super::{Backend, Store};
use crate::content::{Erasure, Put, PutError};
use crate::error::Error;
use crate::request::{Request, RequestId, RequestStep, Step, StoredRequest, numbers_of};

#[haft_macros::boxed]
impl Store {
    /// Returns the secret of this store that the ids of requests are derived with.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn request_salt(&self) -> Result<Vec<u8>, Error> {
        on_backend!(self, request_salt())
    }

    /// Returns what is known of the requests whose ids are between two, in the order of their ids.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub async fn requests(
        &self,
        ids: RangeInclusive<RequestId>,
    ) -> Result<Vec<StoredRequest>, Error> {
        let rows: Result<Vec<RequestStep>, Error> = on_backend!(self, request_rows(ids));
        Ok(StoredRequest::gather(rows?))
    }

    /// Keeps finished answers; the first answer to a request stays.
    ///
    /// # Errors
    ///
    /// When they cannot be stored.
    pub async fn keep_answers(&self, answers: Vec<RequestStep>) -> Result<(), Error> {
        on_backend!(self, keep_answers(answers))
    }

    /// Forgets requests that were begun before a moment; returns how many rows went. There may be
    /// more when it is `limit`.
    ///
    /// # Errors
    ///
    /// When it cannot be stored.
    pub async fn forget_requests(&self, before: Timestamp, limit: u32) -> Result<u64, Error> {
        on_backend!(self, forget_requests(before, limit))
    }

    /// Writes and erases versions, as a step of the request that the current task works on. What an
    /// earlier run of it has written is not written again.
    pub(super) async fn write_versions(
        &self,
        puts: Vec<Put>,
        erasures: Vec<Erasure>,
        by: &Actor,
        at: Timestamp,
    ) -> Result<Vec<u64>, PutError> {
        let request = Request::current();
        let step = match request.as_ref().and_then(|request| request.step_of(&puts)) {
            None => None,
            Some(Step::Done(note)) => return Ok(numbers_of(note.as_deref())?),
            Some(Step::New(step)) => Some(step),
        };
        let by = (by.clone(), at);
        let written: Result<Vec<u64>, PutError> =
            on_backend!(self, put_versions(puts, erasures, by, step.clone()));
        if let (Err(_), Some(request), Some(step)) = (&written, &request, &step) {
            request.retract(step);
        }
        written
    }
}
