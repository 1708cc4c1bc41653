//! `token_peer.py`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::threads::PATIENCE;

/// Whoever gives access tokens, killed when it is dropped.
pub(crate) struct TokenEndpoint {
    process: Child,
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl TokenEndpoint {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/token_peer.py");
        let mut process = Command::new("setpriv")
            // The kernel kills it when the test's thread ends, however it ends.
            .args(["--pdeathsig", "KILL", "python3"])
            .arg(script)
            .arg(directory.path().join("done"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { process, url: url.trim().to_owned(), directory }
    }

    /// Lets something happen between what it is asked and its answer.
    pub(crate) async fn meanwhile(&self, n_asked: usize, something: impl AsyncFnOnce()) {
        let held = self.directory.path().join("held");
        std::fs::write(&held, "").unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if self.asked().len() >= n_asked {
                something().await;
                return std::fs::remove_file(held).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it was not asked: {:?}", self.asked());
    }

    /// What it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let done = std::fs::read_to_string(self.directory.path().join("done"));
        done.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for TokenEndpoint {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}
