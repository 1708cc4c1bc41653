//! Where a row works: a data directory, a database if it has one, the counter outside.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::serving::Serving;

/// The key of every server of the table.
const KEY: &str = "haft_key_of_the_fault_table_0123456789";

/// What a server is started over.
pub(crate) struct Place {
    pub(crate) data: PathBuf,
    pub(crate) url: Option<String>,
    /// Outside of the data directory and of its disk.
    outside: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new(url: Option<String>) -> Self {
        let outside = tempfile::tempdir().unwrap();
        let data = outside.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let place = Self { data, url, outside };
        place.mount_counter(60);
        place
    }

    fn config(&self) -> PathBuf {
        self.outside.path().join("haft.toml")
    }

    fn counter(&self) -> PathBuf {
        self.outside.path().join("counter")
    }

    /// Mounts the counting tools, whose calls may take so many seconds.
    pub(crate) fn mount_counter(&self, timeout: u32) {
        let config = self.config();
        std::fs::write(&config, "").unwrap();
        let counter = format!("COUNTER={}", self.counter().display());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/counter.py");
        let added = Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(["mcp", "add", "counter", "--env", &counter, "--config"])
            .args([config.as_os_str(), "--".as_ref(), "python3".as_ref(), script.as_os_str()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(added.unwrap().success());
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}timeout = {timeout}\n")).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Serving::command(&self.data, &["--log-level", "error"]);
        command.arg("--config").arg(self.config()).args(more).env("HAFT_API_KEY", KEY);
        if let Some(url) = &self.url {
            command.args(["--database-url", url]);
        }
        command
    }

    /// Starts a server and waits until the counting tools are there.
    pub(crate) fn start(&self, more: &[&str]) -> Serving {
        let mut command = self.command(more);
        let process = command.stderr(Stdio::null()).spawn().unwrap();
        let server = Serving::answering(process, Some(KEY)).expect("the server starts");
        crate::stage::until("the counter is mounted", || {
            let (_, mounted) = server.ask("GET", "/haft/v1/mcp/servers/counter", &Value::Null);
            mounted["tools"]["pay"].is_string().then_some(())
        });
        server
    }

    /// Starts a server that should refuse to; returns what it said if it did.
    pub(crate) fn refused_start(&self) -> Option<String> {
        let mut process = self.command(&[]).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = process.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut said = String::new();
            log.read_to_string(&mut said).unwrap();
            said
        });
        match Serving::answering(process, Some(KEY)) {
            Some(server) => {
                drop(server);
                drop(said.join());
                None
            }
            None => said.join().ok(),
        }
    }

    /// Runs a command of the binary over this place.
    pub(crate) fn haft(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HAFT_DATA", &self.data).env("HAFT_API_KEY", KEY);
        if let Some(url) = &self.url {
            command.env("HAFT_DATABASE_URL", url);
        }
        command.current_dir(&self.data).stdin(Stdio::null()).output().unwrap()
    }

    /// How often each token took effect.
    pub(crate) fn effects(&self) -> BTreeMap<String, usize> {
        counted(&self.counter())
    }

    /// Whether the tool was entered with a token, whatever it did then.
    pub(crate) fn was_entered(&self, token: &str) -> bool {
        counted(&self.counter().with_extension("entered")).contains_key(token)
    }
}

fn counted(path: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}
