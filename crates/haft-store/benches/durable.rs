//! What durability costs, as ratios measured in one run.
//!
//! `cargo bench -p haft-store` measures for a few seconds each; without `--bench`, as `cargo test`
//! runs it, everything happens a few times, to show that it works. Rounds alternate between the
//! things that are compared, because the machine's other work is not ours to stop.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at any trouble")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../tests/it/cluster.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod cluster;
#[path = "../tests/it/driver.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod driver;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_core::session::Input;
use haft_store::{SNAPSHOT_EVERY, Store};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::NoTls;

use driver::{Session, ann, charge, denial, ok, read};

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    span: Duration,
    events: u64,
    loads: usize,
}

const FULL: Effort = Effort { rounds: 3, span: Duration::from_secs(3), events: 10_000, loads: 300 };
const SHORT: Effort = Effort { rounds: 1, span: Duration::from_millis(50), events: 200, loads: 3 };

fn main() {
    let effort = if std::env::args().any(|argument| argument == "--bench") { FULL } else { SHORT };
    let directory = std::env::temp_dir().join(format!("haft-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let sqlite = Store::open_sqlite(&directory.join("sqlite")).unwrap();
        appends(&sqlite, &directory, effort).await;
        pairs("SQLite", &sqlite, effort).await;
        loads("SQLite", &sqlite, effort).await;
        if cluster::is_left_out() {
            println!("left out: PostgreSQL, because HAFT_TEST_FAST=1");
            return;
        }
        let (url, _cluster) = cluster::shared();
        let postgres = Store::connect_postgres(&own_schema(&url).await).await.unwrap();
        pairs("PostgreSQL", &postgres, effort).await;
        loads("PostgreSQL", &postgres, effort).await;
    });
    drop(std::fs::remove_dir_all(&directory));
}

#[expect(clippy::disallowed_methods, reason = "makes a place of its own for the benchmark")]
async fn own_schema(url: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let name = format!("bench{}", std::process::id());
    client
        .batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}"))
        .await
        .unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    format!("{url}?options=-csearch_path%3D{name}")
}

/// Appends of 64 sessions, beside as many callers who append the same bytes to a plain file that
/// is synced for as many as have gathered.
async fn appends(store: &Store, directory: &Path, effort: Effort) {
    const CALLERS: usize = 64;
    let (bytes, n_events) = bytes_per_append(store).await;
    let (mut stored, mut raw) = (Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        raw.push(
            raw_group_commits(&directory.join(format!("raw{round}")), CALLERS, bytes, effort.span)
                .await,
        );
        stored.push(session_appends(store, CALLERS, effort.span).await);
    }
    let (stored, raw) = (median(stored), median(raw));
    println!(
        "durable appends, {CALLERS} sessions, SQLite: {stored:.0}/s ({:.0} events/s, {bytes} bytes each); \
         raw group commits of the same bytes: {raw:.0}/s; ratio {:.2} (wanted: at least 0.5)",
        stored * n_events,
        stored / raw
    );
}

/// The mean size of an append's entries, and their mean number.
async fn bytes_per_append(store: &Store) -> (usize, f64) {
    let mut session = Session::create(store, "bench").await;
    let before = session.head.seq;
    let call = session.propose(&read()).await;
    session.finish(call, ok("sunny")).await;
    let entries = store.entries(session.id, before, 100).await.unwrap();
    let bytes: usize = entries.iter().map(|entry| entry.body.len() + 64).sum();
    (bytes / 2, entries.len() as f64 / 2.0)
}

async fn session_appends(store: &Store, callers: usize, span: Duration) -> f64 {
    let mut sessions = Vec::new();
    for _ in 0..callers {
        sessions.push(Session::create(store, "bench").await);
    }
    let tool = read();
    let started = Instant::now();
    let tasks: Vec<_> = sessions
        .into_iter()
        .map(|mut session| {
            let tool = tool.clone();
            tokio::spawn(async move {
                let mut count = 0u64;
                while started.elapsed() < span {
                    let call = session.propose(&tool).await;
                    session.finish(call, ok("sunny")).await;
                    count += 2;
                }
                count
            })
        })
        .collect();
    rate(tasks, started).await
}

async fn rate(tasks: Vec<tokio::task::JoinHandle<u64>>, started: Instant) -> f64 {
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// The fastest that this disk can be made to keep promises: one thread, one file, one sync for all
/// who wait.
async fn raw_group_commits(path: &PathBuf, callers: usize, bytes: usize, span: Duration) -> f64 {
    let (requests, mut queue) = mpsc::channel::<(Vec<u8>, oneshot::Sender<()>)>(1_024);
    let mut file = File::create(path).unwrap();
    let writer = std::thread::spawn(move || {
        let mut batch = Vec::new();
        while queue.blocking_recv_many(&mut batch, 256) > 0 {
            let together: Vec<u8> = batch.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            file.write_all(&together).unwrap();
            file.sync_data().unwrap();
            for (_, done) in batch.drain(..) {
                done.send(()).unwrap();
            }
        }
    });
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut count = 0u64;
                while started.elapsed() < span {
                    let (done, wait) = oneshot::channel();
                    requests.send((vec![b'x'; bytes], done)).await.unwrap();
                    wait.await.unwrap();
                    count += 1;
                }
                count
            })
        })
        .collect();
    let rate = rate(tasks, started).await;
    drop(requests);
    writer.join().unwrap();
    rate
}

/// A call is proposed and waits; someone who does not own the session decides; the owner goes on.
/// Three durable appends, the second of which is the acknowledged resolution.
async fn pairs(name: &str, store: &Store, effort: Effort) {
    const CALLERS: usize = 128;
    let mut rates = Vec::new();
    for _ in 0..effort.rounds {
        let mut sessions = Vec::new();
        for _ in 0..CALLERS {
            sessions.push(Session::create(store, "bench").await);
        }
        let tool = charge();
        let started = Instant::now();
        let tasks: Vec<_> = sessions
            .into_iter()
            .map(|mut session| {
                let tool = tool.clone();
                tokio::spawn(async move {
                    let mut count = 0u64;
                    while started.elapsed() < effort.span {
                        let call = session.propose(&tool).await;
                        session.input_anywhere(denial(call, ann())).await.unwrap();
                        session.input(Input::Woken).await.unwrap();
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        rates.push(rate(tasks, started).await);
    }
    println!("suspend + resolve + go on, {CALLERS} at once, {name}: {:.0}/s", median(rates));
}

/// Loading a session with a long log and one with a short log, both as a driver leaves them.
async fn loads(name: &str, store: &Store, effort: Effort) {
    let short = grown(store, 10).await;
    let long = grown(store, effort.events).await;
    let (mut of_short, mut of_long) = (Vec::new(), Vec::new());
    for _ in 0..effort.loads {
        of_short.push(load(store, &short).await);
        of_long.push(load(store, &long).await);
    }
    let (of_short, of_long) = (median(of_short), median(of_long));
    println!(
        "load, {name}: {} events {of_short:.0} µs, {} events {of_long:.0} µs; ratio {:.2} \
         (wanted: at most 1.5)",
        short.head.seq,
        long.head.seq,
        of_long / of_short
    );
}

async fn grown(store: &Store, events: u64) -> Session {
    let mut session = Session::create(store, "bench").await;
    let (tool, mut kept) = (read(), 0);
    while session.head.seq < events {
        let call = session.propose(&tool).await;
        session.finish(call, ok("sunny")).await;
        if session.head.seq - kept >= SNAPSHOT_EVERY {
            session.keep_snapshot().await;
            kept = session.head.seq;
        }
    }
    session
}

async fn load(store: &Store, session: &Session) -> f64 {
    let started = Instant::now();
    let loaded = store.load(session.id).await.unwrap().expect("the session is stored");
    let micros = started.elapsed().as_secs_f64() * 1e6;
    assert_eq!(loaded.head, session.head);
    micros
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
