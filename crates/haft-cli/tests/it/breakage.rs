//! Disks and databases that tests break: full, failing to sync, not writing.

#![expect(clippy::disallowed_methods, reason = "runs what breaks a disk or a database")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::serving::Serving;

/// A file system of its own in memory, taken away with the test.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    pub(crate) fn mount(megabytes: u32) -> Option<Self> {
        let disk = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(disk.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(disk))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes until nothing more fits.
    pub(crate) fn fill(&self) {
        use std::io::Write as _;
        let mut filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        for len in [1 << 16, 1 << 12, 1] {
            while filler.write_all(&vec![0; len]).is_ok() {}
        }
    }

    /// Gives the room back.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

/// Makes every sync of a process fail until it is dropped.
pub(crate) struct FailingSyncs(Child);

impl FailingSyncs {
    pub(crate) fn of(server: &Serving) -> Option<Self> {
        let strace = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "strace", "-f", "-qq", "-o", "/dev/null"])
            .args(["-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO"])
            .args(["-p", &server.process.id().to_string()])
            .stderr(Stdio::null())
            .spawn();
        strace.ok().map(Self)
    }
}

impl Drop for FailingSyncs {
    fn drop(&mut self) {
        // It ends with the process that it traces.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Changes a setting of a database, which need not take writes for that.
pub(crate) fn psql(cluster: &Cluster, sql: &str) {
    let output = Command::new("psql")
        .arg(cluster.url())
        .args(["-qc", "SET default_transaction_read_only = off", "-c", sql])
        .args(["-c", "SELECT pg_reload_conf()"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
