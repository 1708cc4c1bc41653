//! The few system calls that no crate wraps, and nothing else: the only unsafe code of Haft.

#![expect(unsafe_code, reason = "system calls without a safe wrapper; each says why it is sound")]

use rustix::io::Errno;
use rustix::thread::UnshareFlags;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};

/// Leaves the namespaces that are named for new ones.
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: unsound only with `FILES` in a process with threads; that flag is not among ours.
    unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }
}

/// Raises the loopback interface of this network namespace.
pub(crate) fn raise_loopback() -> Result<(), Errno> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0));
    let socket = socket.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is a whole `ifreq` of ours, which the kernel only reads.
    let answer = unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, std::ptr::from_ref(&request))
    };
    check(i64::from(answer))
}

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
const AT_RECURSIVE: i32 = 0x8000;

/// The kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// What a mount, and all below it, shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harden {
    /// No set-user-id programs, no devices.
    NoPrivileges,
    /// And nothing changed.
    ReadOnly,
}

/// Restricts a tree of mounts.
pub(crate) fn harden(path: &str, how: Harden) -> Result<(), Errno> {
    let mut set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if how == Harden::ReadOnly {
        set |= MOUNT_ATTR_RDONLY;
    }
    let attr = MountAttr { set, ..MountAttr::default() };
    let Ok(path) = std::ffi::CString::new(path) else { return Err(Errno::INVAL) };
    mount_setattr(libc::AT_FDCWD, &path, AT_RECURSIVE, &attr)
}

/// Shows the owners of a detached mount through the map of a user namespace.
pub(crate) fn map_owners(
    mount: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
) -> Result<(), Errno> {
    let attr = MountAttr {
        set: MOUNT_ATTR_IDMAP,
        user_namespace: u64::try_from(user_namespace.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..MountAttr::default()
    };
    mount_setattr(mount.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &attr)
}

fn mount_setattr(
    at: RawFd,
    path: &std::ffi::CStr,
    flags: i32,
    attr: &MountAttr,
) -> Result<(), Errno> {
    let size = size_of::<MountAttr>();
    // SAFETY: the path ends in NUL and the structure has the size given; the kernel keeps neither.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size,
        )
    };
    check(answer)
}

/// Closes every descriptor from `first` on.
///
/// Only for a process that has just started and holds nothing there that it will use.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: called before anything in this process owns a descriptor in that range.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) })
}

/// Lets another number stand for the same open file, kept across `exec`. What had that number is closed.
///
/// Only for a process that is about to `exec`, so that nothing in it still owns the number.
pub(crate) fn duplicate_to(from: impl AsFd, number: RawFd) -> Result<(), Errno> {
    // SAFETY: nothing of this process uses the number again before it is replaced by another program.
    check(i64::from(unsafe { libc::dup2(from.as_fd().as_raw_fd(), number) }))
}

/// Takes a descriptor that was left open for this process by the one that started it.
pub(crate) fn inherited(number: RawFd) -> std::os::fd::OwnedFd {
    // SAFETY: the parent left it open under this number for us alone, and each is taken once.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(number) }
}

/// Forgets every signal that is blocked, and has each do what it does by default.
pub(crate) fn reset_signals() {
    // SAFETY: plain calls on a zeroed set of our own; there are no handlers of ours that could be lost.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        for signal in 1..=31 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

fn check(answer: i64) -> Result<(), Errno> {
    if answer < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
