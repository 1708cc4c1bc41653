//! The servers that are measured: this very program, in processes of their own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

use super::client::Http;

const KEY: &str = "bench-admin-key";

/// A server, killed with its last handle.
#[derive(Clone)]
pub(super) struct Process {
    address: String,
    _child: Arc<Killed>,
}

struct Killed(Mutex<Child>);

impl Drop for Killed {
    fn drop(&mut self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended by itself.
        drop(child.kill());
        drop(child.wait());
    }
}

impl Process {
    pub(super) fn serve(data: &Path, provider: &str) -> anyhow::Result<Self> {
        let mut command = this_program()?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data"]);
        command.arg(data).env("HAFT_API_KEY", KEY);
        command.env("ANTHROPIC_BASE_URL", provider).env("ANTHROPIC_API_KEY", "none");
        Self::start(command)
    }

    pub(super) fn bare() -> anyhow::Result<Self> {
        let mut command = this_program()?;
        command.args(["bench", "bare"]);
        Self::start(command)
    }

    fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("starting")?;
        let said = child.stdout.take().context("a server without a voice")?;
        let killed = Arc::new(Killed(Mutex::new(child)));
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        let api = lines.find_map(|line| {
            let (what, address) = line.split_once("http://")?;
            what.starts_with("api").then(|| address.trim_end_matches("/v1").to_owned())
        });
        Ok(Self { address: api.context("the server does not start")?, _child: killed })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Http> {
        Http::connect(&self.address, KEY).await
    }
}

#[expect(clippy::disallowed_methods, reason = "the server that is measured is this very program")]
fn this_program() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("finding this program")?))
}
