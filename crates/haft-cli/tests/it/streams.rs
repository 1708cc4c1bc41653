//! Event streams of a running server: what they cost while nothing happens, what slow readers of
//! them cost, and that nothing of a session is missed by them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{self, Cluster, is_left_out};
use crate::serving::{PATIENCE, Serving};

const MEGABYTE: u64 = 1024 * 1024;

/// How many streams of quiet sessions are open at once.
const N_QUIET: usize = 1_000;

/// How long nothing is done in order to count what is done meanwhile.
const QUIET_FOR: Duration = Duration::from_secs(12);

impl Serving {
    /// The resident memory of the server.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// The resident memory of the server once it does not change any more.
    fn settled_memory(&self) -> u64 {
        let (started, mut last, mut since) = (Instant::now(), 0_u64, Instant::now());
        loop {
            let resident = self.resident();
            if resident.abs_diff(last) > MEGABYTE {
                (last, since) = (resident, Instant::now());
            }
            if since.elapsed() > Duration::from_secs(3) {
                return resident;
            }
            assert!(started.elapsed() < PATIENCE, "the memory does not settle: {resident}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Fills a session with messages of so many bytes each.
    fn fill(&self, session: &str, n_messages: usize, len: usize) {
        let content = json!([{ "type": "text", "text": "x".repeat(len) }]);
        for _ in 0..n_messages {
            let (status, body) =
                self.send(session, &json!({ "type": "user.message", "content": content }));
            assert_eq!(status, 200, "{body}");
        }
    }
}

#[test]
fn stalled_readers_of_a_fat_session_cost_little_memory() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    server.fill(&session, 60, 1_000_000);
    let paths = [
        format!("/haft/v1/sessions/{session}/events/stream"),
        format!("/haft/v1/sessions/{session}/stream"),
    ];
    // Whatever a first reader costs is not what stalled ones do.
    for path in &paths {
        server.stream(path, None).next().unwrap();
    }
    let before = server.settled_memory();
    let stalled: Vec<_> =
        paths.iter().cycle().take(12).map(|path| server.stream(path, None)).collect();
    let after = server.settled_memory();
    let more = after.saturating_sub(before) / MEGABYTE;
    assert!(more < 100, "12 stalled readers cost {more} MB: {before} to {after}");
    // Nobody else is held up by them, and nothing is missing for who reads.
    let mut reader = server.stream(&paths[1], None);
    for _ in 0..60 {
        let message = reader.until("user.message").pop().unwrap();
        assert!(message.data.len() > 1_000_000, "{}", message.data.len());
    }
    drop(stalled);
}

#[test]
fn a_reader_that_is_too_slow_is_told_so_and_resumes_without_loss() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start_with(data.path(), None, &["--stream-stall", "1s"]);
    let session = server.session();
    server.fill(&session, 30, 500_000);
    for path in ["stream", "events/stream"] {
        let n_ended = server.metric("haft_streams_ended_slow_total");
        let path = format!("/haft/v1/sessions/{session}/{path}");
        let mut slow = server.stream(&path, None);
        let started = Instant::now();
        while server.metric("haft_streams_ended_slow_total") == n_ended {
            assert!(started.elapsed() < PATIENCE, "it is not ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut events = slow.until("error");
        let error = events.pop().unwrap();
        assert!(slow.next().is_none(), "nothing comes after the reason");
        // An event that was cut off stands before the reason.
        let reason: Value = serde_json::from_str(error.data.lines().last().unwrap()).unwrap();
        assert_eq!(reason["error"]["type"], "slow_reader_error", "{reason}");
        assert_eq!(error.id, None, "nobody resumes after it");
        let last = events.last().and_then(|event| event.id.clone()).unwrap();
        assert_eq!(reason["error"]["last_event_id"], last);
        let message = reason["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("Last-Event-ID: {last}")), "{message}");

        let mut whole = server.stream(&path, None);
        // What was left when the reader stalled is more than that.
        let n_all = events.len() + 5;
        let all: Vec<_> = (0..n_all).map(|_| whole.next().unwrap().id).collect();
        let mut resumed = server.stream(&path, Some(&last));
        let told: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        let rest: Vec<_> = (told.len()..all.len()).map(|_| resumed.next().unwrap().id).collect();
        assert_eq!([told, rest].concat(), all, "{path}");
    }
}

#[test]
fn a_thousand_quiet_streams_cost_sqlite_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Serving::start(data.path(), None);
    let session = server.session();
    let path = format!("/haft/v1/sessions/{session}/stream");
    let mut streams: Vec<_> = (0..N_QUIET).map(|_| server.stream(&path, None)).collect();
    assert_eq!(server.metric("haft_streams_open"), N_QUIET as u64);
    let before = server.metric("haft_store_log_reads_total");
    std::thread::sleep(QUIET_FOR / 3);
    assert_eq!(server.metric("haft_store_log_reads_total"), before, "a quiet stream reads nothing");
    server.say(&session);
    for stream in &mut streams {
        stream.until("user.message");
    }
}

/// How many transactions a database has seen.
fn transactions(url: &str) -> u64 {
    let counted = "SELECT xact_commit + xact_rollback FROM pg_stat_database
                   WHERE datname = current_database()";
    cluster::sql(url, counted).trim().parse().unwrap()
}

#[test]
fn a_thousand_quiet_streams_cost_postgres_few_transactions() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let (url, data) = (cluster.url(), tempfile::tempdir().unwrap());
    let server = Serving::start_with(data.path(), None, &["--database-url", &url]);
    let sessions: Vec<_> = (0..10).map(|_| server.session()).collect();
    let mut streams: Vec<_> = (0..N_QUIET)
        .map(|at| server.stream(&format!("/haft/v1/sessions/{}/stream", sessions[at % 10]), None))
        .collect();
    // Connections report what they did with a delay; what was done until here is to be counted.
    std::thread::sleep(QUIET_FOR);
    let (before, since) = (transactions(&url), Instant::now());
    std::thread::sleep(2 * QUIET_FOR);
    let per_second = (transactions(&url) - before) as f64 / since.elapsed().as_secs_f64();
    assert!(per_second < 10.0, "{per_second} transactions a second");
    server.say(&sessions[0]);
    for stream in streams.iter_mut().step_by(10) {
        stream.until("user.message");
    }
}

#[test]
fn streams_hear_of_other_nodes_also_after_the_listeners_were_lost() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::private();
    let (url, data) = (cluster.url(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let first = Serving::start_with(data[0].path(), None, &["--database-url", &url]);
    let more = ["--database-url", url.as_str()];
    let second = Serving::start_with(data[1].path(), Some(&first.key), &more);
    let session = first.session();
    let path = |form: &str| format!("/haft/v1/sessions/{session}/{form}");
    let mut streams = [second.stream(&path("stream"), None), first.stream(&path("stream"), None)];
    let mut logs = [second.stream(&path("events/stream"), None)];
    let lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    let lost = || cluster::sql(&url, lose).lines().filter(|line| *line == "t").count();
    let mut ids = [Vec::new(), Vec::new()];
    for round in 0..4 {
        if round % 2 == 1 {
            assert!(lost() >= 2, "both nodes listen");
        }
        let content = json!([{ "type": "text", "text": format!("round {round}") }]);
        let (status, body) =
            first.send(&session, &json!({ "type": "user.message", "content": content }));
        assert_eq!(status, 200, "{body}");
        for (stream, ids) in streams.iter_mut().zip(&mut ids) {
            loop {
                let event = stream.next().unwrap();
                ids.push(event.id.unwrap());
                if event.data.contains(&format!("round {round}")) {
                    break;
                }
            }
        }
        while !logs[0].next().unwrap().data.contains(&format!("round {round}")) {}
        // Listeners come back before they are lost again.
        let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
        let started = Instant::now();
        while cluster::sql(&url, listening).trim() == "0" {
            assert!(started.elapsed() < PATIENCE, "nobody listens any more");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert_eq!(ids[0], ids[1], "both nodes tell the same, without loss");
}
