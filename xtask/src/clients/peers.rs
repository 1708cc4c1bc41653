//! MCP clients that others wrote, each through one gated call.

use std::path::Path;
use std::process::Command;

use super::{copied, python_with, succeeds};

const HERE: &str = "crates/haft-mcp/tests/peers";
/// The server that is mounted behind Haft.
const PEER: &str = "crates/haft-mcp/tests/it/peer.py";
/// What does not go together in one place: some still need the SDK's first version.
const PLACES: [&str; 2] = ["modern", "legacy"];
const PYTHON: [(&str, &str); 8] = [
    ("modern", "python_sdk.py"),
    ("modern", "consent.py"),
    ("legacy", "consent.py"),
    ("modern", "fastmcp_client.py"),
    ("modern", "pydantic_ai_agent.py"),
    ("legacy", "langchain_tools.py"),
    ("legacy", "openai_agents.py"),
    ("modern", "reference_servers.py"),
];

pub(super) fn run(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let (here, places) = (root.join(HERE), target.join("sdk/peers"));
    let with_haft = |mut command: Command| {
        command.env("HAFT", target.join("debug/haft")).env("HAFT_PEER", root.join(PEER));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    for place in PLACES {
        let requirements = here.join(format!("{place}.txt"));
        if python_with(&requirements, &places.join(place))?.is_none() {
            return Ok(false);
        }
    }
    for (place, script) in PYTHON {
        eprintln!("peer: {script}");
        let mut peer = with_haft(Command::new(places.join(place).join("bin/python")));
        if !succeeds(peer.arg(script).current_dir(&here))? {
            return Ok(false);
        }
    }
    let copy = places.join("node");
    if !copied(&here, &copy)? {
        return Ok(false);
    }
    // Debian's is too old for some of them, so a newer one comes with them.
    let mut peers = with_haft(Command::new(copy.join("node_modules/node/bin/node")));
    succeeds(peers.args(["--test", "--test-concurrency=1", "peers.test.mjs"]).current_dir(&copy))
}
