//! What a sandbox allows: its roots, its network, and the limits of what runs in it.

use crate::mounts::Mounts;
use std::any::Any;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
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
    /// How much memory everything in the sandbox may have together, in bytes.
    pub memory_bytes: u64,
    /// How that is enforced.
    pub memory_limit: MemoryLimit,
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
#[derive(Clone, Debug)]
pub enum Network {
    /// None at all.
    Off,
    /// None but a proxy that the caller runs outside, which decides what is reached.
    Gateway(Gateway),
    /// The host's.
    Host,
}

/// The port of the sandbox's own loopback interface at which a gateway is found.
pub const GATEWAY_PORT: u16 = 3128;

/// Serves the proxy of a sandbox. It is given a socket that listens inside the sandbox's network
/// namespace and is held outside of it: the connections that it accepts come from the sandbox, and those
/// that it makes go from the host. Nothing else leads from the one to the other.
#[derive(Clone)]
pub struct Gateway {
    reaches: Arc<str>,
    serve: Arc<Serve>,
}

type Serve = dyn Fn(TcpListener) -> io::Result<Serving> + Send + Sync;

/// A proxy at work, ended by being dropped.
pub type Serving = Box<dyn Any + Send + Sync>;

impl Gateway {
    /// A gateway that begins to serve by a function, once for each sandbox; `reaches` says in words what is
    /// reached through it, such as `the public internet`.
    pub fn new(
        reaches: &str,
        serve: impl Fn(TcpListener) -> io::Result<Serving> + Send + Sync + 'static,
    ) -> Self {
        Self { reaches: reaches.into(), serve: Arc::new(serve) }
    }

    /// What is reached through it, in words.
    pub fn reaches(&self) -> &str {
        &self.reaches
    }

    pub(crate) fn serve(&self, listener: TcpListener) -> io::Result<Serving> {
        (self.serve)(listener)
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("reaches", &self.reaches).finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) const fn kind(&self) -> NetworkKind {
        match self {
            Self::Off => NetworkKind::Off,
            Self::Gateway(_) => NetworkKind::Gateway,
            Self::Host => NetworkKind::Host,
        }
    }
}

/// The network as the stages of a sandbox are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkKind {
    Off,
    Gateway,
    Host,
}

impl NetworkKind {
    const ALL: [Self; 3] = [Self::Off, Self::Gateway, Self::Host];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Gateway => "gateway",
            Self::Host => "host",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// How the memory of a whole sandbox is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// By a control group where one can be had, else by looking.
    Group,
    /// By looking at what its processes have, several times a second. Memory that no process has
    /// mapped would not be seen, so memfds and segments of System V cannot be made.
    Looking,
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
            memory_bytes: Limits::WORK.memory_bytes,
            memory_limit: MemoryLimit::Group,
            landlock: Requirement::Required,
        }
    }

    /// The same, with every root read-only and no network: for looking around.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.writes = Writes::None;
        self.network = Network::Off;
        self.tmp_bytes = 16 << 20;
        self.memory_bytes = Limits::LOOK.memory_bytes;
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
