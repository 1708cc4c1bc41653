//! Empty mounts over what is private to the program that opened the sandbox.
//!
//! What a sandbox shows may hold a private place under another path than the host's: through a bind
//! mount, or below the system's directories. So the places are looked for by the file system they
//! lie on and their path in it, among all mounts of the new tree.

use super::messages::{PrivateSpec, Setup};
use super::tree::{HOST, NEW, bind_over, mount_tmpfs, place_of};
use super::{Doing as _, Step};
use crate::sys::{self, Harden};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// What a private file shows instead: nothing. Outside of the tree that commands see.
const EMPTY: &str = "/empty";

/// A mount, as the kernel lists it.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// The file system's device.
    device: String,
    /// The directory of the file system that is mounted.
    root: PathBuf,
    at: PathBuf,
}

/// Covers every private place that the new tree shows.
pub(super) fn private(setup: &Setup) -> Step<()> {
    if setup.private.is_empty() {
        return Ok(());
    }
    fs::write(EMPTY, "").doing("make an empty file")?;
    let listed = fs::read(format!("{NEW}/proc/self/mountinfo")).doing("list the mounts")?;
    let mounts = mounts(&listed)?;
    let roots: Step<Vec<PathBuf>> = setup.roots.iter().map(place_of).collect();
    let roots = roots?;
    for place in &setup.private {
        let host = Path::new(HOST).join(place.host.strip_prefix("/").unwrap_or(&place.host));
        let Some((device, inner)) = lies_at(&host, &mounts)? else { continue };
        for mount in mounts.iter().filter(|mount| mount.at.starts_with(NEW)) {
            if mount.device != device {
                continue;
            }
            match inner.strip_prefix(&mount.root) {
                Ok(below) => cover(place, &mount.at, below)?,
                // A root that was opened there is lent; anything else was bound there by the host.
                Err(_) if mount.root.starts_with(&inner) && !roots.contains(&mount.at) => {
                    return Err(unmaskable(place, &mount.at));
                }
                Err(_) => {}
            }
        }
    }
    Ok(())
}

fn unmaskable(place: &PrivateSpec, at: &Path) -> String {
    let at = at.strip_prefix(NEW).unwrap_or(at);
    format!(
        "could not hide part of {}, which is mounted at /{}: unmount it, or keep the data elsewhere",
        place.host.display(),
        at.display()
    )
}

/// The file system that a path of the host lies on, and where in it; `None` where there is nothing.
/// What is there and cannot be placed might be shown, so there is no sandbox without an answer.
fn lies_at(host: &Path, mounts: &[Mount]) -> Step<Option<(String, PathBuf)>> {
    let placing = format!("find where {} lies, to hide it", host.display());
    let found = match rustix::fs::statx(CWD, host, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID) {
        Err(Errno::NOENT) => return Ok(None),
        answer => answer.doing(&placing)?,
    };
    let mount = mounts.iter().find(|mount| mount.id == found.stx_mnt_id);
    let mount = mount.ok_or_else(|| format!("could not {placing}: its mount is not listed"))?;
    let below = host.strip_prefix(&mount.at).doing(&placing)?;
    Ok(Some((mount.device.clone(), mount.root.join(below))))
}

/// Mounts something empty over a place, if that is what is seen there, and pins the directories on
/// the way, so that none of them can be renamed and another be made in its stead.
fn cover(place: &PrivateSpec, mounted: &Path, below: &Path) -> Step<()> {
    let at = mounted.join(below);
    let Ok(found) = rustix::fs::statat(CWD, &at, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    if (found.st_dev, found.st_ino) != place.identity {
        // Something else is mounted over it.
        return Ok(());
    }
    let mut way: Vec<&Path> = below.ancestors().skip(1).collect();
    way.reverse();
    for directory in way.into_iter().filter(|directory| !directory.as_os_str().is_empty()) {
        bind_over(&mounted.join(directory), Harden::NoPrivileges)?;
    }
    let at = at.to_str().ok_or("the path of the data is not UTF-8")?;
    let hiding = format!("hide {}", place.host.display());
    if place.is_directory {
        mount_tmpfs(at, "size=4k,nr_inodes=1,mode=0555")?;
    } else {
        rustix::mount::mount_bind(EMPTY, at).doing(&hiding)?;
    }
    sys::harden(at, Harden::ReadOnly).doing(&hiding)
}

/// Reads the kernel's list of mounts: `id parent major:minor root mount-point …`.
fn mounts(listed: &[u8]) -> Step<Vec<Mount>> {
    let lines = listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let device = String::from_utf8(fields.nth(1)?.to_vec()).ok()?;
        let (root, at) = (unescaped(fields.next()?), unescaped(fields.next()?));
        Some(Mount { id, device, root, at })
    };
    let read: Option<Vec<Mount>> = lines.map(read).collect();
    read.ok_or_else(|| "the kernel's list of mounts cannot be read".to_owned())
}

/// Blanks and backslashes stand as three octal digits behind a backslash.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let code = (*first == b'\\').then(|| more.get(..3)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = more.get(3..).unwrap_or_default();
            }
            None => {
                path.push(*first);
                rest = more;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_there_and_has_no_listed_mount_is_an_error() {
        assert!(lies_at(Path::new("/proc/self/status"), &[]).is_err());
        assert_eq!(lies_at(Path::new("/proc/self/nothing"), &[]).unwrap(), None);
        // Neither there nor missing: the way to it leads through a file.
        assert!(lies_at(Path::new("/proc/self/status/x"), &[]).is_err());
    }

    #[test]
    fn the_kernels_list_of_mounts_is_read_with_its_escapes() {
        let listed =
            b"36 35 98:0 /mnt1 /mnt\\0402/a\\134b rw,noatime master:1 - ext3 /dev/root rw\n";
        let expected = Mount {
            id: 36,
            device: "98:0".to_owned(),
            root: PathBuf::from("/mnt1"),
            at: PathBuf::from("/mnt 2/a\\b"),
        };
        assert_eq!(mounts(listed).unwrap(), [expected]);
        assert!(mounts(b"36 35\n").is_err());
    }
}
