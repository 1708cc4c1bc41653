//! The tree of files that a sandbox sees, built from nothing.

use super::init::Caller;
use super::messages::{RootSpec, Setup};
use super::{Doing as _, SANDBOX_USER, Step, hide};
use crate::git::KEPT;
use crate::policy::NetworkKind;
use crate::sys::{self, Harden};
use rustix::fs::{CWD, Mode};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Directories of programs and libraries, shown as they are, read-only.
const SYSTEM: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What programs need of the host's settings.
const SETTINGS: &[&str] = &["etc/alternatives", "etc/ld.so.cache", "etc/localtime"];
/// What they need besides to know whom to trust over a network.
const TRUST_SETTINGS: &[&str] = &["etc/ssl", "etc/pki/tls", "etc/pki/ca-trust"];
/// What they need besides to find names themselves.
const RESOLVER_SETTINGS: &[&str] = &["etc/resolv.conf"];
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

pub(super) const HOST: &str = "/host";
pub(super) const NEW: &str = "/new";

/// Builds the tree and makes it the root. Done by the first process of the new namespaces.
pub(super) fn build(setup: &Setup, caller: &Caller) -> Step<()> {
    // Commands run as another user than the one who makes these directories, and must get through
    // them; what commands make themselves is as open as the caller wants it.
    let wanted = rustix::process::umask(Mode::from_raw_mode(0o022));
    let built = assemble(setup, caller);
    rustix::process::umask(wanted);
    built
}

fn assemble(setup: &Setup, caller: &Caller) -> Step<()> {
    step_aside()?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount_tmpfs(NEW, "size=1m,nr_inodes=4096,mode=0755")?;
    system()?;
    settings(setup.network, caller.inside())?;
    devices()?;
    make_directory("proc")?;
    let proc_flags = flags | MountFlags::NOEXEC;
    rustix::mount::mount("proc", inside("proc"), "proc", proc_flags, None).doing("mount /proc")?;
    for directory in ["tmp", "dev/shm"] {
        make_directory(directory)?;
        let options = format!("size={},nr_inodes=65536,mode=1777", setup.tmp_bytes);
        mount_tmpfs(&format!("{NEW}/{directory}"), &options)?;
    }
    let mut roots: Vec<_> = setup.roots.iter().collect();
    roots.sort_by_key(|root| root.at.components().count());
    roots.iter().try_for_each(|root| mount_root(root, caller))?;
    hide::private(setup)?;
    let writable = roots.iter().filter(|root| root.writable);
    writable.into_iter().try_for_each(|root| keep(&place_of(root)?))?;
    enter()
}

/// Moves the host's tree to `/host`, with an empty file system above it.
fn step_aside() -> Step<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).doing("keep mounts to itself")?;
    mount_tmpfs("/tmp", "size=1m,mode=0755")?;
    for directory in ["/tmp/host", "/tmp/new"] {
        fs::create_dir(directory).doing("make a directory")?;
    }
    rustix::process::pivot_root("/tmp", "/tmp/host").doing("step out of the host's tree")?;
    rustix::process::chdir("/").doing("step out of the host's tree")
}

/// Leaves the host's tree behind for good.
fn enter() -> Step<()> {
    rustix::mount::unmount(HOST, UnmountFlags::DETACH).doing("leave the host's tree")?;
    rustix::process::chdir(NEW).doing("enter the new tree")?;
    rustix::process::pivot_root(".", ".").doing("enter the new tree")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).doing("leave the scaffold")?;
    rustix::process::chdir("/").doing("enter the new tree")?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount_remount("/", flags, "").doing("make the new tree read-only")
}

fn system() -> Step<()> {
    for name in SYSTEM {
        let host = Path::new(HOST).join(name);
        match fs::symlink_metadata(&host) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&host).doing("read a link of the system")?;
                symlink(target, inside(name)).doing("make a link of the system")?;
            }
            Ok(found) if found.is_dir() => {
                make_directory(name)?;
                bind(name, name)?;
                harden(name, Harden::ReadOnly)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn settings(network: NetworkKind, (user, group): (u32, u32)) -> Step<()> {
    make_directory("etc")?;
    let (trust, resolver) = match network {
        NetworkKind::Off => (&[][..], &[][..]),
        NetworkKind::Gateway => (TRUST_SETTINGS, &[][..]),
        NetworkKind::Host => (TRUST_SETTINGS, RESOLVER_SETTINGS),
    };
    for name in SETTINGS.iter().chain(trust).chain(resolver) {
        let host = Path::new(HOST).join(name);
        match fs::metadata(&host) {
            Ok(found) if found.is_dir() => make_directory(name)?,
            Ok(_) => make_file(name, "")?,
            Err(_) => continue,
        }
        bind(name, name)?;
        harden(name, Harden::ReadOnly)?;
    }
    make_file("etc/passwd", &format!("sandbox:x:{user}:{group}::/tmp:/bin/sh\n"))?;
    make_file("etc/group", &format!("sandbox:x:{group}:\n"))?;
    make_file("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
    make_file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
}

fn devices() -> Step<()> {
    make_directory("dev")?;
    for name in DEVICES {
        let device = format!("dev/{name}");
        make_file(&device, "")?;
        bind(&device, &device)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, inside(&format!("dev/{name}"))).doing("make a link in /dev")?;
    }
    Ok(())
}

/// Mounts a root, after a look that it is the directory that was meant.
fn mount_root(root: &RootSpec, caller: &Caller) -> Step<()> {
    let shown = root.at.display();
    let place = place_of(root)?;
    make_place(&place).doing(&format!("make the mount point {shown}"))?;
    let host = Path::new(HOST).join(root.host.strip_prefix("/").unwrap_or(&root.host));
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree =
        rustix::mount::open_tree(CWD, &host, flags).doing(&format!("open the root {shown}"))?;
    let found = rustix::fs::fstat(&tree).doing(&format!("look at the root {shown}"))?;
    if (found.st_dev, found.st_ino) != root.identity {
        return Err(format!(
            "the directory for {shown} was exchanged while the sandbox was opened"
        ));
    }
    if let Caller::Root { owners } = caller
        && found.st_uid != SANDBOX_USER
    {
        let lacking = "let the sandbox's user own the root: its file system has no id-mapped mounts; run as an ordinary user, or put it on ext4, xfs, btrfs or tmpfs";
        sys::map_owners(tree.as_fd(), owners.as_fd()).doing(&format!("{lacking} ({shown})"))?;
    }
    rustix::mount::move_mount(&tree, "", CWD, &place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .doing(&format!("mount {shown}"))?;
    let how = if root.writable { Harden::NoPrivileges } else { Harden::ReadOnly };
    let place = place.to_str().ok_or("a mount point is not UTF-8")?;
    sys::harden(place, how).doing(&format!("restrict {shown}"))
}

/// Where a root is mounted while the tree is built.
pub(super) fn place_of(root: &RootSpec) -> Step<PathBuf> {
    Ok(Path::new(NEW).join(root.at.strip_prefix("/").doing("place a root")?))
}

fn make_place(place: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(place).is_ok_and(|found| found.is_dir()) {
        Ok(())
    } else {
        fs::create_dir_all(place)
    }
}

/// Makes what the host's git runs read-only, and pins it so that it cannot be renamed away.
fn keep(root: &Path) -> Step<()> {
    let directory = root.join(".git");
    match fs::symlink_metadata(&directory) {
        Ok(found) if found.is_dir() => bind_over(&directory, Harden::NoPrivileges)?,
        Ok(found) if found.is_file() => return bind_over(&directory, Harden::ReadOnly),
        _ => return Ok(()),
    }
    for name in KEPT {
        let path = root.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_symlink()) {
            bind_over(&path, Harden::ReadOnly)?;
        }
    }
    Ok(())
}

/// Makes a file or directory a mount of its own, which cannot be renamed or removed.
pub(super) fn bind_over(path: &Path, how: Harden) -> Step<()> {
    rustix::mount::mount_bind_recursive(path, path).doing("pin a directory")?;
    sys::harden(path.to_str().ok_or("a mount point is not UTF-8")?, how)
        .doing("restrict a directory")
}

fn inside(name: &str) -> PathBuf {
    Path::new(NEW).join(name)
}

fn make_directory(name: &str) -> Step<()> {
    fs::create_dir_all(inside(name)).doing(&format!("make /{name}"))
}

fn make_file(name: &str, content: &str) -> Step<()> {
    let path = inside(name);
    fs::write(&path, content).doing(&format!("make /{name}"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).doing(&format!("make /{name}"))
}

fn bind(host: &str, name: &str) -> Step<()> {
    rustix::mount::mount_bind_recursive(Path::new(HOST).join(host), inside(name))
        .doing(&format!("show /{name}"))
}

fn harden(name: &str, how: Harden) -> Step<()> {
    sys::harden(&format!("{NEW}/{name}"), how).doing(&format!("restrict /{name}"))
}

pub(super) fn mount_tmpfs(at: &str, options: &str) -> Step<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = std::ffi::CString::new(options).doing("write mount options")?;
    rustix::mount::mount("tmpfs", at, "tmpfs", flags, options.as_c_str())
        .doing(&format!("mount an empty {at}"))
}
