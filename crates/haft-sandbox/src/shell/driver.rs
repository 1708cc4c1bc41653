//! The thread that listens to a shell: its reports, its output, its end.

use super::status::{self, Status};
use super::{End, Executed, PAIRS, Script, ShellError, ShellState};
use crate::process::{Exit, Keep, Running, Said, Sink, Stream};
use crate::waiters::Waiters;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A report that is larger than the environment may be is none.
const MAX_REPORT: usize = 1 << 20;
/// How often to look when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// How often a shell is asked to report at most: a command may say that it ended when it has not.
const REPORTS_MAX: usize = 8;

/// The code that a shell gives a command that was killed.
const KILLED: u8 = 137;

/// How often to look at a program that a shell has become.
const LOOK: Duration = Duration::from_millis(20);

/// What is known of a shell, shared by its callers and its driver.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    count: u64,
    last: Option<Job>,
    background: Stream,
    waiters: Waiters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Busy,
    Dying,
    Closed(Exit),
}

/// The command that runs, or the last one.
#[derive(Debug)]
struct Job {
    number: u64,
    nonce: String,
    since: Instant,
    wall: Duration,
    grace: Duration,
    /// When it was interrupted because its time was up.
    interrupted: Option<Instant>,
    /// How often the shell was asked to report.
    reports: usize,
    /// Whether its caller wants it ended.
    stopped: bool,
    streams: [Stream; 2],
    sink: Option<Sink>,
    done: Option<Executed>,
}

impl Shared {
    pub(super) fn begin(
        &self,
        script: &Script,
        nonce: String,
        keep: Keep,
    ) -> Result<u64, ShellError> {
        let mut state = self.lock();
        match state.phase {
            Phase::Idle => {}
            Phase::Busy => return Err(ShellError::Busy { command: state.count }),
            Phase::Dying | Phase::Closed(_) => return Err(ShellError::Closed),
        }
        state.phase = Phase::Busy;
        state.count += 1;
        let number = state.count;
        state.last = Some(Job {
            number,
            nonce,
            since: Instant::now(),
            wall: script.wall,
            grace: script.grace,
            interrupted: None,
            reports: 0,
            stopped: false,
            streams: [Stream::new(keep), Stream::new(keep)],
            sink: None,
            done: None,
        });
        Ok(number)
    }

    /// Gives the command its sink; the pair of pipes it speaks on.
    pub(super) fn install(&self, number: u64, sink: Option<Sink>) -> usize {
        if let Some(job) = &mut self.lock().last {
            job.sink = sink;
        }
        // Its deadline is to be kept from now on.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
        pair_of(number)
    }

    /// Notes that the caller wants the command that runs ended.
    pub(super) fn stop(&self) {
        if let Some(job) = self.lock().busy() {
            job.stopped = true;
        }
    }

    pub(super) fn state(&self) -> ShellState {
        let state = self.lock();
        match state.phase {
            Phase::Idle => ShellState::Idle,
            Phase::Busy => ShellState::Busy { command: state.count },
            Phase::Dying => ShellState::Dying,
            Phase::Closed(exit) => ShellState::Closed { exit },
        }
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.lock().last.as_ref().map(|job| job.number)
    }

    pub(super) fn background(&self) -> Said {
        self.lock().background.said()
    }

    pub(super) fn said(&self, number: u64) -> Option<(Said, Said)> {
        let state = self.lock();
        let job = state.last.as_ref().filter(|job| job.number == number)?;
        let [out, err] = &job.streams;
        Some((out.said(), err.said()))
    }

    pub(super) fn wait_for(&self, number: u64, time: Duration) -> Option<Executed> {
        let runs = |state: &mut State| state.job(number).is_some_and(|job| job.done.is_none());
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), time, runs)
            .unwrap_or_else(PoisonError::into_inner);
        state.last.as_ref().filter(|job| job.number == number)?.done.clone()
    }

    pub(super) fn ended(self: &Arc<Self>, number: u64) -> ScriptEnd {
        ScriptEnd { shared: Arc::clone(self), number, place: None }
    }

    /// Tells everyone who waits that something has changed.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let waiters = state.waiters.take();
        drop(state);
        self.changed.notify_all();
        waiters.for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that waits for the end of a command of the shell.
#[derive(Debug)]
pub(super) struct ScriptEnd {
    shared: Arc<Shared>,
    number: u64,
    place: Option<u64>,
}

impl Future for ScriptEnd {
    type Output = Option<Executed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Executed>> {
        let Self { shared, number, place } = self.get_mut();
        let mut state = shared.lock();
        let Some(job) = state.job(*number) else { return Poll::Ready(None) };
        if let Some(executed) = &job.done {
            return Poll::Ready(Some(executed.clone()));
        }
        state.waiters.enter(place, context.waker());
        Poll::Pending
    }
}

impl Drop for ScriptEnd {
    fn drop(&mut self) {
        self.shared.lock().waiters.leave(self.place);
    }
}

impl State {
    fn job(&mut self, number: u64) -> Option<&mut Job> {
        self.last.as_mut().filter(|job| job.number == number)
    }

    fn busy(&mut self) -> Option<&mut Job> {
        self.last.as_mut().filter(|job| job.done.is_none())
    }

    /// Takes output of a pair: the running command's, or what earlier ones left in the background.
    fn take(&mut self, pair: usize, stream: usize, bytes: &[u8]) {
        match self.busy().filter(|job| pair_of(job.number) == pair) {
            Some(job) => {
                if let Some(kept) = job.streams.get_mut(stream) {
                    kept.take(bytes);
                }
                if let Some(sink) = &mut job.sink {
                    sink.take(bytes);
                }
            }
            None => self.background.take(bytes),
        }
    }

    fn finish(&mut self, end: impl FnOnce(&Job) -> End, status: Option<Status>) {
        let Some(job) = self.busy() else { return };
        let [out, err] = &job.streams;
        let (cwd, variables) =
            status.map_or((None, None), |status| (status.cwd, Some(status.variables)));
        job.done = Some(Executed {
            command: job.number,
            end: end(job),
            stdout: out.said(),
            stderr: err.said(),
            sink: job.sink.as_ref().map(Sink::state),
            took: job.since.elapsed(),
            cwd,
            variables,
        });
        job.sink = None;
    }
}

fn pair_of(number: u64) -> usize {
    usize::try_from(number % PAIRS as u64).unwrap_or(0)
}

pub(super) struct Driver {
    shared: Arc<Shared>,
    running: Running,
    reports: OwnedFd,
    pairs: Vec<OwnedFd>,
    told: Vec<u8>,
    buffer: Vec<u8>,
    orders: Arc<Mutex<std::fs::File>>,
}

impl Driver {
    /// Listens on the file for reports and the pairs that follow it.
    pub(super) fn start(
        running: Running,
        mut files: Vec<OwnedFd>,
        orders: Arc<Mutex<std::fs::File>>,
    ) -> io::Result<Arc<Shared>> {
        let pairs = files.split_off(1);
        let reports = files.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let state = State {
            phase: Phase::Idle,
            count: 0,
            last: None,
            background: Stream::new(Keep::default()),
            waiters: Waiters::default(),
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wake });
        let driver = Self {
            shared: Arc::clone(&shared),
            running,
            reports,
            pairs,
            told: Vec::new(),
            buffer: vec![0; 64 * 1024],
            orders,
        };
        std::thread::Builder::new()
            .name("sandboxed shell".to_owned())
            .spawn(move || driver.drive())?;
        Ok(shared)
    }

    fn drive(mut self) {
        let mut alive = true;
        while alive {
            let due = self.keep_time();
            self.wait(due);
            self.hear_output();
            alive = self.hear_reports();
        }
        let exit = self.outlast();
        self.hear_output();
        let mut state = self.shared.lock();
        state.finish(|_| End::ShellEnded(exit), None);
        state.phase = Phase::Closed(exit);
        self.shared.tell(state);
    }

    /// Listens on after the last report: the shell has ended, or has become another program.
    fn outlast(&mut self) -> Exit {
        loop {
            let due = self.keep_time();
            self.hear_output();
            if let Some(finished) = self.running.wait_for(due.min(LOOK)) {
                return finished.exit;
            }
        }
    }

    /// Ends what has run out of time; how long until the next thing is due.
    fn keep_time(&self) -> Duration {
        let mut state = self.shared.lock();
        if state.phase == Phase::Dying {
            return IDLE;
        }
        let Some(job) = state.busy() else { return IDLE };
        let (since, allowed) = match job.interrupted {
            None => (job.since, job.wall),
            Some(interrupted) => (interrupted, job.grace),
        };
        let left = allowed.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return left;
        }
        if job.interrupted.is_none() {
            job.interrupted = Some(Instant::now());
            let grace = job.grace;
            drop(state);
            self.running.signal(Signal::INT);
            return grace;
        }
        state.phase = Phase::Dying;
        drop(state);
        self.running.kill();
        IDLE
    }

    fn wait(&self, due: Duration) {
        let mut fds = vec![
            PollFd::new(&self.shared.wake, PollFlags::IN),
            PollFd::new(&self.reports, PollFlags::IN),
        ];
        // A pair hangs up when the shell has ended, which the reports tell too.
        fds.extend(self.pairs.iter().map(|pair| PollFd::new(pair, PollFlags::IN)));
        let time = Timespec::try_from(due).ok();
        // Woken in vain it looks and waits again.
        poll(&mut fds, time.as_ref()).ok();
        rustix::io::read(&self.shared.wake, &mut [0; 8]).ok();
    }

    fn hear_output(&mut self) {
        for (at, file) in self.pairs.iter().enumerate() {
            // Bounded, so that a command that never stops talking does not keep its time from being kept.
            for _ in 0..64 {
                match rustix::io::read(file, &mut self.buffer) {
                    Ok(count) if count > 0 => {
                        let bytes = self.buffer.get(..count).unwrap_or_default();
                        self.shared.lock().take(at / 2, at % 2, bytes);
                    }
                    Err(Errno::INTR) => {}
                    _ => break,
                }
            }
        }
    }

    /// Takes reports; whether the shell still lives.
    fn hear_reports(&mut self) -> bool {
        loop {
            match rustix::io::read(&self.reports, &mut self.buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    self.told.extend_from_slice(self.buffer.get(..count).unwrap_or_default())
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return false,
            }
        }
        let Some(nonce) = self.nonce() else {
            self.told.clear();
            return true;
        };
        let excess = self.told.len().saturating_sub(MAX_REPORT);
        self.told.drain(..excess);
        if let Some(status) = status::read(&self.told, &nonce) {
            self.told.clear();
            // What the command said is in its pipes by now.
            self.hear_output();
            self.done(status);
        }
        true
    }

    /// The nonce of the command that runs. Whenever the shell says that
    /// the command ran, it is asked to report.
    fn nonce(&self) -> Option<String> {
        let mut state = self.shared.lock();
        let job = state.busy()?;
        let nonce = job.nonce.clone();
        let codes: Vec<u8> = status::codes(&self.told).take(REPORTS_MAX).collect();
        if let Some(code) = codes.last().copied().filter(|_| codes.len() > job.reports) {
            job.reports = codes.len();
            drop(state);
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            // A shell that has ended meanwhile is noticed by its reports.
            orders.write_all(status::report(&nonce, code).as_bytes()).ok();
        }
        Some(nonce)
    }

    fn done(&self, status: Status) {
        let code = status.code;
        let notes = self.running.guard_git();
        let ran_out = code == KILLED && self.running.ran_out_of_memory();
        let mut state = self.shared.lock();
        if let Some(pair) = state.busy().map(|job| pair_of(job.number)) {
            state.take(pair, 1, notes.as_bytes());
        }
        let ended_early = state.busy().filter(|job| job.interrupted.is_some() || job.stopped);
        if let Some(age) = ended_early.map(|job| job.since.elapsed()) {
            // What it left in the background ends with it: an interrupt does not reach that.
            self.running.kill_younger(age);
        }
        let end = |job: &Job| match job.interrupted {
            Some(_) => End::TimedOut(code),
            None if ran_out => End::MemoryLimit(code),
            None => End::Exited(code),
        };
        state.finish(end, Some(status));
        if state.phase == Phase::Busy {
            state.phase = Phase::Idle;
        }
        self.shared.tell(state);
    }
}
