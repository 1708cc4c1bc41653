//! What every command over the API does: find whoever answers, ask, and leave nothing behind.

use crate::Verdict;
use crate::api::{Api, Reach, StoreUse};

/// Runs a command over the API, and lets what it set going in this process end.
pub(crate) fn over_api(
    reach: &Reach,
    need: StoreUse,
    work: impl AsyncFnOnce(&Api) -> anyhow::Result<Verdict>,
) -> anyhow::Result<Verdict> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let api = reach.connect(need).await?;
        let done = work(&api).await;
        api.close().await;
        done
    });
    // Reading from a terminal cannot be ended, and must not keep the program.
    runtime.shutdown_background();
    done
}
