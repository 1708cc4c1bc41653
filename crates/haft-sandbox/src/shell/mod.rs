//! A real bash that stays: its directory, variables and functions survive from command to command.
//!
//! It has no terminal and no prompt. It reads what to do from its standard input, one command at a time,
//! and each command finds that closed, as well as the file on which the shell reports. Output goes to one
//! of a few pairs of pipes in turn, so what an earlier command's background jobs say later is not taken
//! for the output of the next.

mod driver;
mod status;

use crate::environment::Variables;
use crate::launcher::Launcher;
use crate::policy::{Limits, Policy};
use crate::process::{
    Command, Exit, Keep, Running, Said, Sandbox, SandboxError, Sink, SinkState, pipe,
};
use crate::virtual_path::VirtualPath;
use driver::{Driver, Shared};
use rustix::process::Signal;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A shell in a sandbox of its own. Everything in it ends when it is dropped.
#[derive(Debug)]
pub struct Shell {
    shared: Arc<Shared>,
    running: Running,
    orders: Arc<Mutex<std::fs::File>>,
    _sandbox: Sandbox,
}

/// A script for the shell.
#[derive(Debug)]
pub struct Script {
    /// Its text.
    pub text: String,
    /// How long it may take. Then it is interrupted; if that does not help, the shell is ended.
    pub wall: Duration,
    /// How long an interruption may take to help.
    pub grace: Duration,
    /// How much of what it says stays in memory.
    pub keep: Keep,
    /// Where all that it says goes.
    pub sink: Option<Sink>,
}

/// What a shell is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellState {
    /// Nothing.
    Idle,
    /// It runs the command with this number.
    Busy {
        /// Counted from 1 in this shell.
        command: u64,
    },
    /// It is being ended.
    Dying,
    /// It has ended. Another can be opened with the directory and variables of the last command.
    Closed {
        /// How.
        exit: Exit,
    },
}

/// Why a script was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// It runs another.
    #[error("the shell runs command {command}: wait for it, or interrupt it")]
    Busy {
        /// Its number.
        command: u64,
    },
    /// It has ended or is about to.
    #[error("the shell has ended: open another")]
    Closed,
    /// The script has NUL in it.
    #[error("the script has a NUL byte in it")]
    Nul,
    /// The shell does not listen.
    #[error("the shell does not take the script: {0}")]
    Io(#[from] io::Error),
}

/// A command of the shell that was started.
#[derive(Clone, Debug)]
pub struct Executing {
    number: u64,
    shared: Arc<Shared>,
}

/// A command of the shell that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Its number, counted from 1 in this shell.
    pub command: u64,
    /// How it ended.
    pub end: End,
    /// What it said.
    pub stdout: Said,
    /// What it complained of.
    pub stderr: Said,
    /// How its sink fared; `None` without one.
    pub sink: Option<SinkState>,
    /// How long it took.
    pub took: Duration,
    /// Where the shell is since; `None` when that is in no root, or the shell has ended.
    pub cwd: Option<VirtualPath>,
    /// What the shell exports since, as far as a fresh one may be given it.
    pub variables: Option<Variables>,
}

/// How a command of the shell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this code; the shell goes on.
    Exited(u8),
    /// It was interrupted when its time was up, with this code; the shell goes on.
    TimedOut(u8),
    /// A process of it was ended because the sandbox had used up its memory; the shell goes on.
    MemoryLimit(u8),
    /// The shell ended with it.
    ShellEnded(Exit),
}

/// Pairs of pipes that take turns.
const PAIRS: usize = 3;
/// The first number of the pairs; 3 is for reports.
const FIRST: usize = 4;
/// A shell that nobody uses is its caller's to close.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

impl Script {
    /// A script with the time for work.
    pub fn new(text: impl Into<String>) -> Self {
        let Limits { wall, grace, .. } = Limits::WORK;
        Self { text: text.into(), wall, grace, keep: Keep::default(), sink: None }
    }
}

impl Shell {
    /// Opens a shell in a fresh sandbox, in a directory and with variables that may be those of an earlier one.
    ///
    /// # Errors
    /// When the sandbox or the shell cannot be had.
    pub fn open(
        launcher: &Launcher,
        policy: &Policy,
        limits: Limits,
        cwd: VirtualPath,
        variables: Variables,
    ) -> Result<Self, SandboxError> {
        let sandbox = Sandbox::open(launcher, policy)?;
        let mut command = Command::new(["/bin/bash", "--noprofile", "--norc", "-s"], cwd);
        command.variables = variables;
        command.limits = Limits { wall: LIFE, output_bytes: None, ..limits };
        let (their_input, orders) = pipe()?;
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..=2 * PAIRS {
            let (read, write) = pipe()?;
            rustix::io::ioctl_fionbio(&read, true).map_err(io::Error::from)?;
            ours.push(read);
            theirs.push(write);
        }
        let beside: Vec<_> = theirs.iter().map(|file| file.as_fd()).collect();
        let running = sandbox.start(command, their_input, &beside)?;
        drop(theirs);
        let mut orders = std::fs::File::from(orders);
        // Without a trap an interrupt would end the shell; with this one it ends every loop of the command.
        orders.write_all(b"trap 'builtin break 1024 2>/dev/null' INT\n")?;
        let orders = Arc::new(Mutex::new(orders));
        let shared = Driver::start(running.clone(), ours, Arc::clone(&orders))?;
        Ok(Self { shared, running, orders, _sandbox: sandbox })
    }

    /// Starts a script. Refuses at once while another runs.
    ///
    /// # Errors
    /// When the shell is busy or has ended.
    pub fn exec(&self, script: Script) -> Result<Executing, ShellError> {
        if script.text.contains('\0') {
            return Err(ShellError::Nul);
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::from)?;
        let nonce = format!("{:032x}", u128::from_ne_bytes(random));
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.shared.begin(&script, nonce, script.keep)?;
        let pair = self.shared.install(number, script.sink);
        let out = FIRST + 2 * pair;
        let line = status::run(&script.text, (out, out + 1), 3..FIRST + 2 * PAIRS);
        orders.write_all(line.as_bytes())?;
        Ok(Executing { number, shared: Arc::clone(&self.shared) })
    }

    /// What it is doing.
    pub fn state(&self) -> ShellState {
        self.shared.state()
    }

    /// The command that runs, or the last one.
    pub fn current(&self) -> Option<Executing> {
        let number = self.shared.last()?;
        Some(Executing { number, shared: Arc::clone(&self.shared) })
    }

    /// Interrupts the command that runs, as Ctrl-C would, and ends what it left in the background
    /// along with it.
    pub fn interrupt(&self) {
        self.shared.stop();
        self.running.signal(Signal::INT);
    }

    /// What background jobs of earlier commands said since.
    pub fn background(&self) -> Said {
        self.shared.background()
    }
}

impl Executing {
    /// Its number, counted from 1 in this shell.
    pub fn command(&self) -> u64 {
        self.number
    }

    /// Waits for its end, but not longer than this. `None` also when a later one has run since.
    pub fn wait_for(&self, time: Duration) -> Option<Executed> {
        self.shared.wait_for(self.number, time)
    }

    /// Waits for its end without holding a thread, in a task of whatever runtime. `None` when a
    /// later one has run since.
    pub fn ended(&self) -> impl Future<Output = Option<Executed>> + Send + use<> {
        self.shared.ended(self.number)
    }

    /// What it has said so far, and complained of; `None` when a later one has run since.
    pub fn said(&self) -> Option<(Said, Said)> {
        self.shared.said(self.number)
    }
}
