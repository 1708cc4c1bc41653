//! The floor: the fastest that this disk can be made to keep promises.
//!
//! One thread appends to one file and syncs it once for all who wait, and does nothing else: no
//! database, no decision, no hash.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

type Request = (Vec<u8>, oneshot::Sender<()>);

/// Returns how many commits of so many bytes a second there are for so many callers at once.
pub(super) async fn group_commits(
    directory: &Path,
    callers: usize,
    bytes: usize,
    span: Duration,
) -> anyhow::Result<f64> {
    let path = directory.join("floor");
    let mut file = File::create(&path).context("making a file to measure the disk by")?;
    let (requests, mut queue) = mpsc::channel::<Request>(1_024);
    let writer = std::thread::spawn(move || {
        let mut batch = Vec::new();
        let mut together = Vec::new();
        while queue.blocking_recv_many(&mut batch, 256) > 0 {
            together.clear();
            batch.iter().for_each(|(bytes, _)| together.extend_from_slice(bytes));
            file.write_all(&together)?;
            file.sync_data()?;
            for (_, done) in batch.drain(..) {
                // A caller whose time is over has gone.
                done.send(()).unwrap_or_default();
            }
        }
        std::io::Result::Ok(())
    });
    let started = Instant::now();
    let callers = (0..callers).map(|_| {
        let requests = requests.clone();
        async move {
            let mut count = 0;
            while started.elapsed() < span {
                let (done, wait) = oneshot::channel();
                requests.send((vec![b'x'; bytes], done)).await.context("the disk failed")?;
                wait.await.context("the disk failed")?;
                count += 1;
            }
            Ok(count)
        }
    });
    let rate = rate(started, callers).await;
    drop(requests);
    writer.join().map_err(|_| anyhow::anyhow!("the thread that wrote the floor panicked"))??;
    std::fs::remove_file(&path).context("removing the file that the disk was measured by")?;
    rate
}

/// Returns how much a second callers get done together, each of whom says how much it has done.
pub(super) async fn rate<F>(
    started: Instant,
    callers: impl IntoIterator<Item = F>,
) -> anyhow::Result<f64>
where
    F: Future<Output = anyhow::Result<u64>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = callers.into_iter().collect();
    let mut count = 0;
    while let Some(done) = tasks.join_next().await {
        count += done??;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}
