//! The README's story with an installed binary: a call waits, somebody approves it, it runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::places::Installed;
use crate::dist::commands;

/// How long to wait for a state that has to come. It only has to be longer than it takes on any
/// machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How `haft` ends when a call waits for a person.
const WAITS: i32 = 3;

/// Returns after how many seconds the server was ready.
pub(super) fn tell(installed: &Installed, version: &str) -> anyhow::Result<f64> {
    let said = commands::output(&mut installed.haft(&["--version"]))?;
    if said.trim() != format!("haft {version}") {
        bail!("`haft --version` prints `{}`, expected version {version}", said.trim());
    }
    let port = free_port()?;
    let started = Instant::now();
    let mut server = Server::start(installed, port)?;
    server.wait_until_ready()?;
    let ready_s = started.elapsed().as_secs_f64();
    approve_a_call(installed).map_err(|error| server.explained(error))?;
    server.stop()?;
    Ok(ready_s)
}

fn approve_a_call(installed: &Installed) -> anyhow::Result<()> {
    let arguments = r#"{"command": "echo hi > f"}"#;
    let mut call = installed.haft(&["tools", "call", "shell_run", "--json", "--args", arguments]);
    let waits = call.stdin(Stdio::null()).output().context("starting `haft tools call`")?;
    if waits.status.code() != Some(WAITS) {
        bail!(
            "the call does not wait: {}\n{}",
            waits.status,
            String::from_utf8_lossy(&waits.stderr)
        );
    }
    if !written(&installed.data)?.is_empty() {
        bail!("the command ran before anybody approved it");
    }
    let answer: Value =
        serde_json::from_slice(&waits.stdout).context("reading the call's state")?;
    let call = answer["call"].as_str().context("a call without an id")?;
    commands::run(&mut installed.haft(&["approve", call]))?;
    match written(&installed.data)?.as_slice() {
        [text] if text == "hi\n" => Ok(()),
        other => bail!("expected one file with `hi` in the workspace, found {other:?}"),
    }
}

/// What the command wrote, in whichever session's workspace.
fn written(data: &Path) -> anyhow::Result<Vec<String>> {
    let workspaces = data.join("workspaces");
    if !workspaces.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&workspaces).context("listing the workspaces")?;
    let files = entries.flatten().map(|entry| entry.path().join("f"));
    let read = |file| fs::read_to_string(file).context("reading what the command wrote");
    files.filter(|file| file.exists()).map(read).collect()
}

fn free_port() -> anyhow::Result<u16> {
    let held = TcpListener::bind(("127.0.0.1", 0)).context("looking for a free port")?;
    Ok(held.local_addr()?.port())
}

/// A running `haft serve`, stopped when it is dropped.
struct Server {
    process: Child,
    port: u16,
    log: std::path::PathBuf,
}

impl Server {
    fn start(installed: &Installed, port: u16) -> anyhow::Result<Server> {
        let log = installed.log();
        let file = fs::File::create(&log).context("making a file for the server's output")?;
        let mut serve = installed.serve(port);
        serve.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let process = serve.spawn().with_context(|| format!("starting {serve:?}"))?;
        Ok(Server { process, port, log })
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.is_ready() {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("`haft serve` ended with {status}:\n{}", self.said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("`/readyz` does not answer 200 after {PATIENCE:?}:\n{}", self.said())
    }

    fn is_ready(&self) -> bool {
        let answer = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let host = format!("127.0.0.1:{}", self.port);
            write!(stream, "GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        answer().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    }

    /// Asks it to end, as systemd and container runtimes do, and expects that it does so well.
    fn stop(&mut self) -> anyhow::Result<()> {
        self.terminate();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("`haft serve` stopped with {status}:\n{}", self.said()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        bail!("`haft serve` goes on after SIGTERM:\n{}", self.said())
    }

    fn terminate(&self) {
        let pid = self.process.id().to_string();
        // It may have ended by itself.
        drop(Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status());
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        error.context(format!("the server said:\n{}", self.said()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(Some(_))) {
            return;
        }
        // A launcher that was killed would leave its program running.
        if self.stop().is_err() {
            drop(self.process.kill());
            drop(self.process.wait());
        }
    }
}
