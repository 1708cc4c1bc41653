//! The last stage: limits itself and becomes the command.

use super::seccomp::UnmappedMemory;
use super::{Doing as _, Step, landlock, leave, seccomp};
use crate::policy::NetworkKind;
use crate::sys;
use rustix::process::{Resource, Rlimit};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Says that a control group counts the memory of commands.
pub(super) const GROUPED: &str = "grouped";

/// Where a program given by name alone is looked for.
const PROGRAMS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Arguments: the descriptor to complain on, those to pass on, the version of Landlock, the network,
/// `grouped` if a control group counts memory, five limits, the writable roots after their count, the others likewise, then the command.
pub(super) fn run(args: Vec<OsString>) -> ! {
    let mut args = Args(args.into_iter());
    let Ok(complaints) = args.number() else { leave(126) };
    let complaints = Arc::new(sys::inherited(complaints));
    // A stage that dies without a word would be taken for a command that ran.
    let dying = Arc::clone(&complaints);
    std::panic::set_hook(Box::new(move |panic| complain(&dying, &panic.to_string())));
    match become_command(args, &complaints) {
        Ok(never) => match never {},
        Err(why) => complain(&complaints, &why),
    }
}

/// Says why nothing ran, and ends.
fn complain(complaints: &OwnedFd, why: &str) -> ! {
    // Without a word there is only the exit code.
    rustix::io::write(complaints, why.as_bytes()).ok();
    leave(127)
}

fn become_command(mut args: Args, complaints: &OwnedFd) -> Step<std::convert::Infallible> {
    rustix::io::fcntl_setfd(complaints, rustix::io::FdFlags::CLOEXEC)
        .doing("close a file in time")?;
    let extra = args.text()?;
    let version = args.number()?;
    let network = NetworkKind::of_word(&args.text()?).ok_or("there is no such network")?;
    let unmapped = match args.text()?.as_str() {
        GROUPED => UnmappedMemory::Counted,
        _ => UnmappedMemory::Refused,
    };
    let limits = [args.number()?, args.number()?, args.number()?, args.number()?, args.number()?];
    let (writable, readable) = (args.list()?, args.list()?);
    let argv: Vec<_> = args.0.collect();
    let (name, rest) = argv.split_first().ok_or("no command was given")?;
    let program = find(name)?;
    sys::reset_signals();
    rustix::process::setsid().doing("leave the session")?;
    // Before the host runs out of memory it shall take this process.
    std::fs::write("/proc/self/oom_score_adj", "500").ok();
    arrange(&extra)?;
    landlock::restrict(version, network, &writable, &readable)?;
    limit(limits)?;
    seccomp::restrict(network, unmapped)?;
    let error = Command::new(program).arg0(name).args(rest).exec();
    Err(format!("could not start {}: {error}", name.display()))
}

fn find(name: &OsString) -> Step<PathBuf> {
    let path = PathBuf::from(name);
    if path.components().count() > 1 || path.is_absolute() {
        return Ok(path);
    }
    let places = PROGRAMS.iter().map(|place| PathBuf::from(place).join(name));
    places
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| format!("there is no program {}", name.display()))
}

/// Puts the files that are passed on where the command finds them: 3 and up.
fn arrange(numbers: &str) -> Step<()> {
    let given = numbers.split(',').filter(|number| !number.is_empty());
    let given: Result<Vec<i32>, _> = given.map(str::parse).collect();
    let files: Vec<OwnedFd> =
        given.doing("read a number")?.into_iter().map(sys::inherited).collect();
    // First out of the way of each other.
    let aside: Result<Vec<_>, _> =
        files.iter().map(|file| rustix::io::fcntl_dupfd_cloexec(file, 64)).collect();
    let aside = aside.doing("pass on a file")?;
    drop(files);
    for (file, number) in aside.iter().zip(3..) {
        sys::duplicate_to(file, number).doing("pass on a file")?;
    }
    Ok(())
}

fn limit([cpu, memory, processes, file, open]: [u64; 5]) -> Step<()> {
    // At the soft limit of processor time a process is asked to end, at the hard one killed.
    let set = |resource, soft: u64, hard: u64| {
        let current = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(soft.min(current)), maximum: Some(hard.min(current)) };
        rustix::process::setrlimit(resource, limit).doing("set a limit")
    };
    set(Resource::Cpu, cpu, cpu.saturating_add(1))?;
    set(Resource::As, memory, memory)?;
    set(Resource::Nproc, processes, processes)?;
    set(Resource::Fsize, file, file)?;
    set(Resource::Nofile, open, open)?;
    set(Resource::Core, 0, 0)
}

struct Args(std::vec::IntoIter<OsString>);

impl Args {
    fn text(&mut self) -> Step<String> {
        let arg = self.0.next().and_then(|arg| arg.into_string().ok());
        arg.ok_or_else(|| "an argument of the last stage is missing".to_owned())
    }

    fn number<N: std::str::FromStr>(&mut self) -> Step<N> {
        self.text()?.parse().map_err(|_| "an argument of the last stage is no number".to_owned())
    }

    fn list(&mut self) -> Step<Vec<OsString>> {
        let count = self.number()?;
        Ok(self.0.by_ref().take(count).collect())
    }
}
