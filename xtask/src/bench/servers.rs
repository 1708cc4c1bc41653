//! MCP servers under load: Haft's beside the peers', one process each, one loaded at a time.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::findings::{Load, Measured, Named, figures, number};

/// How many calls are under way at once.
pub(super) const AT_ONCE: [u32; 3] = [1, 16, 64];

/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(60);

/// What is run to have a server: a program, its first arguments, the port, the other arguments.
#[derive(Clone)]
pub(super) struct Recipe {
    pub(super) name: &'static str,
    pub(super) tool: &'static str,
    /// The program and what comes before the port, or why there is none.
    pub(super) program: Measured<Vec<PathBuf>>,
    pub(super) after: Vec<String>,
}

/// A server that listens, stopped when it is dropped.
pub(super) struct Server {
    process: Child,
    port: u16,
    tool: &'static str,
}

impl Server {
    pub(super) fn start(recipe: &Recipe) -> Measured<Self> {
        let words = recipe.program.as_ref().map_err(Clone::clone)?;
        let (program, before) = words.split_first().ok_or("there is no program")?;
        let port = free_port().map_err(|error| format!("no port is free: {error}"))?;
        let mut command = Command::new(program);
        command.args(before).arg(port.to_string()).args(&recipe.after);
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
        let mut server = Self { process, port, tool: recipe.tool };
        server.listens()?;
        Ok(server)
    }

    fn listens(&mut self) -> Measured<()> {
        let until = Instant::now() + START_MAX;
        while Instant::now() < until {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("it ended with {status} instead of listening"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("it does not listen after {} s", START_MAX.as_secs()))
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    fn loaded(&self, load: &Path, at_once: u32, seconds: f64) -> Measured<Value> {
        let mut command = Command::new(load);
        command.arg(self.url()).arg(self.tool).arg(at_once.to_string()).arg(seconds.to_string());
        figures(command.arg(self.process.id().to_string()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Loads the servers in turns, and keeps of each the round in which it answered the most calls:
/// what is lost in the others went to somebody else's work.
pub(super) fn in_turns(
    load: &Measured<PathBuf>,
    servers: &[Named<Measured<Server>>],
    rounds: u32,
    seconds: f64,
) -> Vec<Named<Measured<Vec<Load>>>> {
    let mut best: Vec<Measured<Vec<Load>>> = servers.iter().map(|_| Ok(Vec::new())).collect();
    for at_once in AT_ONCE {
        for round in 0..rounds {
            for (server, best) in servers.iter().zip(&mut best) {
                let Ok(loads) = best else { continue };
                match one_load(load, &server.found, at_once, seconds) {
                    Ok(found) if round == 0 => loads.push(found),
                    Ok(found) => {
                        if let Some(last) = loads.last_mut().filter(|last| found.rate > last.rate) {
                            *last = found;
                        }
                    }
                    Err(reason) => *best = Err(reason),
                }
            }
        }
    }
    servers.iter().zip(best).map(|(server, best)| Named::new(&server.name, best)).collect()
}

fn one_load(
    load: &Measured<PathBuf>,
    server: &Measured<Server>,
    at_once: u32,
    seconds: f64,
) -> Measured<Load> {
    let (load, server) =
        (load.as_ref().map_err(Clone::clone)?, server.as_ref().map_err(Clone::clone)?);
    let found = server.loaded(load, at_once, seconds)?;
    Ok(Load {
        at_once,
        rate: number(&found, "calls_per_second")?,
        p50_us: number(&found, "p50_us")?,
        p99_us: number(&found, "p99_us")?,
        cpu_us: number(&found, "cpu_us_each")?,
    })
}
