//! Nothing is left open or running: alone in its process, because it counts.

#![expect(clippy::unwrap_used, reason = "a broken assumption fails the test")]

use std::time::{Duration, Instant};

use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::policy::Policy;
use haft_sandbox::process::{Command, Exit, Sandbox};
use haft_sandbox::virtual_path::VirtualPath;

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    std::fs::read_to_string("/proc/thread-self/children").unwrap()
}

#[test]
fn a_sandbox_that_was_closed_leaves_no_file_no_thread_and_no_process() {
    let temp = tempfile::tempdir().unwrap();
    let at = VirtualPath::parse("/workspace", &VirtualPath::top()).unwrap();
    let root = Root { at: at.clone(), host: temp.path().to_owned(), access: Access::ReadWrite };
    let policy = Policy::new(Mounts::open([root]).unwrap());
    let launcher = Launcher::program(env!("CARGO_BIN_EXE_haft-sandbox-launcher"));
    let once = || {
        let sandbox = Sandbox::open(&launcher, &policy).unwrap();
        let run = |text: &str| sandbox.run(Command::script(text, at.clone())).unwrap();
        assert_eq!(run("sleep 1000 & setsid sleep 1000 & exit 3").wait().exit, Exit::Exited(3));
        run("sleep 1000");
    };
    once();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let mut left = (usize::MAX, usize::MAX);
    // The last thread of a sandbox may take a moment to see that it is over.
    for _ in 0..500 {
        left = (open_files(), threads());
        std::thread::yield_now();
    }
    (0..10).for_each(|_| once());
    let (began, patience) = (Instant::now(), Duration::from_secs(180));
    let is_settled = || open_files() <= left.0 && threads() <= left.1;
    while !is_settled() && began.elapsed() < patience {
        std::thread::yield_now();
    }
    assert!(
        is_settled(),
        "files and threads: {left:?} before, ({}, {}) now",
        open_files(),
        threads()
    );
    assert_eq!(children(), "");
}
