//! What confinement and searching cost, as ratios to well-known programs measured in the same run.
//!
//! `cargo bench -p haft-sandbox` takes some seconds; without `--bench`, as `cargo test` runs it, everything
//! happens once on a small tree, to show that it works. Rounds alternate, and the best of each is compared:
//! the machine's other work is not ours to stop. A program that is not installed is left out.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at any trouble")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use haft_sandbox::files::Files;
use haft_sandbox::launcher::Launcher;
use haft_sandbox::mounts::{Access, Mounts, Root};
use haft_sandbox::policy::Policy;
use haft_sandbox::process::{Command, Exit, Sandbox};
use haft_sandbox::search::{Bounds, Case, Glob, Grep, Hidden, Ignores, Query};
use haft_sandbox::virtual_path::VirtualPath;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

struct Effort {
    rounds: usize,
    files: usize,
    output: u64,
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let effort = match full {
        true => Effort { rounds: 40, files: 20_000, output: 1_000_000_000 },
        false => Effort { rounds: 2, files: 200, output: 1_000_000 },
    };
    let temp = tempfile::tempdir().unwrap();
    plant(temp.path(), effort.files);
    let at = VirtualPath::parse("/workspace", &VirtualPath::top()).unwrap();
    let root = Root { at: at.clone(), host: temp.path().to_owned(), access: Access::ReadWrite };
    let mounts = Mounts::open([root]).unwrap();
    outputs(&effort, &mounts, &at);
    starts(&effort, temp.path(), &mounts, &at);
    searches(&effort, temp.path(), &Files::new(mounts), &at);
}

/// A tree of small files, some of them ignored.
fn plant(root: &Path, files: usize) {
    // The others take notice of `.gitignore` in a repository only.
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join(".gitignore"), "*.log\n/out\n").unwrap();
    for number in 0..files {
        let directory = root.join(format!("d{}/e{}", number % 37, number % 11));
        std::fs::create_dir_all(&directory).unwrap();
        let ending = ["rs", "md", "log", "txt"][number % 4];
        let mut text = "the quick brown fox jumps over the lazy dog\n".repeat(40);
        if number % 50 == 0 {
            text.push_str("here stands the needle in a line\n");
        }
        std::fs::write(directory.join(format!("f{number}.{ending}")), text).unwrap();
    }
}

/// Output beyond every cap: how much more memory it takes than a word, and how long beside a pipe.
fn outputs(effort: &Effort, mounts: &Mounts, at: &VirtualPath) {
    let launcher = Launcher::program(env!("CARGO_BIN_EXE_haft-sandbox-launcher"));
    let sandbox = Sandbox::open(&launcher, &Policy::new(mounts.clone())).unwrap();
    let flood = format!("head -c {} /dev/zero", effort.output);
    let before = peak_kib();
    let since = Instant::now();
    let finished = sandbox.run(Command::script(&flood, at.clone())).unwrap().wait();
    let took = since.elapsed();
    assert_eq!((finished.exit, finished.stdout.total()), (Exit::Exited(0), effort.output));
    let since = Instant::now();
    let piped = format!("{flood} | cat > /dev/null");
    std::process::Command::new("bash").args(["-c", &piped]).status().unwrap();
    let (more, megabytes) = (peak_kib() - before, effort.output / 1_000_000);
    println!("{megabytes} MB of output: {more} KiB more memory at the peak");
    report("taking it in", took, "a pipe into cat", since.elapsed(), 4.0);
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn starts(effort: &Effort, host: &Path, mounts: &Mounts, at: &VirtualPath) {
    let launcher = Launcher::program(env!("CARGO_BIN_EXE_haft-sandbox-launcher"));
    let policy = Policy::new(mounts.clone());
    let run = |sandbox: &Sandbox| {
        let finished = sandbox.run(Command::new(["/usr/bin/true"], at.clone())).unwrap().wait();
        assert_eq!(finished.exit, Exit::Exited(0));
    };
    let open = Sandbox::open(&launcher, &policy).unwrap();
    let mut peer = bubblewrap(host);
    let [once, again, bwrap] = best(
        effort.rounds,
        [&mut || run(&Sandbox::open(&launcher, &policy).unwrap()), &mut || run(&open), &mut || {
            drop(peer.status())
        }],
    );
    report("a command in a fresh sandbox", once, "bubblewrap", bwrap, 1.5);
    report("a command in an open sandbox", again, "bubblewrap", bwrap, 1.5);
}

fn bubblewrap(host: &Path) -> std::process::Command {
    let mut command = std::process::Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--cap-drop",
        "ALL",
    ]);
    command.args(["--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]);
    command.args([
        "--ro-bind",
        "/usr",
        "/usr",
        "--symlink",
        "usr/bin",
        "/bin",
        "--symlink",
        "usr/lib",
        "/lib",
    ]);
    command.args([
        "--symlink",
        "usr/lib64",
        "/lib64",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]);
    command.arg("--bind").arg(host).args(["/workspace", "--chdir", "/workspace", "/usr/bin/true"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn searches(effort: &Effort, host: &Path, files: &Files, at: &VirtualPath) {
    let rules = (Hidden::Skip, Ignores::Respect);
    let bounds = Bounds { results: 100_000, time: Duration::from_secs(600), ..Bounds::default() };
    let grep = Grep::new(Query::Regex("ne+dle"), Case::Sensitive).unwrap();
    let glob = Glob::parse("*.rs").unwrap();
    let quiet = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(args)
            .arg(host)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    };
    let mut rg = quiet("rg", &["--no-config", "-n", "ne+dle"]);
    let mut fd = quiet("fdfind", &["--glob", "*.rs"]);
    let [ours, theirs, globbed, found] = best(
        effort.rounds,
        [
            &mut || assert!(files.grep(at, &grep, rules, bounds).unwrap().total > 0),
            &mut || works(&mut rg),
            &mut || assert!(files.glob(at, &glob, None, rules, bounds).unwrap().total > 0),
            &mut || works(&mut fd),
        ],
    );
    report("grep", ours, "ripgrep", theirs, 1.2);
    report("glob", globbed, "fd", found, 1.2);
}

/// Runs a peer, which must do its work if it is there at all.
fn works(peer: &mut std::process::Command) {
    if let Ok(status) = peer.status() {
        assert!(status.success(), "{peer:?}: {status}");
    }
}

/// The shortest time of each, over rounds in which each has its turn.
fn best<const N: usize>(rounds: usize, mut work: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds {
        for (best, work) in best.iter_mut().zip(&mut work) {
            let since = Instant::now();
            work();
            *best = since.elapsed().min(*best);
        }
    }
    best
}

fn report(what: &str, took: Duration, peer: &str, theirs: Duration, aim: f64) {
    // A program that is not there fails at once.
    if theirs < Duration::from_micros(600) {
        println!("{what}: {took:.2?}; {peer} is not installed, so nothing to compare with");
        return;
    }
    let ratio = took.as_secs_f64() / theirs.as_secs_f64();
    println!("{what}: {took:.2?} against {theirs:.2?} of {peer}: {ratio:.2} (aim: at most {aim})");
}
