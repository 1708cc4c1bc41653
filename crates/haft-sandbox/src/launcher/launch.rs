//! The first stage: leaves the host's namespaces and starts init as the first process of its own.

use super::messages::FromInit;
use super::{Doing as _, SANDBOX_USER, SELF, Stage, Step, is_host_root, leave};
use crate::policy::NetworkKind;
use crate::sys;
use crate::wire;
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where init finds the map of owners, when there is one.
pub(super) const OWNERS_FD: i32 = 3;

/// Arguments: the network, then the files in which to enter control groups. For root, the map of owners
/// comes first on the socket.
pub(super) fn run(args: &[OsString]) -> ! {
    let socket = UnixStream::from(sys::inherited(0));
    match launch(args, &socket) {
        Ok(code) => leave(code),
        Err(why) => {
            // The caller sees a socket that closed if even this cannot be said.
            wire::send(&socket, &FromInit::Failed(why), &[]).ok();
            leave(1)
        }
    }
}

fn launch(args: &[OsString], socket: &UnixStream) -> Step<i32> {
    sys::close_from(3).doing("close inherited files")?;
    let (network, groups) = args.split_first().ok_or("no network was named")?;
    for group in groups {
        // Before anything is started, so that nothing escapes the limits.
        std::fs::write(group, "0").doing("enter a control group")?;
    }
    let mut namespaces =
        UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    if network != NetworkKind::Host.word() {
        namespaces |= UnshareFlags::NEWNET;
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let owners = if is_host_root() {
        let received = wire::receive::<u64>(socket).doing("hear whom the roots belong to")?;
        let owners = received
            .and_then(|(_, mut files)| files.pop())
            .ok_or("whom the roots belong to was not told")?;
        sys::unshare(namespaces).doing("leave the host's namespaces")?;
        Some(owners)
    } else {
        sys::unshare(namespaces | UnshareFlags::NEWUSER).doing(
            "make a user namespace (is user.max_user_namespaces 0, or are they restricted?)",
        )?;
        // Root inside, and only until init has built the tree: another user's rights end with `exec`.
        map_self((0, user), (0, group))?;
        None
    };
    // Commands are nobody's root, not even of a user namespace.
    let inside = if user == 0 { (SANDBOX_USER, SANDBOX_USER) } else { (user, group) };
    let status = init(socket, inside, owners)?.status().doing("start the sandbox's init")?;
    Ok(status.code().unwrap_or(1))
}

/// Who one is inside a new user namespace, and who that is outside; nobody else is known there.
pub(super) fn map_self(
    (user, outer_user): (u32, u32),
    (group, outer_group): (u32, u32),
) -> Step<()> {
    let write =
        |file: &str, content: String| std::fs::write(Path::new("/proc/self").join(file), content);
    write("setgroups", "deny".to_owned()).doing("give up changing groups")?;
    write("uid_map", format!("{user} {outer_user} 1")).doing("map the user")?;
    write("gid_map", format!("{group} {outer_group} 1")).doing("map the group")
}

fn init(socket: &UnixStream, (user, group): (u32, u32), owners: Option<OwnedFd>) -> Step<Command> {
    let mut command = Stage::Init.command(Path::new(SELF));
    command.arg(user.to_string()).arg(group.to_string());
    command.stdin(Stdio::from(socket.as_fd().try_clone_to_owned().doing("pass on the socket")?));
    if let Some(owners) = owners {
        command.arg("owners");
        if std::os::fd::AsRawFd::as_raw_fd(&owners) == OWNERS_FD {
            rustix::io::fcntl_setfd(&owners, rustix::io::FdFlags::empty())
                .doing("pass on the owners")?;
            // It must stay open until init has started, which is as long as this process lives.
            std::mem::forget(owners);
        } else {
            sys::duplicate_to(owners, OWNERS_FD).doing("pass on the owners")?;
        }
    }
    Ok(command)
}
