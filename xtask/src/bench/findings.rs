//! What was measured, and on what.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Below which load nobody else is at work.
const REST_LOAD: f64 = 0.3;

/// How long is waited for that.
const REST_MAX: Duration = Duration::from_secs(240);

/// A figure, or why there is none.
pub(super) type Measured<T> = Result<T, String>;

#[derive(Debug)]
pub(super) struct Findings {
    pub(super) machine: Machine,
    pub(super) durable: Vec<Named<Measured<Value>>>,
    pub(super) history: Vec<Named<Measured<Vec<Point>>>>,
    pub(super) dispatch: Vec<Named<Measured<Vec<Point>>>>,
    /// A trivial tool called over MCP; the bare server is the first.
    pub(super) servers: Vec<Named<Measured<Vec<Load>>>>,
    /// The same through another server; the bare proxy is the first.
    pub(super) proxies: Vec<Named<Measured<Vec<Load>>>>,
    pub(super) parked: Vec<Measured<Value>>,
    pub(super) nodes: Measured<Vec<Point>>,
    pub(super) searches: Measured<Vec<String>>,
    /// Each peer's version, or why it is not there.
    pub(super) peers: Vec<Named<Measured<String>>>,
}

#[derive(Debug, Clone)]
pub(super) struct Named<T> {
    pub(super) name: String,
    pub(super) found: T,
}

impl<T> Named<T> {
    pub(super) fn new(name: &str, found: T) -> Self {
        Self { name: name.to_owned(), found }
    }
}

/// What something costs at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) size: f64,
    pub(super) cost: f64,
}

/// How a server answers with so many calls under way at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    pub(super) at_once: u32,
    /// Calls a second.
    pub(super) rate: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// The server's own processor time for each call.
    pub(super) cpu_us: f64,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
    /// How many processes wanted a processor when it began: others' work is in every figure.
    pub(super) load: String,
    pub(super) date: String,
}

impl Machine {
    pub(super) fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name"));
        Self {
            processor: model
                .map_or("unknown", |model| model.trim_start_matches([' ', '\t', ':']))
                .into(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: load(),
            date: said(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))
                .unwrap_or_default(),
        }
    }

    /// Lets what was just compiled get to the disk, and the cores cool down, if that ends soon.
    pub(super) fn come_to_rest() {
        if let Err(trouble) = said(&mut Command::new("sync")) {
            eprintln!("what was compiled may still be on its way to the disk: {trouble}");
        }
        let until = Instant::now() + REST_MAX;
        while load().parse::<f64>().is_ok_and(|load| load > REST_LOAD) && Instant::now() < until {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn load() -> String {
    let read = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    read.split(' ').next().unwrap_or_default().to_owned()
}

impl Findings {
    pub(super) fn new(machine: Machine) -> Self {
        let missing = || "it was not asked for".to_owned();
        Self {
            machine,
            durable: Vec::new(),
            history: Vec::new(),
            dispatch: Vec::new(),
            servers: Vec::new(),
            proxies: Vec::new(),
            parked: Vec::new(),
            nodes: Err(missing()),
            searches: Err(missing()),
            peers: Vec::new(),
        }
    }
}

/// Runs a program and returns what it says, or why it failed, in one line.
pub(super) fn said(command: &mut Command) -> Measured<String> {
    let output = command.output().map_err(|error| format!("it does not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(text);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
    Err(format!("{}: {}", output.status, last.trim()))
}

/// Runs a program whose answer is the last thing that it prints, as JSON.
pub(super) fn figures(command: &mut Command) -> Measured<Value> {
    let text = said(command)?;
    let from = text.rfind("\n{").map_or(0, |at| at + 1);
    serde_json::from_str(&text[from..]).map_err(|error| format!("its answer is no JSON: {error}"))
}

/// Takes a number out of an answer.
pub(super) fn number(value: &Value, member: &str) -> Measured<f64> {
    value[member].as_f64().ok_or_else(|| format!("its answer has no `{member}`"))
}
