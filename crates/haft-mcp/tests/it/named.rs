//! `named_peer.py`, for the tests of haft-server too.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The server that knows its callers by their tokens, killed when it is dropped.
pub(crate) struct Named {
    process: Child,
    pub(crate) url: String,
    pub(crate) directory: tempfile::TempDir,
}

impl Named {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haft-mcp/tests/it");
        let mut process = Command::new("setpriv")
            // The kernel kills it when the test's thread ends, however it ends.
            .args(["--pdeathsig", "KILL", "python3"])
            .arg(tests.join("named_peer.py"))
            .arg(directory.path().join("done"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned(), directory }
    }

    /// What it did for someone, in order.
    pub(crate) fn did_for(&self, name: &str) -> Vec<String> {
        let done = std::fs::read_to_string(self.directory.path().join("done")).unwrap();
        let theirs = done.lines().filter_map(|line| line.strip_suffix(&format!(" {name}")));
        theirs.map(str::to_owned).collect()
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}
