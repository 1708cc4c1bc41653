//! What a store says about itself: whether it can write now, and whether it ever will again.

use super::{Backend, Store};
use crate::error::Error;

#[haft_macros::boxed]
impl Store {
    /// Makes a small write durable, as every append is: what it does not go through for, no append
    /// would. It is not bounded in time, because a database that waits for its disk or for a
    /// standby does not answer either.
    ///
    /// # Errors
    ///
    /// Why nothing can be written now.
    pub async fn check_writable(&self) -> Result<(), Error> {
        if let Some(error) = self.health.stopped() {
            return Err(error);
        }
        on_backend!(self, check_writable())
    }

    /// Returns why this store takes no more writes until the process is started again: a write
    /// that could not be made durable, files that were taken away, a writer that died.
    pub fn stopped(&self) -> Option<Error> {
        self.health.stopped()
    }

    /// Waits until this store takes no more writes, and returns why.
    pub async fn until_stopped(&self) -> Error {
        self.health.until_stopped().await
    }
}
