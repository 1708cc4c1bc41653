//! The disk below the data directory: room, the kind of file system, and a write that is durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::finding::Finding;

/// Below this much free space the store may stop at any moment.
const FREE_MIN: u64 = 64 << 20;

/// Below this much free space someone should look after it.
const FREE_WARN: u64 = 1 << 30;

/// A durable write that takes longer makes every call slow.
const SLOW: Duration = Duration::from_millis(50);

/// As many writes are made, and the middle one counts.
const N_WRITES: usize = 5;

pub(super) fn examine(data: &Path) -> Vec<Finding> {
    vec![space(data), kind(data), write(data)]
}

fn space(data: &Path) -> Finding {
    let name = "disk.space";
    let found = match rustix::fs::statvfs(data) {
        Ok(found) => found,
        Err(error) => {
            let message = format!("the free space cannot be told: {error}");
            return Finding::warning(name, message, "look at it with `df`");
        }
    };
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let message = format!("{} are free for the data directory", readable(free));
    let fix = "free some space, or move the data directory to a larger disk";
    match free {
        0..FREE_MIN => Finding::problem(name, message, fix),
        FREE_MIN..FREE_WARN => Finding::warning(name, message, fix),
        _ => Finding::ok(name, message),
    }
}

/// What of a file system matters: whether it keeps what it is given, and whether locks hold.
fn kind(data: &Path) -> Finding {
    let name = "disk.file_system";
    let found = rustix::fs::statfs(data).map(|found| found.f_type as u64 & 0xffff_ffff);
    match found {
        Ok(0x0102_1994 | 0x8584_58f6) => Finding::warning(
            name,
            "the data directory is in memory (tmpfs): all is lost when the machine restarts",
            "name a directory on a disk with --data",
        ),
        Ok(0x6969 | 0xff53_4d42 | 0xfe53_4d42 | 0x0102_1997) => Finding::problem(
            name,
            "the data directory is on a network file system, where SQLite's locks do not hold",
            "name a directory on a local disk with --data, or use --database-url",
        ),
        Ok(_) => Finding::ok(name, "the data directory is on a local disk"),
        Err(error) => Finding::warning(
            name,
            format!("the kind of file system cannot be told: {error}"),
            "see that the data directory is on a local disk",
        ),
    }
}

fn write(data: &Path) -> Finding {
    let name = "disk.write";
    let took = match measured(data) {
        Ok(took) => took,
        Err(error) => {
            let message = format!("a write to the data directory failed: {error}");
            let fix = "make the directory writable for this user, and check the disk";
            return Finding::problem(name, message, fix);
        }
    };
    let ms = took.as_secs_f64() * 1000.0;
    let message = format!("a durable write (4 KiB and fsync) takes {ms:.2} ms");
    match took > SLOW {
        true => Finding::warning(name, message, "every call waits for a few: use a faster disk"),
        false => Finding::ok(name, message),
    }
}

/// Writes and syncs a file of its own a few times; returns the middle time.
fn measured(data: &Path) -> io::Result<Duration> {
    let probe = Probe(data.join(format!(".haft-doctor-{}", std::process::id())));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe.0)?;
    let mut times = Vec::new();
    for _ in 0..N_WRITES {
        let started = Instant::now();
        file.write_all(&[0x5a; 4096])?;
        file.sync_all()?;
        times.push(started.elapsed());
    }
    File::open(data)?.sync_all()?;
    times.sort_unstable();
    Ok(times[N_WRITES / 2])
}

/// The file that the disk is tried with, removed whatever comes of it.
struct Probe(PathBuf);

impl Drop for Probe {
    fn drop(&mut self) {
        // It may never have been made.
        drop(fs::remove_file(&self.0));
    }
}

/// A number of bytes as people say it.
pub(super) fn readable(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, shift)| format!("{:.1} {unit}", bytes as f64 / f64::from(1u32 << shift)),
    )
}
