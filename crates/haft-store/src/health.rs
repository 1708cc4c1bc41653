//! Whether a store still takes writes, and why it does not.
//!
//! A disk that failed to sync, a writer that died and files that were taken away have one thing in
//! common: nothing that this process does makes its next write durable. The first reason is kept,
//! and whoever asks is told.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::Error;

/// Why a store takes no more writes until the process is started again. A clone shares it.
#[derive(Debug, Clone)]
pub(crate) struct Health(Arc<watch::Sender<Option<Error>>>);

impl Health {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Notes why nothing can be written any more; the first reason stays.
    pub(crate) fn stop(&self, error: &Error) {
        self.0.send_if_modified(|stopped| {
            let is_first = stopped.is_none();
            if is_first {
                *stopped = Some(error.clone());
            }
            is_first
        });
    }

    /// Returns why nothing is written any more.
    pub(crate) fn stopped(&self) -> Option<Error> {
        self.0.borrow().clone()
    }

    /// Waits until nothing is written any more.
    pub(crate) async fn until_stopped(&self) -> Error {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(error) = changes.borrow_and_update().clone() {
                return error;
            }
            if changes.changed().await.is_err() {
                // The sender is part of `self`, so that this is never reached.
                std::future::pending::<()>().await;
            }
        }
    }
}
