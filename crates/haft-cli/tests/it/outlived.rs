//! What the commands of a session leave running, over HTTP, as the process table shows it.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::mcp::until;
use crate::serving::Serving;

/// The model that has `bash` run what it is told, killed when it is dropped.
pub(crate) struct BashModel {
    process: Child,
    url: String,
}

impl BashModel {
    pub(crate) fn start() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut process = Command::new("setpriv")
            // The kernel kills it when the test's thread ends, however it ends.
            .args(["--pdeathsig", "KILL", "python3"])
            .arg(here.join("tests/it/bash_model.py"))
            .arg(here.join("../haft-server/tests/sdk"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned() }
    }

    pub(crate) fn serve(&self, data: &Path) -> Serving {
        self.serve_with(data, &[])
    }

    /// Starts a server whose agents have this model.
    pub(crate) fn serve_with(&self, data: &Path, more: &[&str]) -> Serving {
        self.serve_by(Serving::command(data, more), None)
    }

    /// The same by a command, with the key that the server has.
    pub(crate) fn serve_by(&self, mut command: Command, key: Option<&str>) -> Serving {
        command.env("ANTHROPIC_BASE_URL", &self.url).env("ANTHROPIC_API_KEY", "sk-none");
        Serving::answering(command.spawn().unwrap(), key).unwrap()
    }
}

impl Drop for BashModel {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}

/// Whether a process sleeps for so long anywhere on the machine.
fn sleeps(seconds: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut commands =
        processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.any(|command| {
        let mut words = command.split(|byte| *byte == 0);
        words.next().is_some_and(|name| name.ends_with(b"sleep"))
            && words.any(|word| word == seconds.as_bytes())
    })
}

fn is_idle(server: &Serving, session: &str) -> bool {
    server.get(&format!("/v1/sessions/{session}"))["status"] == "idle"
}

/// Opens a session and has it run a command.
fn run(server: &Serving, agent: &str, input: &Value) -> String {
    let wanted = json!({ "agent": agent, "environment_id": "env_demo" });
    let session = server.post("/v1/sessions", &wanted)["id"].as_str().unwrap().to_owned();
    let content = json!([{ "type": "text", "text": input.to_string() }]);
    let events = json!({ "events": [{ "type": "user.message", "content": content }] });
    server.post(&format!("/v1/sessions/{session}/events"), &events);
    session
}

// W5: what a command left in the background ends with the session, an interrupt, the archive, and
// with the time of its command.
#[test]
fn what_a_session_left_running_does_not_outlive_it() {
    let (model, data) = (BashModel::start(), tempfile::tempdir().unwrap());
    let server = model.serve(data.path());
    let policy = json!({ "permission_policy": { "type": "always_allow" } });
    let tools = json!([{ "type": "agent_toolset_20260401", "default_config": policy }]);
    let agent = json!({ "name": "runner", "model": "anthropic/claude-fake", "tools": tools });
    let agent = server.post("/v1/agents", &agent)["id"].as_str().unwrap().to_owned();
    let seconds = |n: u32| format!("{}.{n}", 200_000 + std::process::id());
    let gone = |seconds: &str| until(|| (!sleeps(seconds)).then_some(()));
    for (n, how) in ["delete", "archive", "interrupt"].into_iter().enumerate() {
        let seconds = seconds(u32::try_from(n).unwrap());
        let command = json!({ "command": format!("sleep {seconds} & echo begun") });
        let session = run(&server, &agent, &command);
        until(|| sleeps(&seconds).then_some(()));
        until(|| is_idle(&server, &session).then_some(()));
        assert!(sleeps(&seconds), "it goes on while its session may use it");
        let path = format!("/v1/sessions/{session}");
        match how {
            "delete" => assert_eq!(server.ask("DELETE", &path, &Value::Null).0, 200),
            "archive" => drop(server.post(&format!("{path}/archive"), &json!({}))),
            _ => {
                let interrupt = json!({ "events": [{ "type": "user.interrupt" }] });
                server.post(&format!("{path}/events"), &interrupt);
            }
        }
        gone(&seconds);
    }
    let (left, waited) = (seconds(8), seconds(9));
    let command = format!("sleep {left} & sleep {waited}");
    let session = run(&server, &agent, &json!({ "command": command, "timeout_ms": 800 }));
    until(|| sleeps(&left).then_some(()));
    until(|| is_idle(&server, &session).then_some(()));
    gone(&left);
    gone(&waited);
}
