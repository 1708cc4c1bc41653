//! Commands in the real sandbox.

use crate::place::{Place, Sleeper, at};
use haft_sandbox::launcher::Launcher;
use haft_sandbox::layers::{Layer, Standing};
use haft_sandbox::policy::{Limits, Policy};
use haft_sandbox::process::{
    Command, Exit, Finished, Sandbox, SandboxError, Sink, SinkState, Stdin,
};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) fn launcher() -> Launcher {
    Launcher::program(launcher_path())
}

pub(crate) fn open(place: &Place) -> Sandbox {
    Sandbox::open(&launcher(), &Policy::new(place.files.mounts().clone())).unwrap()
}

pub(crate) fn open_read_only(place: &Place) -> Sandbox {
    Sandbox::open(&launcher(), &Policy::new(place.files.mounts().clone()).read_only()).unwrap()
}

pub(crate) fn script(sandbox: &Sandbox, script: &str) -> Finished {
    let command = Command::script(script, at("."));
    sandbox.run(command).unwrap().wait()
}

fn limited(sandbox: &Sandbox, text: &str, change: impl FnOnce(&mut Limits)) -> Finished {
    let mut command = Command::script(text, at("."));
    change(&mut command.limits);
    sandbox.run(command).unwrap().wait()
}

/// Fails unless it went well; what it said.
pub(crate) fn said(finished: &Finished) -> String {
    assert_eq!(finished.exit, Exit::Exited(0), "{}", finished.stderr.text());
    finished.stdout.text()
}

#[test]
fn a_command_works_in_its_roots_and_ends_as_it_ends() {
    let place = Place::new();
    let sandbox = open(&place);
    assert_eq!(
        said(&script(&sandbox, "cat a.txt; echo new > b.txt; pwd")),
        "one\ntwo\nthree\n/workspace\n"
    );
    assert_eq!(place.content("b.txt"), "new\n");
    assert_eq!(script(&sandbox, "exit 300").exit, Exit::Exited(44));
    assert_eq!(script(&sandbox, "kill -SEGV $$").exit, Exit::Signalled(11));
    let mut command = Command::new(["cat"], at("sub"));
    command.stdin = Stdin::Bytes(b"given".to_vec());
    assert_eq!(said(&sandbox.run(command).unwrap().wait()), "given");
    for (argv, cwd) in [(["no-such-program"], "."), (["pwd"], "missing")] {
        let refused = sandbox.run(Command::new(argv, at(cwd))).unwrap_err();
        assert!(matches!(refused, SandboxError::Refused { .. }), "{refused}");
    }
    let refused = sandbox.run(Command::script("\0", at("."))).unwrap_err();
    assert!(matches!(refused, SandboxError::Refused { .. }), "{refused}");
}

#[test]
fn a_command_can_open_its_own_streams_by_name() {
    let place = Place::new();
    let mut command =
        Command::script("cat /dev/stdin > /dev/stdout; echo oh > /dev/stderr", at("."));
    command.stdin = Stdin::Bytes(b"given".to_vec());
    let finished = open(&place).run(command).unwrap().wait();
    assert_eq!((said(&finished).as_str(), finished.stderr.text().as_str()), ("given", "oh\n"));
}

#[test]
fn files_made_inside_belong_to_the_owner_of_the_root() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    said(&script(&open(&place), "touch made && mkdir dir && test -O a.txt"));
    let owner = |path: &str| std::fs::metadata(place.host().join(path)).unwrap().uid();
    assert_eq!((owner("made"), owner("dir")), (owner("a.txt"), owner("a.txt")));
}

#[test]
fn the_read_only_hand_changes_nothing_whatever_it_runs() {
    let place = Place::new();
    let sandbox = open_read_only(&place);
    let tries = "echo x > PWNED; touch sub/PWNED; rm -f a.txt; mv a.txt b; ln a.txt c; chmod 777 a.txt; truncate -s0 a.txt; \
                 sed -i s/one/two/ a.txt; mkdir d; uniq a.txt PWNED; cat a.txt";
    let finished = script(&sandbox, tries);
    assert_eq!(finished.stdout.text(), "one\ntwo\nthree\n");
    assert_eq!(place.content("a.txt"), "one\ntwo\nthree\n");
    let names = std::fs::read_dir(place.host()).unwrap().count();
    assert_eq!(names, 3, "a.txt, agent (a mount point) and sub");
}

#[test]
fn every_layer_is_reported_as_it_stands() {
    let place = Place::new();
    let sandbox = open(&place);
    let standing = |layer| {
        sandbox.describe().iter().find(|report| report.layer == layer).unwrap().standing.clone()
    };
    for layer in [
        Layer::User,
        Layer::Mounts,
        Layer::Processes,
        Layer::Network,
        Layer::Ipc,
        Layer::Privileges,
        Layer::SystemCalls,
        Layer::Landlock,
        Layer::Limits,
    ] {
        assert_eq!(standing(layer), Standing::Enforced, "{layer:?}");
    }
    // By a control group where one can be had, else in part: see `memory.rs`.
    assert!(!matches!(standing(Layer::TotalMemory), Standing::Absent { .. }));
}

#[test]
fn a_program_that_is_no_launcher_opens_nothing() {
    let place = Place::new();
    let policy = Policy::new(place.files.mounts().clone());
    let refused = Sandbox::open(&Launcher::program("/bin/true"), &policy).unwrap_err();
    assert!(refused.to_string().contains("main_if_asked"), "{refused}");
}

// D9
#[test]
fn d9_a_timeout_ends_the_whole_tree_within_the_grace() {
    let place = Place::new();
    let sandbox = open(&place);
    let sleeper = Sleeper::new();
    let sleep = sleeper.command();
    let tree =
        format!("trap '' TERM; setsid {sleep} & {sleep} & echo begun; while :; do {sleep}; done");
    // Where the machine is too busy to start it within the limit, a longer one is tried.
    let has_begun = [1, 4, 16, 64].into_iter().any(|seconds| {
        let finished = limited(&sandbox, &tree, |limits| {
            limits.wall = Duration::from_secs(seconds);
            limits.grace = Duration::from_millis(300);
        });
        assert_eq!(finished.exit, Exit::TimedOut);
        assert_eq!(sleeper.alive(), 0, "some of the tree lives on");
        finished.stdout.text() == "begun\n"
    });
    assert!(has_begun, "it never got so far");
}

#[test]
fn what_a_command_leaves_behind_ends_with_it_and_holds_nobody() {
    let place = Place::new();
    let sandbox = open(&place);
    let sleeper = Sleeper::new();
    let sleep = sleeper.command();
    for text in [
        format!("{sleep} & disown; echo ok"),
        format!("setsid {sleep} & echo ok"),
        format!("(setsid {sleep} &) ; echo ok"),
    ] {
        assert_eq!(said(&script(&sandbox, &text)), "ok\n");
        assert_eq!(sleeper.alive(), 0, "{text}");
    }
}

// D10
#[test]
fn d10_output_above_every_cap_completes_with_its_tail_and_the_whole_in_the_sink() {
    let place = Place::new();
    let sandbox = open(&place);
    let path = place.outside().join("../artifact");
    let mut command = Command::script("seq 1 200000; echo the end", at("."));
    command.sink = Some(Sink::new(std::fs::File::create(&path).unwrap(), 1 << 30));
    let finished = sandbox.run(command).unwrap().wait();
    assert_eq!((finished.exit, finished.sink), (Exit::Exited(0), Some(SinkState::Whole)));
    assert!(finished.stdout.head.starts_with(b"1\n2\n"));
    assert!(finished.stdout.tail.ends_with(b"200000\nthe end\n"));
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.len() as u64, finished.stdout.total());
    assert_eq!(whole.lines().count(), 200_001);

    let mut command = Command::script("yes", at("."));
    command.limits.output_bytes = Some(1 << 20);
    assert_eq!(sandbox.run(command).unwrap().wait().exit, Exit::OutputLimit);
}

#[test]
fn a_gigabyte_of_output_is_taken_in_bounded_memory() {
    let place = Place::new();
    let sandbox = open(&place);
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let finished = script(&sandbox, "head -c 1000000000 /dev/zero; echo end");
    assert_eq!(finished.stdout.total(), 1_000_000_004);
    assert!(finished.stdout.tail.ends_with(b"end\n"));
    assert!(resident() - before < 64 * 1024, "kept {} KiB more", resident() - before);
}

#[test]
fn live_output_is_seen_while_it_runs_and_a_kill_ends_it() {
    let place = Place::new();
    let sandbox = open(&place);
    let sleeper = Sleeper::new();
    let long = format!("echo begun; setsid {0} & {0}", sleeper.command());
    let running = sandbox.run(Command::script(&long, at("."))).unwrap();
    sleeper.until(2);
    while running.said().0.head != b"begun\n" {
        assert!(running.wait_for(Duration::from_millis(5)).is_none());
    }
    running.kill();
    let finished = running.wait();
    assert_eq!(finished.exit, Exit::Killed);
    assert_eq!(finished.stdout.text(), "begun\n");
    assert_eq!(sleeper.alive(), 0);
}

#[test]
fn limits_hold() {
    let place = Place::new();
    let sandbox = open(&place);
    let spin =
        limited(&sandbox, "while :; do :; done", |limits| limits.cpu = Duration::from_secs(1));
    assert_eq!(spin.exit, Exit::CpuTime);
    let large = limited(&sandbox, "head -c 10M /dev/zero > f; stat -c %s f", |limits| {
        limits.file_bytes = 1 << 20
    });
    assert_eq!(large.stdout.text(), "1048576\n");
    let bomb = limited(&sandbox, ":(){ :|:& };:; sleep 1; ps -e | wc -l", |limits| {
        limits.wall = Duration::from_secs(60);
        limits.processes = 40;
    });
    assert!(bomb.stderr.text().contains("fork"), "{:?}", bomb.exit);
    let memory = "awk 'BEGIN { s = \"x\"; while (1) s = s s }'";
    let memory = limited(&sandbox, memory, |limits| limits.memory_bytes = 256 << 20);
    assert_ne!(memory.exit, Exit::Exited(0));
    let files = "for n in $(seq 3 100); do eval \"exec $n</dev/null\" || exit 9; done";
    let files = limited(&sandbox, files, |limits| limits.open_files = 32);
    assert_ne!(files.exit, Exit::Exited(0));
    assert_eq!(said(&script(&sandbox, "echo alive")), "alive\n");
}

#[test]
fn a_sandbox_that_is_dropped_takes_its_processes_along() {
    let place = Place::new();
    let sandbox = open(&place);
    let sleeper = Sleeper::new();
    let stubborn = format!("trap '' TERM; setsid {0} & {0} & wait", sleeper.command());
    let running = sandbox.run(Command::script(&stubborn, at("."))).unwrap();
    sleeper.until(2);
    drop(sandbox);
    assert_eq!(running.wait().exit, Exit::Lost);
    sleeper.until(0);
    place.check_canaries();
}

const LAUNCHER: &str = "HAFT_TEST_LAUNCHER";

#[expect(clippy::disallowed_methods, reason = "set by this program for its own copy")]
fn launcher_path() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_haft-sandbox-launcher").into();
    std::env::var_os(LAUNCHER).unwrap_or_else(built).into()
}

/// Runs the tests of this module and the next once more, as a user without rights, by a copy of
/// this program: the directory that it was built in may be closed to others.
#[expect(clippy::print_stdout, reason = "what a run leaves out is said aloud")]
fn run_all_again(with: &[&str]) {
    use std::os::unix::process::CommandExt as _;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if !rustix::process::geteuid().is_root() || !map.split_whitespace().eq(["0", "0", "4294967295"])
    {
        println!("left out: only the host's root can become another user");
        return;
    }
    let nobody = 65534;
    let temp = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(temp.path(), Some(nobody), Some(nobody)).unwrap();
    let (program, launcher) = (temp.path().join("tests"), temp.path().join("launcher"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::copy(launcher_path(), &launcher).unwrap();
    let words = with.iter().map(Into::into).chain([program.into_os_string()]);
    let words: Vec<std::ffi::OsString> = words.collect();
    let mut tests = std::process::Command::new(&words[0]);
    tests
        .args(&words[1..])
        .args(["process::", "hostile::"])
        .env("TMPDIR", temp.path())
        .env(LAUNCHER, launcher)
        .current_dir(temp.path())
        .uid(nobody)
        .gid(nobody);
    let output = tests.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_ordinary_user_has_the_same_sandbox() {
    run_all_again(&[]);
}

/// As in a container without privileges, where one is called root and is not.
#[test]
fn a_root_of_a_user_namespace_has_the_same_sandbox() {
    run_all_again(&["unshare", "--map-root-user"]);
}
