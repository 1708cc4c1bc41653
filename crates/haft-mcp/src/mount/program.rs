//! A mounted server that is a program of this machine: how it is started, how messages reach it,
//! and what it says of itself.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::lines::BoundedLines;

/// How long a program may take to end once its stdin is closed.
const END_MAX: Duration = Duration::from_secs(3);

/// How much of what a program says about itself is remembered.
const LAST_LINES: usize = 5;
/// The longest line of it that is read as one.
const LINE_BYTES: u64 = 4 << 10;

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

/// A program that runs, and the messages to it and from it.
pub(super) struct Program {
    child: Child,
    messages: AsyncRwTransport<RoleClient, BoundedLines<ChildStdout>, ChildStdin>,
    probe: Probe,
}

/// The question whether a server speaks the current revision.
///
/// rmcp waits ten seconds for the answer, then sends `initialize` of the earlier revision over the
/// same connection, and takes the next answer for that one's. A server that takes longer to start
/// answers both, one after the other.
#[derive(Default)]
struct Probe {
    ids: Vec<RequestId>,
    is_given_up: bool,
    /// Told when the server says yes after all.
    late_yes: Arc<AtomicBool>,
}

impl Program {
    /// Starts a program. Returns what it says on its stderr beside it. `late_yes` is set when it
    /// turns out to speak the current revision after `initialize` of the earlier one was sent.
    pub(super) fn start(
        mut command: Command,
        message_bytes_max: usize,
        late_yes: Arc<AtomicBool>,
    ) -> io::Result<(Self, Option<ChildStderr>)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let piped = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) =
            piped.ok_or_else(|| io::Error::other("it has no stdin and stdout"))?;
        let lines = BoundedLines::new(stdout, message_bytes_max);
        // The lines are bounded already.
        let messages = AsyncRwTransport::new(lines, stdin).with_max_line_length(usize::MAX);
        let stderr = child.stderr.take();
        Ok((Self { child, messages, probe: Probe { late_yes, ..Probe::default() } }, stderr))
    }
}

impl Probe {
    fn sends(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else { return };
        match &request.request {
            ClientRequest::DiscoverRequest(_) => self.ids.push(request.id.clone()),
            ClientRequest::InitializeRequest(_) => self.is_given_up = true,
            _ => {}
        }
    }

    /// Returns whether a message answers the probe after it was given up.
    fn is_late(&self, message: &RxJsonRpcMessage<RoleClient>) -> bool {
        if !self.is_given_up {
            return false;
        }
        match message {
            JsonRpcMessage::Response(response) if self.ids.contains(&response.id) => {
                self.late_yes.store(true, Ordering::Relaxed);
                true
            }
            JsonRpcMessage::Error(error) => {
                error.id.as_ref().is_some_and(|id| self.ids.contains(id))
            }
            _ => false,
        }
    }
}

impl Transport<RoleClient> for Program {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.probe.sends(&item);
        self.messages.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.messages.receive().await?;
            if !self.probe.is_late(&message) {
                return Some(message);
            }
        }
    }

    /// Closes its stdin, which asks it to end, and kills it if it does not.
    async fn close(&mut self) -> io::Result<()> {
        self.messages.close().await?;
        match tokio::time::timeout(END_MAX, self.child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => self.child.kill().await,
        }
    }
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
