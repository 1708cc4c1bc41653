//! Loops that run for as long as their node: one that panics is logged, counted and started again.

use std::time::Duration;

use haft_store::Store;
use tokio::time::Instant;

use crate::unwinding::catching;

/// How long a loop that panicked waits before it starts again: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A loop that ran for so long starts again after the shortest pause.
const RUNS_WELL_AFTER: Duration = Duration::from_secs(60);

/// Runs a background loop until it returns. If it panics, the panic is logged and counted among
/// the store's measures under `name`, and after a pause the loop that `make` makes is run anew.
pub async fn supervise<F, R>(store: Store, name: &'static str, make: F)
where
    F: Fn() -> R,
    R: Future<Output = ()>,
{
    store.measures().loop_started(name);
    let mut pause = PAUSE_MIN;
    loop {
        let began = Instant::now();
        if catching(make()).await.is_ok() {
            return;
        }
        store.measures().loop_panicked(name);
        if began.elapsed() >= RUNS_WELL_AFTER {
            pause = PAUSE_MIN;
        }
        let again_in_ms = pause.as_millis() as u64;
        tracing::error!(name, again_in_ms, "a background loop panicked and is started again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
