//! The memory of a whole sandbox, X11: by a control group where one can be had, else by looking.

use crate::place::Place;
use crate::process::{launcher, said, script};
use haft_sandbox::environment::Variables;
use haft_sandbox::layers::{Layer, Standing};
use haft_sandbox::policy::{Limits, MemoryLimit, Policy};
use haft_sandbox::process::{Exit, Finished, Sandbox};
use haft_sandbox::shell::{End, Script, Shell};
use std::time::Duration;

const MEBIBYTE: u64 = 1 << 20;
/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn policy(place: &Place, memory_limit: MemoryLimit) -> Policy {
    let mounts = place.files.mounts().clone();
    Policy { memory_bytes: 128 * MEBIBYTE, memory_limit, ..Policy::new(mounts) }
}

fn open(place: &Place, memory_limit: MemoryLimit) -> Sandbox {
    Sandbox::open(&launcher(), &policy(place, memory_limit)).unwrap()
}

fn standing(sandbox: &Sandbox) -> Standing {
    let mut reports = sandbox.describe().iter();
    reports.find(|report| report.layer == Layer::TotalMemory).unwrap().standing.clone()
}

/// Writes so much to memfds, which no process has mapped.
fn memfds(mebibytes: u32) -> String {
    format!(
        "python3 -c \"import os\nkept = []\nfor n in range({mebibytes} // 16):\n  \
         fd = os.memfd_create('x'); os.write(fd, b'x' * (16 << 20)); kept.append(fd)\n\
         print('made', len(kept))\""
    )
}

/// Several processes that have so much each, and none too much.
fn tree(n_processes: u32, mebibytes: u32) -> String {
    format!(
        "for n in $(seq {n_processes}); do python3 -c \"x = b'x' * ({mebibytes} << 20)\n\
         import time; time.sleep(60)\" & done; wait"
    )
}

fn is_told(finished: &Finished) -> bool {
    finished.exit == Exit::MemoryLimit
}

/// On a machine that delegates no control group there is nothing to show here; the fallback is shown
/// below wherever the tests run.
fn grouped(place: &Place) -> Option<Sandbox> {
    let sandbox = open(place, MemoryLimit::Group);
    match standing(&sandbox) {
        Standing::Enforced => Some(sandbox),
        Standing::Partly { lacking } => {
            assert!(!lacking.is_empty());
            None
        }
        Standing::Absent { reason } => panic!("no limit at all: {reason}"),
    }
}

#[test]
fn x11_a_group_counts_memfds_and_every_process() {
    let place = Place::new();
    let Some(sandbox) = grouped(&place) else { return };
    assert_eq!(said(&script(&sandbox, &memfds(64))), "made 4\n");
    let attack = script(&sandbox, &memfds(512));
    assert!(is_told(&attack), "{:?} {}", attack.exit, attack.stderr.text());
    assert!(!attack.stdout.text().contains("made"));
    let sandbox = open(&place, MemoryLimit::Group);
    let finished = script(&sandbox, &tree(6, 48));
    assert!(!matches!(finished.exit, Exit::TimedOut), "{:?}", finished.exit);
    let sandbox = open(&place, MemoryLimit::Group);
    assert_eq!(said(&script(&sandbox, "echo fine")), "fine\n");
}

#[test]
fn x11_a_shell_says_that_its_command_ran_out_of_memory() {
    let place = Place::new();
    if grouped(&place).is_none() {
        return;
    }
    let policy = policy(&place, MemoryLimit::Group);
    let cwd = crate::place::absolute("/workspace");
    let shell = Shell::open(&launcher(), &policy, Limits::WORK, cwd, Variables::new()).unwrap();
    let run = |text: &str| shell.exec(Script::new(text)).unwrap().wait_for(LONG).unwrap();
    assert_eq!(run("echo fine").end, End::Exited(0));
    assert_eq!(run(&memfds(512)).end, End::MemoryLimit(137));
    assert_eq!(run("echo fine").end, End::Exited(0));
}

#[test]
fn x11_without_a_group_memfds_are_refused_and_the_rest_is_looked_at() {
    let place = Place::new();
    let sandbox = open(&place, MemoryLimit::Looking);
    let Standing::Partly { lacking } = standing(&sandbox) else { panic!("it is not whole") };
    assert!(lacking.contains("memfds") && lacking.contains("not counted"), "{lacking}");
    let attack = script(&sandbox, &memfds(512));
    assert!(attack.stderr.text().contains("PermissionError"), "{}", attack.stderr.text());
    let segments = "python3 -c \"import ctypes,sys\n\
                    sys.exit(ctypes.CDLL(None).shmget(0, 1 << 20, 0o1600) == -1)\"";
    assert_eq!(script(&sandbox, segments).exit, Exit::Exited(1));
    assert_eq!(said(&script(&sandbox, "echo fine")), "fine\n");
    let finished = script(&sandbox, &tree(6, 48));
    assert!(is_told(&finished), "{:?}", finished.exit);
    assert_eq!(said(&script(&sandbox, "echo fine")), "fine\n");
}

#[test]
fn groups_go_away_with_their_sandboxes() {
    let place = Place::new();
    let Some(sandbox) = grouped(&place) else { return };
    let group = said(&script(&sandbox, "cat /proc/self/cgroup"));
    let own = format!("haft-sandbox-{}-", std::process::id());
    let line = group.lines().find(|line| line.contains(&own)).unwrap();
    let (_, path) = line.rsplit_once(':').unwrap();
    let name = path.rsplit('/').next().unwrap().to_owned();
    let exists = || {
        let found = std::process::Command::new("find")
            .args(["/sys/fs/cgroup", "-name", &name])
            .output()
            .unwrap();
        !found.stdout.is_empty()
    };
    assert!(exists());
    drop(sandbox);
    assert!(!exists());
}
