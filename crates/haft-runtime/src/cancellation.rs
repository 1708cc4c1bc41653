//! How a running call is told to stop.

use tokio::sync::watch;

/// Tells code that runs to stop. Clones are one token: cancelling any of them cancels all.
///
/// A token is of use to code of any kind: poll [`is_cancelled`](Self::is_cancelled), or wait for
/// [`cancelled`](Self::cancelled) beside the work.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken {
    is_cancelled: watch::Sender<bool>,
}

impl CancellationToken {
    /// Makes a token that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells everyone who has the token to stop. Once is enough, and it cannot be taken back.
    pub fn cancel(&self) {
        self.is_cancelled.send_replace(true);
    }

    /// Returns whether the token was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.is_cancelled.borrow()
    }

    /// Waits until the token is cancelled; returns at once if it was.
    pub async fn cancelled(&self) {
        let mut told = self.is_cancelled.subscribe();
        // It cannot be closed: `self` is a sender.
        drop(told.wait_for(|is_cancelled| *is_cancelled).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_is_told_whether_it_waits_already_or_not() {
        let token = CancellationToken::new();
        let (waiting, late) = (token.clone(), token.clone());
        let waits = tokio::spawn(async move { waiting.cancelled().await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished() && !late.is_cancelled());
        token.cancel();
        token.cancel();
        drop(token);
        waits.await.unwrap();
        late.cancelled().await;
        assert!(late.is_cancelled());
    }
}
