//! A mounted server that is a program of this machine: how it is started, and what it says of
//! itself.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// How much of what a program says about itself is remembered.
const LAST_LINES: usize = 5;
/// The longest line of it that is read as one.
const LINE_BYTES: u64 = 4 << 10;
/// How long a program may take to end once nothing more comes to its stdin.
const END_WITHIN: Duration = Duration::from_secs(3);

/// A program that runs, and the messages over its stdin and stdout. It is killed when this is
/// dropped.
pub(super) struct Program {
    child: Child,
    messages: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
}

impl Program {
    /// Starts a program; what it says on its stderr can be read beside it.
    pub(super) fn start(mut command: Command) -> io::Result<(Self, Option<ChildStderr>)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no stdin and stdout"));
        };
        let stderr = child.stderr.take();
        Ok((Self { child, messages: AsyncRwTransport::new(stdout, stdin) }, stderr))
    }
}

impl Transport<RoleClient> for Program {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.messages.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.messages.receive()
    }

    /// Closes its stdin, and kills it if it does not end then.
    async fn close(&mut self) -> io::Result<()> {
        self.messages.close().await?;
        match tokio::time::timeout(END_WITHIN, self.child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => self.child.kill().await,
        }
    }
}

pub(super) fn command(program: &str, args: &[String], env: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    // Nothing of this process's environment, where keys are: what it needs is given to it.
    command.args(args).env_clear();
    for name in ["PATH", "HOME", "LANG"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(env);
    command
}

/// Keeps the last lines that a program says on its stderr.
pub(super) async fn remember(stderr: ChildStderr, lines: Arc<Mutex<VecDeque<String>>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while (&mut reader).take(LINE_BYTES).read_until(b'\n', &mut line).await.is_ok_and(|n| n > 0) {
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(text);
        if lines.len() > LAST_LINES {
            lines.pop_front();
        }
        line.clear();
    }
}
