//! An agent at the tools of `haft mcp`, whose user says yes to everything: what it then still cannot
//! do is what the boundary holds.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub(crate) use crate::serving::config_home;

/// The binary in a directory, with nothing of the developer's environment that matters to it.
pub(crate) fn haft_in(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    command.current_dir(directory).env("XDG_CONFIG_HOME", config_home());
    for name in ["HAFT_API_KEY", "HAFT_CONFIG", "HAFT_DATA", "HAFT_SERVER"] {
        command.env_remove(name);
    }
    command
}

pub(crate) struct Agent {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Agent {
    /// Starts `haft mcp` in a directory, which is its root unless the options say otherwise.
    pub(crate) fn start(directory: &Path, options: &[&str]) -> Self {
        let mut command = haft_in(directory);
        command.args(["mcp", "--consent-approves", "--user", "ann"]).args(options);
        Self::over(command)
    }

    pub(crate) fn over(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, to, from: BufReader::new(from) }
    }

    fn request(&mut self, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.to.write_all(format!("{request}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it has gone");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer.get("id").is_some() {
                assert!(answer.get("error").is_none(), "{answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool, and approves the call when that is asked.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let asked = self.request(json!({"name": tool, "arguments": arguments}));
        if asked["resultType"] != "input_required" {
            return asked;
        }
        let yes = json!({"approval": {"action": "accept", "content": {"approve": true}}});
        self.request(json!({
            "name": tool,
            "arguments": arguments,
            "requestState": asked["requestState"],
            "inputResponses": yes,
        }))
    }

    /// What a command of the persistent shell's kind answered, all in one text.
    pub(crate) fn shell(&mut self, command: &str) -> String {
        self.call("shell_run", &json!({"command": command})).to_string()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
