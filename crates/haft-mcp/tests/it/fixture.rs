//! A running server: the conformance suite's fixture, in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
    directory: PathBuf,
}

impl Server {
    /// Starts one on a store, which may be another's that died.
    pub(crate) fn start(directory: &Path) -> Self {
        let mut process = Command::new("setpriv")
            // The kernel kills it when the test's thread ends, however it ends.
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_haft-mcp-conformance")])
            .arg(directory)
            .arg("0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
        Self { process, url: url.replace("127.0.0.1", "localhost"), directory: directory.into() }
    }

    /// Kills it, as a power cut or an operator would, and starts another on the same store.
    pub(crate) fn killed(mut self) -> Self {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        Self::start(&self.directory)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap_or_default();
        self.process.wait().map(drop).unwrap_or_default();
    }
}
