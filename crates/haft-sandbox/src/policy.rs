//! What a sandbox allows: its roots, its network, and the limits of what runs in it.

use crate::mounts::Mounts;
use std::time::Duration;

/// What a sandbox allows.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The roots, seen inside at their own places.
    pub mounts: Mounts,
    /// What becomes of roots that are mounted writable.
    pub writes: Writes,
    /// The network.
    pub network: Network,
    /// How much `/tmp` holds, in bytes.
    pub tmp_bytes: u64,
    /// Whether to do without Landlock, a second opinion on files, where the kernel has none.
    pub landlock: Requirement,
}

/// What becomes of roots that are mounted writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They are.
    AsMounted,
    /// Every root is read-only, by its mount.
    None,
}

/// The network that processes see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// None at all.
    Off,
    /// The host's.
    Host,
}

/// Whether a layer must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Without it nothing runs.
    Required,
    /// It is used where there is one, and reported where there is not.
    WherePresent,
}

impl Policy {
    /// These roots, no network, a small `/tmp`.
    pub fn new(mounts: Mounts) -> Self {
        Self {
            mounts,
            writes: Writes::AsMounted,
            network: Network::Off,
            tmp_bytes: 256 << 20,
            landlock: Requirement::Required,
        }
    }

    /// The same, with every root read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.writes = Writes::None;
        self.tmp_bytes = 16 << 20;
        self
    }
}

/// The limits of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run by the clock.
    pub wall: Duration,
    /// How long it has between being asked to end and being killed.
    pub grace: Duration,
    /// How much processor time each of its processes may use, in whole seconds.
    pub cpu: Duration,
    /// How much memory each of its processes may map, in bytes.
    pub memory_bytes: u64,
    /// How many processes and threads the sandbox may have at once.
    pub processes: u64,
    /// The largest file it may write, in bytes.
    pub file_bytes: u64,
    /// How many files each of its processes may hold open.
    pub open_files: u64,
    /// How much it may say before it is ended, in bytes; `None` lets it say what it likes and keeps what fits.
    pub output_bytes: Option<u64>,
}

impl Limits {
    /// For looking around.
    pub const LOOK: Self = Self {
        wall: Duration::from_secs(10),
        grace: Duration::from_secs(2),
        cpu: Duration::from_secs(5),
        memory_bytes: 512 << 20,
        processes: 32,
        file_bytes: 16 << 20,
        open_files: 256,
        output_bytes: None,
    };

    /// For work.
    pub const WORK: Self = Self {
        wall: Duration::from_secs(120),
        grace: Duration::from_secs(2),
        cpu: Duration::from_secs(60),
        memory_bytes: 2 << 30,
        processes: 128,
        file_bytes: 64 << 20,
        open_files: 1024,
        output_bytes: None,
    };
}
