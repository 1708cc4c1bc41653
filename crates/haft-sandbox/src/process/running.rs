//! A command that runs: its output as it comes, its end, and how to bring it about.

use super::output::{Keep, Said, Sink, SinkState, Stream};
use super::{Link, SandboxError};
use crate::launcher::{OUT_OF_MEMORY, ToInit};
use crate::policy::Limits;
use crate::waiters::Waiters;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// How long to listen for what an ended command's strays still hold back.
const DRAIN: Duration = Duration::from_millis(250);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Exited(u8),
    /// By a signal.
    Signalled(u32),
    /// It used up its processor time.
    CpuTime,
    /// It used up its time by the clock, and was ended.
    TimedOut,
    /// Its sandbox used up its memory, and it was ended.
    MemoryLimit,
    /// It said more than it may, and was ended.
    OutputLimit,
    /// Its caller ended it.
    Killed,
    /// Its sandbox ended.
    Lost,
}

/// A command that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub exit: Exit,
    /// What it said.
    pub stdout: Said,
    /// What it complained of.
    pub stderr: Said,
    /// How its sink fared; `None` without one.
    pub sink: Option<SinkState>,
    /// How long it ran.
    pub took: Duration,
}

/// A command that was started. Dropping it does not end it; its limits do, and its sandbox.
#[derive(Clone, Debug)]
pub struct Running {
    slot: Arc<Slot>,
    link: Arc<Link>,
}

impl Running {
    pub(super) fn mind(
        slot: Arc<Slot>,
        link: Arc<Link>,
        limits: Limits,
        streams: [Option<OwnedFd>; 2],
    ) -> Result<Self, SandboxError> {
        let running = Self { slot, link };
        let minder = Minder { running: running.clone(), limits, streams, said: 0, asked: None };
        std::thread::Builder::new()
            .name("sandboxed command".to_owned())
            .spawn(move || minder.mind())?;
        Ok(running)
    }

    /// Waits for its end.
    pub fn wait(&self) -> Finished {
        loop {
            if let Some(finished) = self.wait_for(Duration::from_secs(3600)) {
                return finished;
            }
        }
    }

    /// Waits for its end, but not longer than this.
    pub fn wait_for(&self, time: Duration) -> Option<Finished> {
        let state = self.slot.lock();
        let (state, _) = self
            .slot
            .changed
            .wait_timeout_while(state, time, |state| state.finished.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.finished.clone()
    }

    /// Waits for its end without holding a thread, in a task of whatever runtime.
    pub fn ended(&self) -> impl Future<Output = Finished> + Send + use<> {
        CommandEnd { slot: Arc::clone(&self.slot), place: None }
    }

    /// What it has said so far, and complained of.
    pub fn said(&self) -> (Said, Said) {
        let state = self.slot.lock();
        (state.streams[0].said(), state.streams[1].said())
    }

    /// Ends it: asks first, and kills what is left after the grace of its limits.
    pub fn kill(&self) {
        self.slot.ask(Exit::Killed);
    }

    /// Whether a process of its sandbox was killed for want of memory since this was last asked.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.link.ran_out_of_memory()
    }

    /// Kills everything in its sandbox that was started within this time, but for itself.
    pub(crate) fn kill_younger(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // A sandbox that has ended needs none.
        self.link.send(&ToInit::KillYounger(self.slot.id, ms), &[]).ok();
    }

    /// Puts what git outside would run or follow out of its reach; says what that was.
    pub(crate) fn guard_git(&self) -> String {
        let notes = self.link.guard.as_ref().map(|guard| guard.look()).unwrap_or_default();
        notes.iter().map(|note| format!("haft: {note}\n")).collect()
    }

    /// Sends a signal to its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        // A sandbox that has ended needs none.
        self.link.send(&ToInit::Signal(self.slot.id, signal.as_raw().unsigned_abs()), &[]).ok();
    }
}

/// A task that waits for a command's end.
#[derive(Debug)]
struct CommandEnd {
    slot: Arc<Slot>,
    place: Option<u64>,
}

impl Future for CommandEnd {
    type Output = Finished;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        let Self { slot, place } = self.get_mut();
        let mut state = slot.lock();
        if let Some(finished) = &state.finished {
            return Poll::Ready(finished.clone());
        }
        state.waiters.enter(place, context.waker());
        Poll::Pending
    }
}

impl Drop for CommandEnd {
    fn drop(&mut self) {
        self.slot.lock().waiters.leave(self.place);
    }
}

impl Exit {
    pub(super) fn of(code: Option<u32>, signal: Option<u32>) -> Self {
        match (code, signal) {
            (Some(code), _) => Self::Exited(u8::try_from(code & 255).unwrap_or(u8::MAX)),
            (None, Some(signal)) if signal == Signal::XCPU.as_raw().unsigned_abs() => Self::CpuTime,
            (None, Some(OUT_OF_MEMORY)) => Self::MemoryLimit,
            (None, Some(signal)) => Self::Signalled(signal),
            (None, None) => Self::Lost,
        }
    }
}

/// What is known of a command, shared by its caller, its minder and the line to init.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the minder.
    wake: OwnedFd,
}

#[derive(Debug)]
struct State {
    begun: Option<Result<(), String>>,
    since: Instant,
    streams: [Stream; 2],
    sink: Option<Sink>,
    /// Why its caller wants it ended.
    asked: Option<Exit>,
    ended: Option<Exit>,
    finished: Option<Finished>,
    waiters: Waiters,
}

impl Slot {
    pub(super) fn new(id: u64, keep: Keep, sink: Option<Sink>) -> io::Result<Arc<Self>> {
        let state = State {
            begun: None,
            since: Instant::now(),
            streams: [Stream::new(keep), Stream::new(keep)],
            sink,
            asked: None,
            ended: None,
            finished: None,
            waiters: Waiters::default(),
        };
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { id, state: Mutex::new(state), changed: Condvar::new(), wake }))
    }

    /// Waits until it was started, or not.
    pub(super) fn started(&self) -> Result<(), SandboxError> {
        let waiting = |state: &mut State| state.begun.is_none() && state.ended.is_none();
        let state =
            self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
        match &state.begun {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(SandboxError::Refused { why: why.clone() }),
            None => Err(SandboxError::Ended),
        }
    }

    pub(super) fn begun(&self, how: Result<(), String>) {
        self.lock().begun = Some(how);
        self.changed.notify_all();
    }

    pub(super) fn ended(&self, exit: Exit) {
        self.lock().ended = Some(exit);
        self.changed.notify_all();
        self.wake();
    }

    fn ask(&self, why: Exit) {
        self.lock().asked.get_or_insert(why);
        self.wake();
    }

    fn wake(&self) {
        // Full means that it is awake already.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a command says and keeps its time.
struct Minder {
    running: Running,
    limits: Limits,
    streams: [Option<OwnedFd>; 2],
    said: u64,
    /// Since when it is being ended, and why.
    asked: Option<(Instant, Exit)>,
}

impl Minder {
    fn mind(mut self) {
        let mut buffer = vec![0; 64 * 1024];
        let since = self.running.slot.lock().since;
        let mut deadline = since + self.limits.wall;
        loop {
            self.listen(deadline, &mut buffer);
            let (ended, asked) = {
                let state = self.running.slot.lock();
                (state.ended, state.asked)
            };
            if let Some(exit) = ended {
                return self.finish(exit, since, &mut buffer);
            }
            let over = self.limits.output_bytes.is_some_and(|limit| self.said > limit);
            let why = match (asked, over, Instant::now() >= deadline) {
                (Some(why), _, _) => Some(why),
                (None, true, _) => Some(Exit::OutputLimit),
                (None, false, true) => Some(Exit::TimedOut),
                (None, false, false) => None,
            };
            if let Some(next) = self.end(why) {
                deadline = next;
            }
        }
    }

    /// Takes the next step to end the command; until when it has to take effect.
    fn end(&mut self, why: Option<Exit>) -> Option<Instant> {
        match (self.asked, why) {
            (None, Some(why)) => {
                self.asked = Some((Instant::now(), why));
                self.running.signal(Signal::TERM);
                Some(Instant::now() + self.limits.grace)
            }
            (Some((asked, _)), _) if asked.elapsed() >= self.limits.grace => {
                self.running.signal(Signal::KILL);
                Some(Instant::now() + self.limits.grace.max(DRAIN))
            }
            _ => None,
        }
    }

    fn finish(mut self, exit: Exit, since: Instant, buffer: &mut [u8]) {
        let deadline = Instant::now() + DRAIN;
        while self.streams.iter().any(Option::is_some) && Instant::now() < deadline {
            self.listen(deadline, buffer);
        }
        let exit = match (exit, self.asked) {
            (Exit::Lost | Exit::MemoryLimit, _) => exit,
            (_, Some((_, why))) => why,
            (exit, None) => exit,
        };
        let notes = self.running.guard_git();
        let mut state = self.running.slot.lock();
        if let Some(complaints) = state.streams.get_mut(1) {
            complaints.take(notes.as_bytes());
        }
        state.finished = Some(Finished {
            exit,
            stdout: state.streams[0].said(),
            stderr: state.streams[1].said(),
            sink: state.sink.as_ref().map(Sink::state),
            took: since.elapsed(),
        });
        state.sink = None;
        let waiters = state.waiters.take();
        drop(state);
        self.running.slot.changed.notify_all();
        waiters.for_each(Waker::wake);
    }

    /// Waits until there is something to read, someone woke us, or the time is up; reads what there is.
    fn listen(&mut self, deadline: Instant, buffer: &mut [u8]) {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec::try_from(left).ok();
        let slot = Arc::clone(&self.running.slot);
        let mut fds = vec![PollFd::new(&slot.wake, PollFlags::IN)];
        fds.extend(self.streams.iter().flatten().map(|stream| PollFd::new(stream, PollFlags::IN)));
        if poll(&mut fds, time.as_ref()).is_err() {
            return;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            rustix::io::read(&slot.wake, &mut [0; 8]).ok();
        }
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let Some(open) = stream else { continue };
            if ready.next() != Some(true) {
                continue;
            }
            match rustix::io::read(&*open, &mut *buffer) {
                Ok(0) => *stream = None,
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.said += count as u64;
                    let mut state = slot.lock();
                    if let Some(kept) = state.streams.get_mut(at) {
                        kept.take(bytes);
                    }
                    if let Some(sink) = &mut state.sink {
                        sink.take(bytes);
                    }
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => *stream = None,
            }
        }
    }
}
