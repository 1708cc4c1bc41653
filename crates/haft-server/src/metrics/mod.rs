//! `/metrics`: numbers for whoever watches the node, as Prometheus reads them.
//!
//! Labels are words of ours (routes as they are declared, kinds, classes) and the names of the
//! pools that an operator configured, never what a caller sent, and never a tenant, a session or a
//! model.

mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use haft_core::session::SuspensionKind;
use haft_store::{Histogram, NextAttempt, Standing};

use self::text::{Kind, Page};
use crate::app::App;

/// For how long what is read from the store is good: whoever asks often costs the store nothing.
const STANDING_FOR: Duration = Duration::from_secs(2);

/// How long the store is waited for: what is known without it is told all the same.
const STANDING_WAIT: Duration = Duration::from_secs(2);

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, String), Answered>>,
    attempts: [AtomicU64; 3],
    standing: Mutex<Option<(Instant, Standing)>>,
}

#[derive(Debug)]
struct Answered {
    by_status: BTreeMap<u16, u64>,
    seconds: Histogram,
}

impl Metrics {
    /// Counts a request by the route that took it; `None` for a path that nobody takes.
    pub(crate) fn answered(
        &self,
        method: &Method,
        route: Option<&str>,
        status: u16,
        took: Duration,
    ) {
        let key = (word_of(method), route.unwrap_or("(none)").to_owned());
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = requests.entry(key).or_insert_with(|| Answered {
            by_status: BTreeMap::new(),
            seconds: Histogram::new(Histogram::SECONDS),
        });
        *answered.by_status.entry(status).or_default() += 1;
        answered.seconds.observe_time(took);
    }

    /// Counts an attempt to deliver a webhook.
    pub(crate) fn attempted(&self, next: NextAttempt) {
        let at = match next {
            NextAttempt::Delivered => 0,
            NextAttempt::At(_) => 1,
            NextAttempt::GivenUp => 2,
        };
        self.attempts[at].fetch_add(1, Ordering::Relaxed);
    }

    /// What waits in the store, or waited when it was last read.
    async fn standing(&self, app: &App) -> StoreReading {
        let known = || self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, standing)) = &*known()
            && at.elapsed() < STANDING_FOR
        {
            return StoreReading { standing: Some(standing.clone()), is_reachable: true };
        }
        match tokio::time::timeout(STANDING_WAIT, app.store().standing()).await {
            Ok(Ok(standing)) => {
                *known() = Some((Instant::now(), standing.clone()));
                StoreReading { standing: Some(standing), is_reachable: true }
            }
            Ok(Err(_)) | Err(_) => {
                let standing = known().as_ref().map(|(_, standing)| standing.clone());
                StoreReading { standing, is_reachable: false }
            }
        }
    }
}

/// What was read from the store, and whether it answered just now.
struct StoreReading {
    /// `None` when it has not answered since this process began.
    standing: Option<Standing>,
    is_reachable: bool,
}

/// A client may send any word as its method.
fn word_of(method: &Method) -> &'static str {
    let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// Writes everything down; also while the store is away.
pub(crate) async fn show(State(app): State<App>) -> impl IntoResponse {
    let (read, writable) =
        tokio::join!(app.metrics().standing(&app), app.readiness().check(app.store()));
    let mut page = Page::default();
    requests(&mut page, app.metrics());
    limits(&mut page, &app);
    work(&mut page, &app);
    store(&mut page, &app, &read, writable.is_ok());
    if let Some(standing) = &read.standing {
        waiting(&mut page, &app, standing);
    }
    webhooks(&mut page, app.metrics());
    streams(&mut page, &app);
    queues(&mut page, &app);
    loops(&mut page, &app);
    if let Some(bytes) = resident() {
        let name = "process_resident_memory_bytes";
        page.family(name, Kind::Gauge, "Memory of this process.");
        page.sample(name, &[], bytes);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.finish())
}

/// Whether the store answers and takes writes, and how long ago it last took this node's heartbeat.
fn store(page: &mut Page, app: &App, read: &StoreReading, is_writable: bool) {
    let name = "haft_store_reachable";
    page.family(name, Kind::Gauge, "Whether the store could be read just now.");
    page.sample(name, &[], u64::from(read.is_reachable));
    let name = "haft_store_writable";
    page.family(name, Kind::Gauge, "Whether a write could be made durable just now.");
    page.sample(name, &[], u64::from(is_writable));
    if let Some(age) = app.store().measures().lease_age() {
        let name = "haft_node_lease_age_seconds";
        page.family(name, Kind::Gauge, "Seconds since this node's heartbeat was last stored.");
        page.sample(name, &[], age.as_secs());
    }
}

/// What waits in the whole store, as it was last read.
fn waiting(page: &mut Page, app: &App, standing: &Standing) {
    let name = "haft_calls_pending";
    page.family(name, Kind::Gauge, "Calls that wait, in the whole store.");
    for (kind, n) in &standing.waiting {
        let kind = serde_json::to_value(kind).unwrap_or_default();
        page.sample(name, &[("kind", kind.as_str().unwrap_or_default())], *n);
    }
    let name = "haft_calls_in_doubt";
    page.family(name, Kind::Gauge, "Calls of which nobody knows whether they took effect.");
    let in_doubt = standing.waiting.iter().filter(|(kind, _)| *kind == SuspensionKind::Settlement);
    page.sample(name, &[], in_doubt.map(|(_, n)| n).sum());
    let name = "haft_oldest_wait_seconds";
    page.family(name, Kind::Gauge, "For how long the call has waited that has waited longest.");
    let waited = standing.oldest_wait.map_or(0, |since| app.now().ms() - since.ms());
    page.sample(name, &[], u64::try_from(waited / 1_000).unwrap_or(0));
    let name = "haft_webhook_deliveries_pending";
    page.family(name, Kind::Gauge, "Deliveries still to be made, in the whole store.");
    page.sample(name, &[], standing.deliveries);
}

fn requests(page: &mut Page, metrics: &Metrics) {
    let requests = metrics.requests.lock().unwrap_or_else(PoisonError::into_inner);
    let name = "haft_http_requests_total";
    page.family(name, Kind::Counter, "Requests by route and status.");
    for ((method, route), answered) in &*requests {
        let (method, route) = (*method, route.as_str());
        for (status, n) in &answered.by_status {
            let status = status.to_string();
            page.sample(name, &[("method", method), ("route", route), ("status", &status)], *n);
        }
    }
    let name = "haft_http_request_duration_seconds";
    page.family(name, Kind::Histogram, "Time until the head of the answer.");
    for ((method, route), answered) in &*requests {
        let (method, route) = (*method, route.as_str());
        page.histogram(name, &[("method", method), ("route", route)], &answered.seconds.read());
    }
}

fn limits(page: &mut Page, app: &App) {
    let (open, refused) = app.limits().connections();
    let name = "haft_http_connections";
    page.family(name, Kind::Gauge, "Connections that are open.");
    page.sample(name, &[], open);
    let name = "haft_http_connections_refused_total";
    page.family(name, Kind::Counter, "Connections that were refused: there were too many.");
    page.sample(name, &[], refused);
    let name = "haft_http_rate_limited_total";
    page.family(name, Kind::Counter, "Requests that were refused, by the limit that they met.");
    for (of, limit, n) in app.limits().refused() {
        page.sample(name, &[("of", of), ("limit", limit)], n);
    }
}

fn work(page: &mut Page, app: &App) {
    let measures = app.store().measures();
    let tally = measures.tally();
    let name = "haft_calls_total";
    page.family(name, Kind::Counter, "Calls that have their outcome, recorded by this node.");
    for (class, n) in &tally.outcomes {
        let outcome = class.map_or("ok", |class| class.code());
        page.sample(name, &[("outcome", outcome)], *n);
    }
    let name = "haft_sessions_live";
    page.family(name, Kind::Gauge, "Sessions at work on this node.");
    page.sample(name, &[], app.haft().driver().n_at_work() as u64);
    let name = "haft_store_append_duration_seconds";
    page.family(name, Kind::Histogram, "Time until an append is durable.");
    page.histogram(name, &[], &measures.append_seconds.read());
    let name = "haft_store_batch_size";
    page.family(name, Kind::Histogram, "How many writes share a transaction.");
    page.histogram(name, &[], &measures.batch_size.read());
    let name = "haft_model_requests_total";
    page.family(name, Kind::Counter, "Questions to models, recorded by this node.");
    page.sample(name, &[("result", "answered")], tally.model_answers);
    page.sample(name, &[("result", "retried")], tally.model_retries);
    let name = "haft_model_tokens_total";
    page.family(name, Kind::Counter, "Tokens of models; what a cache gave is part of the input.");
    for (direction, n) in ["input", "output", "cache_read"].into_iter().zip(tally.tokens) {
        page.sample(name, &[("direction", direction)], n);
    }
}

fn streams(page: &mut Page, app: &App) {
    let streams = app.streams();
    let name = "haft_streams_open";
    page.family(name, Kind::Gauge, "Event streams that are being read from this node.");
    page.sample(name, &[], streams.n_open() as u64);
    let name = "haft_stream_memory_bytes";
    page.family(name, Kind::Gauge, "Encoded events that this node holds for its streams.");
    page.sample(name, &[], streams.bytes() as u64);
    let name = "haft_streams_ended_slow_total";
    page.family(name, Kind::Counter, "Streams that were ended because their reader was too slow.");
    page.sample(name, &[], streams.n_ended());
    let name = "haft_store_log_reads_total";
    page.family(name, Kind::Counter, "How often this node has read entries of a log.");
    page.sample(name, &[], app.store().measures().log_reads());
}

/// The pools are named by whoever configures servers and tools.
fn queues(page: &mut Page, app: &App) {
    let loads = app.haft().driver().pools().loads();
    let name = "haft_queue_length";
    page.family(name, Kind::Gauge, "Calls that wait on this node until their pool has room.");
    for load in &loads {
        page.sample(name, &[("pool", &load.name)], load.n_queued as u64);
    }
    let name = "haft_pool_running";
    page.family(name, Kind::Gauge, "Calls that run on this node, by the pool that bounds them.");
    for load in &loads {
        page.sample(name, &[("pool", &load.name)], load.n_running.into());
    }
}

fn loops(page: &mut Page, app: &App) {
    let name = "haft_loop_panics_total";
    page.family(name, Kind::Counter, "Panics of this node's background loops; each starts again.");
    for (of, n) in app.store().measures().loop_panics() {
        page.sample(name, &[("loop", of)], n);
    }
}

fn webhooks(page: &mut Page, metrics: &Metrics) {
    let name = "haft_webhook_attempts_total";
    page.family(name, Kind::Counter, "Attempts of this node to deliver a webhook.");
    for (result, n) in ["delivered", "failed", "given_up"].into_iter().zip(&metrics.attempts) {
        page.sample(name, &[("result", result)], n.load(Ordering::Relaxed));
    }
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
