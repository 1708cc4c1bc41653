//! A program at a real pseudo-terminal: what it shows, and what is typed.

#![expect(clippy::disallowed_methods, reason = "runs the binary")]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::serving::PATIENCE;

/// Opening a terminal shall not make it that of the test.
const O_NOCTTY: i32 = 0o400;

/// `haft` at a terminal, killed when it is dropped.
pub(crate) struct Terminal {
    process: Child,
    keyboard: File,
    /// Bytes, for a character may arrive in two pieces.
    screen: Arc<Mutex<Vec<u8>>>,
    /// Up to where the screen was looked at.
    seen: usize,
}

impl Terminal {
    /// Starts `haft` over a data directory, without colours and without anybody's settings.
    pub(crate) fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_with(data, args, &[("NO_COLOR", "1")])
    }

    pub(crate) fn start_with(data: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        Self::start_sized(data, args, env, 100)
    }

    /// The same in a terminal that is so many columns wide.
    pub(crate) fn start_sized(
        data: &Path,
        args: &[&str],
        env: &[(&str, &str)],
        n_columns: u16,
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 50, ws_col: n_columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let other = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(O_NOCTTY);
            options.open(name.to_str().unwrap()).unwrap()
        };
        // `setsid --ctty` makes it the terminal of a session of its own, so that Ctrl-C is a
        // signal as it is for a person.
        let process = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_haft")])
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", "xterm-256color")
            .env("HAFT_DATA", data)
            .envs(env.iter().copied())
            .stdin(other())
            .stdout(other())
            .stderr(other())
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut read, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        drop(std::thread::spawn(move || {
            let mut bytes = [0u8; 4096];
            // The terminal ends with an error once the program is gone.
            while let Ok(n @ 1..) = read.read(&mut bytes) {
                shown.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        }));
        Self { process, keyboard, screen, seen: 0 }
    }

    /// Waits until the screen shows a text after what was looked at before; returns all up to it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        let started = Instant::now();
        loop {
            let screen = self.shown();
            if let Some(at) = screen[self.seen..].find(text) {
                let end = self.seen + at + text.len();
                let shown = screen[self.seen..end].to_owned();
                self.seen = end;
                return shown;
            }
            assert!(started.elapsed() < PATIENCE, "no {text:?} in:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the program's end.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            let screen = self.shown();
            assert!(started.elapsed() < PATIENCE, "it goes on:\n{screen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Hanging up ends whatever still sits at the terminal.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
