//! MCP clients that others wrote, each through one gated call.

use std::path::Path;
use std::process::Command;

use super::{copied, python_with, succeeds};

const HERE: &str = "crates/haft-mcp/tests/peers";
/// The server that is mounted behind Haft.
const PEER: &str = "crates/haft-mcp/tests/it/peer.py";
/// What does not go together in one place: some still need the SDK's first version.
const PYTHON: [(&str, &[&str]); 2] = [
    ("modern", &["python_sdk.py", "fastmcp_client.py", "pydantic_ai_agent.py"]),
    ("legacy", &["langchain_tools.py", "openai_agents.py"]),
];

pub(super) fn run(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let here = root.join(HERE);
    let with_haft = |mut command: Command| {
        command.env("HAFT", target.join("debug/haft")).env("HAFT_PEER", root.join(PEER));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    for (place, scripts) in PYTHON {
        let requirements = here.join(format!("{place}.txt"));
        let place = target.join("sdk/peers").join(place);
        let Some(program) = python_with(&requirements, &place)? else { return Ok(false) };
        for script in scripts {
            eprintln!("peer: {script}");
            let mut peer = with_haft(Command::new(&program));
            if !succeeds(peer.arg(script).current_dir(&here))? {
                return Ok(false);
            }
        }
    }
    let copy = target.join("sdk/peers/node");
    if !copied(&here, &copy)? {
        return Ok(false);
    }
    // Debian's is too old for some of them, so a newer one comes with them.
    let mut peers = with_haft(Command::new(copy.join("node_modules/node/bin/node")));
    succeeds(peers.args(["--test", "--test-concurrency=1", "peers.test.mjs"]).current_dir(&copy))
}
