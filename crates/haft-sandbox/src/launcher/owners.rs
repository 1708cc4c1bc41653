//! The map by which files of the roots' owner belong to the sandbox's user inside.
//!
//! Only root needs it: commands run as a user without rights, and would find the roots belonging to
//! another. The kernel takes the map from a user namespace, so a process is started for as long as it
//! takes to make one.

use super::{Doing as _, NO_LAUNCHER, SANDBOX_USER, Stage, Step, leave};
use crate::sys;
use rustix::thread::UnshareFlags;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};

/// Makes a user namespace, says so, and waits to be no longer needed.
pub(super) fn run() -> ! {
    let made = sys::unshare(UnshareFlags::NEWUSER).is_ok();
    let said =
        std::io::stdout().write_all(&[u8::from(made)]).and_then(|()| std::io::stdout().flush());
    let waited = said.and_then(|()| std::io::stdin().read(&mut [0]));
    leave(i32::from(waited.is_err()))
}

/// A user namespace in which a user and group have changed places with the sandbox's.
pub(super) fn map(program: &Path, (user, group): (u32, u32)) -> Step<OwnedFd> {
    let mut holder = Stage::Owners
        .command(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .doing("start the owner of a user namespace")?;
    let mapped = map_for(&mut holder, user, group);
    holder
        .kill()
        .and_then(|()| holder.wait().map(drop))
        .doing("end the owner of a user namespace")?;
    mapped
}

fn map_for(holder: &mut Child, user: u32, group: u32) -> Step<OwnedFd> {
    let mut said = [0];
    let mut stdout = holder.stdout.take().ok_or("the owner of a user namespace has no output")?;
    stdout.read_exact(&mut said).map_err(|_| NO_LAUNCHER.to_owned())?;
    if said != [1] {
        return Err("could not make a user namespace (is user.max_user_namespaces 0?)".to_owned());
    }
    let directory = Path::new("/proc").join(holder.id().to_string());
    std::fs::write(directory.join("uid_map"), exchanged(user)).doing("map the owners of files")?;
    std::fs::write(directory.join("gid_map"), exchanged(group)).doing("map the groups of files")?;
    std::fs::File::open(directory.join("ns/user")).map(OwnedFd::from).doing("open a user namespace")
}

/// Every id stands for itself, but that the owner and the sandbox's user have changed places.
fn exchanged(owner: u32) -> String {
    let (low, high) = (owner.min(SANDBOX_USER), owner.max(SANDBOX_USER));
    let mut lines = vec![(0, 0, low), (low, high, 1)];
    if low != high {
        lines.push((low + 1, low + 1, high - low - 1));
        lines.push((high, low, 1));
    }
    lines.push((high + 1, high + 1, u32::MAX - high - 1));
    let line = |(inside, outside, count): &(u32, u32, u32)| format!("{inside} {outside} {count}\n");
    lines.iter().filter(|(_, _, count)| *count > 0).map(line).collect()
}
