//! Many sessions at once against a real `haft serve`: over HTTP, with a model behind it that
//! answers at once, and a client's tool that is answered at once.

mod client;
mod process;
mod provider;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use self::client::{Http, Lines};
use self::process::Process;
use super::Effort;
use crate::terminal::say;

/// How many connections ask for the small page at once.
const ASKERS: usize = 32;

/// How long a session may be silent before it counts as stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// What is to be borne.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Burden {
    /// How many sessions at once.
    #[arg(long, default_value_t = 200)]
    sessions: usize,
    /// How many calls each makes, one after the other.
    #[arg(long, default_value_t = 20)]
    calls: usize,
    /// How many times all of it, for what grows.
    #[arg(long, default_value_t = 3)]
    waves: usize,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    sessions: usize,
    calls_each: usize,
    waves: usize,
    calls: usize,
    /// Calls that a model asked for and that have no outcome in the log.
    lost: usize,
    /// Questions to the model in which a call stood without its result.
    unpaired: usize,
    calls_per_second: f64,
    resolve_p50_ms: f64,
    resolve_p99_ms: f64,
    /// The server's memory after each wave.
    memory_mb: Vec<f64>,
    requests: Requests,
    floor: Requests,
    /// Of the requests that a bare handler answers.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Requests {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Figures {
    pub(super) const fn holds(&self) -> bool {
        self.lost == 0 && self.unpaired == 0
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions, calls_each, waves, calls, lost, unpaired, .. } = self;
        writeln!(f, "{sessions} sessions of {calls_each} calls at once over HTTP, {waves} times")?;
        writeln!(f, "  {calls:>9}     calls, {lost} lost, {unpaired} unpaired")?;
        writeln!(
            f,
            "  {:>9.0} /s  calls, each with a question and a result",
            self.calls_per_second
        )?;
        writeln!(
            f,
            "  {:>9.2} ms  to resolve, {:.2} ms for 99 of 100",
            self.resolve_p50_ms, self.resolve_p99_ms
        )?;
        let memory: Vec<_> = self.memory_mb.iter().map(|mb| format!("{mb:.0}")).collect();
        writeln!(f, "  {:>9} MB  of memory after each", memory.join(", "))?;
        for (what, it) in [("small requests", &self.requests), ("of a bare handler", &self.floor)] {
            let Requests { per_second, p50_ms, p99_ms } = it;
            writeln!(
                f,
                "  {per_second:>9.0} /s  {what}, {p50_ms:.2} ms, {p99_ms:.2} ms for 99 of 100"
            )?;
        }
        write!(f, "  {:>9.2}     of the bare handler", self.ratio)
    }
}

pub(super) async fn measure(dir: &Path, load: Burden, effort: Effort) -> anyhow::Result<Figures> {
    let provider = provider::start(load.calls).await?;
    let server = Process::serve(dir, &provider.url)?;
    let mut admin = server.connect().await?;
    let (agent, environment) = prepare(&mut admin).await?;
    let (mut memory_mb, mut took, mut lost) = (Vec::new(), Vec::new(), 0);
    let started = Instant::now();
    for _ in 0..load.waves {
        let mut workers = JoinSet::new();
        for _ in 0..load.sessions {
            let (server, agent, environment) = (server.clone(), agent.clone(), environment.clone());
            workers.spawn(async move { session(&server, &agent, &environment, load.calls).await });
        }
        while let Some(done) = workers.join_next().await {
            let done = done.context("a session's client broke")??;
            took.extend(done.resolved);
            lost += done.lost;
        }
        memory_mb.push(memory(&server).await?);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let requests = requests(&server, "/haft/v1/me", effort).await?;
    let bare = Process::bare()?;
    let floor = self::requests(&bare, "/", effort).await?;
    let calls = load.waves * load.sessions * load.calls;
    took.sort_unstable();
    Ok(Figures {
        sessions: load.sessions,
        calls_each: load.calls,
        waves: load.waves,
        calls,
        lost: lost + calls.saturating_sub(took.len()),
        unpaired: provider.unpaired(),
        calls_per_second: calls as f64 / elapsed,
        resolve_p50_ms: quantile_ms(&took, 0.5),
        resolve_p99_ms: quantile_ms(&took, 0.99),
        memory_mb,
        ratio: requests.per_second / floor.per_second,
        requests,
        floor,
    })
}

async fn prepare(http: &mut Http) -> anyhow::Result<(String, String)> {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let tool = json!({
        "type": "custom", "name": "count", "description": "Counts. Use when asked to count.",
        "input_schema": schema,
    });
    let agent = json!({ "name": "load", "model": "claude-load", "tools": [tool] });
    let agent = http.post("/v1/agents", &agent).await?;
    let environment = http.post("/v1/environments", &json!({ "name": "load" })).await?;
    let id = |made: &Value| made["id"].as_str().map(str::to_owned).context("no id came back");
    Ok((id(&agent)?, id(&environment)?))
}

/// What a session's client saw.
struct Seen {
    resolved: Vec<Duration>,
    lost: usize,
}

/// Drives one session through all of its calls, and counts what its log says in the end.
async fn session(
    server: &Process,
    agent: &str,
    environment: &str,
    n_calls: usize,
) -> anyhow::Result<Seen> {
    let mut http = server.connect().await?;
    let wanted = json!({ "agent": agent, "environment_id": environment });
    let made = http.post("/v1/sessions", &wanted).await?;
    let session = made["id"].as_str().context("no session came back")?.to_owned();
    let path = format!("/haft/v1/sessions/{session}");
    let mut lines = server.connect().await?.follow(&format!("{path}/events/stream")).await?;
    let content = json!([{ "type": "text", "text": "count" }]);
    let message = json!({ "events": [{ "type": "user.message", "content": content }] });
    http.post(&format!("/v1/sessions/{session}/events"), &message).await?;
    let mut resolved = Vec::new();
    let result = json!({ "type": "result", "outcome": { "ok": true, "result": "counted" } });
    loop {
        let event = next_event(&mut lines).await?;
        match event["type"].as_str() {
            Some("call.suspended") => {
                let call = event["call"].as_str().context("a call without an id")?;
                let started = Instant::now();
                http.post(&format!("{path}/calls/{call}/resolve"), &result).await?;
                resolved.push(started.elapsed());
            }
            // A run has a turn for each call, and ends with one that makes none.
            Some("turn.ended") if resolved.len() >= n_calls => break,
            _ => {}
        }
    }
    let logged = http.get(&format!("{path}/events?limit=1000")).await?;
    Ok(Seen { resolved, lost: without_outcome(&logged) })
}

async fn next_event(lines: &mut Lines) -> anyhow::Result<Value> {
    loop {
        let line = tokio::time::timeout(SILENCE_MAX, lines.next()).await;
        let line = line.context("a session is stuck")??.context("a stream broke off")?;
        if let Some(data) = line.strip_prefix("data: ") {
            let entry: Value = serde_json::from_str(data).context("reading an event")?;
            if entry["event"].is_object() {
                return Ok(entry["event"].clone());
            }
        }
    }
}

fn without_outcome(logged: &Value) -> usize {
    let events = logged["data"].as_array().into_iter().flatten().map(|entry| &entry["event"]);
    let (mut proposed, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        let _is_new = match event["type"].as_str() {
            Some("call.proposed") => proposed.insert(event["call"].as_str()),
            Some("call.finished") => finished.insert(event["outcome"]["call"].as_str()),
            _ => false,
        };
    }
    proposed.difference(&finished).count()
}

async fn memory(server: &Process) -> anyhow::Result<f64> {
    let page = server.connect().await?.text("/metrics").await?;
    let line = page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    let bytes: f64 = line.context("the server does not tell its memory")?.trim().parse()?;
    Ok(bytes / 1e6)
}

async fn requests(
    server: &Process,
    path: &'static str,
    effort: Effort,
) -> anyhow::Result<Requests> {
    let (started, span) = (Instant::now(), effort.span() * u32::try_from(effort.rounds)?);
    let mut askers = JoinSet::new();
    for _ in 0..ASKERS {
        let mut http = server.connect().await?;
        askers.spawn(async move {
            let mut took = Vec::new();
            while started.elapsed() < span {
                let asked = Instant::now();
                http.text(path).await?;
                took.push(asked.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(done) = askers.join_next().await {
        took.extend(done??);
    }
    took.sort_unstable();
    Ok(Requests {
        per_second: took.len() as f64 / started.elapsed().as_secs_f64(),
        p50_ms: quantile_ms(&took, 0.5),
        p99_ms: quantile_ms(&took, 0.99),
    })
}

fn quantile_ms(sorted: &[Duration], quantile: f64) -> f64 {
    let at = (sorted.len() as f64 * quantile) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(0.0, Duration::as_secs_f64) * 1e3
}

/// Answers every request with a word until its input ends: the floor.
pub(super) async fn serve_bare() -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("api http://{}", listener.local_addr()?));
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "ok" }));
    axum::serve(listener, router).await.context("serving the floor")
}
