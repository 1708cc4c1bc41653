//! Calls a tool over streamable HTTP, so many at once, each on a connection of its own, for so
//! many seconds after a warm-up. Prints one JSON object.
//!
//! usage: load URL TOOL AT_ONCE SECONDS PID

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

type Failure = Box<dyn Error + Send + Sync>;

const VERSION: &str = "2026-07-28";
const WARM_UP: Duration = Duration::from_millis(700);
/// What the tool answers to the arguments that it is given.
const ANSWER: &[u8] = b"\"text\":\"5\"";

struct Target {
    host: String,
    path: String,
    tool: String,
}

impl Target {
    fn parse(url: &str, tool: String) -> Result<Self, Failure> {
        let rest = url.strip_prefix("http://").ok_or("the address must begin with http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { host: host.to_owned(), path: format!("/{path}"), tool })
    }

    fn request(&self, id: u64) -> Result<Request<Full<Bytes>>, Failure> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": self.tool, "arguments": {"a": 2, "b": 3}, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let request = Request::post(&self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", &self.tool);
        Ok(request.body(Full::new(Bytes::from(body.to_string())))?)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let stream = TcpStream::connect(&self.host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { connection.await.ok() });
        Ok(sender)
    }
}

/// Calls until the time is over; returns how long each call took that began after the warm-up.
async fn worker(target: Arc<Target>, from: Instant, until: Instant) -> Result<Vec<u32>, Failure> {
    let mut sender = target.connect().await?;
    let mut times = Vec::new();
    for id in 1.. {
        let began = Instant::now();
        if began >= until {
            break;
        }
        sender.ready().await?;
        let response = sender.send_request(target.request(id)?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if !status.is_success() || !body.windows(ANSWER.len()).any(|part| part == ANSWER) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
        }
        if began >= from {
            times.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
    }
    Ok(times)
}

/// The processor time that a process has used, in microseconds: its fields of `/proc` count
/// hundredths of a second.
fn used(pid: &str) -> Result<u64, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).ok_or("no times in /proc")?;
    Ok((user + system) * 10_000)
}

async fn measure(args: Vec<String>) -> Result<Value, Failure> {
    let [url, tool, at_once, seconds, pid] = args.try_into().map_err(|_| USAGE)?;
    let target = Arc::new(Target::parse(&url, tool)?);
    let at_once: u32 = at_once.parse()?;
    let from = Instant::now() + WARM_UP;
    let until = from + Duration::from_secs_f64(seconds.parse()?);
    let workers: Vec<_> =
        (0..at_once).map(|_| tokio::spawn(worker(Arc::clone(&target), from, until))).collect();
    tokio::time::sleep_until(from.into()).await;
    let before = used(&pid)?;
    tokio::time::sleep_until(until.into()).await;
    let cpu = used(&pid)? - before;
    let mut times = Vec::new();
    for worker in workers {
        times.extend(worker.await??);
    }
    times.sort_unstable();
    let quantile = |share: f64| times.get((times.len() as f64 * share) as usize).copied();
    Ok(json!({
        "calls_per_second": times.len() as f64 / (until - from).as_secs_f64(),
        "p50_us": quantile(0.5),
        "p99_us": quantile(0.99),
        "cpu_us_each": cpu as f64 / times.len().max(1) as f64,
    }))
}

const USAGE: &str = "usage: load URL TOOL AT_ONCE SECONDS PID";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    println!("{}", measure(std::env::args().skip(1).collect()).await?);
    Ok(())
}
