//! A mounted server that is a program of this machine: how it is started, and what it says of
//! itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStderr, Command};

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
    command.envs(env).kill_on_drop(true);
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
