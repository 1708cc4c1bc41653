//! What the caller and the init of a sandbox say to each other.

use crate::layers::LayerReport;
use crate::policy::{NetworkKind, Requirement};
use crate::wire::Wire;
use std::ffi::OsString;
use std::path::PathBuf;

/// What init needs to build the sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) roots: Vec<RootSpec>,
    pub(crate) private: Vec<PrivateSpec>,
    pub(crate) network: NetworkKind,
    pub(crate) tmp_bytes: u64,
    /// How much memory everything in it may have together.
    pub(crate) memory_bytes: u64,
    /// Why no control group limits that, if none does.
    pub(crate) ungrouped: Option<String>,
    pub(crate) landlock: Requirement,
}

/// A root to be mounted.
#[derive(Clone, Debug)]
pub(crate) struct RootSpec {
    /// Where, inside.
    pub(crate) at: PathBuf,
    /// What, on the host.
    pub(crate) host: PathBuf,
    /// The device and number of the directory that is meant, so that one swapped meanwhile is refused.
    pub(crate) identity: (u64, u64),
    pub(crate) writable: bool,
}

/// A place of the host that nothing inside may show.
#[derive(Clone, Debug)]
pub(crate) struct PrivateSpec {
    pub(crate) host: PathBuf,
    pub(crate) identity: (u64, u64),
    pub(crate) is_directory: bool,
}

/// A command to be started. Its open files come beside it: standard input, output and error, then the
/// files it finds as 3 and up.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) argv: Vec<OsString>,
    pub(crate) cwd: PathBuf,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) limits: [u64; 5],
}

/// Said to init.
#[derive(Debug)]
pub(crate) enum ToInit {
    Run(Run),
    /// A signal for a command's process group.
    Signal(u64, u32),
    /// Kill everything that was started within so many milliseconds, but for the command with this
    /// id.
    KillYounger(u64, u64),
}

/// The signal by which a command ended that was killed because the sandbox had used up its memory.
pub(crate) const OUT_OF_MEMORY: u32 = u32::MAX;

/// Said by init. Where the network is a gateway, its listening socket comes beside `Ready`.
#[derive(Debug)]
pub(crate) enum FromInit {
    Ready(Vec<LayerReport>),
    /// The sandbox cannot be built.
    Failed(String),
    Started(u64),
    /// The command could not be started.
    Refused(u64, String),
    /// It ended with a code, or by a signal.
    Ended(u64, Option<u32>, Option<u32>),
}

impl Wire for bool {
    fn put(&self, frame: &mut Vec<u8>) {
        u64::from(*self).put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        match u64::take(frame)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for Setup {
    fn put(&self, frame: &mut Vec<u8>) {
        self.roots.put(frame);
        self.private.put(frame);
        self.network.word().to_owned().put(frame);
        self.tmp_bytes.put(frame);
        self.memory_bytes.put(frame);
        self.ungrouped.put(frame);
        (self.landlock == Requirement::Required).put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Some(Self {
            roots: Vec::take(frame)?,
            private: Vec::take(frame)?,
            network: NetworkKind::of_word(&String::take(frame)?)?,
            tmp_bytes: u64::take(frame)?,
            memory_bytes: u64::take(frame)?,
            ungrouped: Wire::take(frame)?,
            landlock: if bool::take(frame)? {
                Requirement::Required
            } else {
                Requirement::WherePresent
            },
        })
    }
}

impl Wire for RootSpec {
    fn put(&self, frame: &mut Vec<u8>) {
        self.at.put(frame);
        self.host.put(frame);
        self.identity.put(frame);
        self.writable.put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Some(Self {
            at: PathBuf::take(frame)?,
            host: PathBuf::take(frame)?,
            identity: Wire::take(frame)?,
            writable: bool::take(frame)?,
        })
    }
}

impl Wire for PrivateSpec {
    fn put(&self, frame: &mut Vec<u8>) {
        self.host.put(frame);
        self.identity.put(frame);
        self.is_directory.put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Some(Self {
            host: PathBuf::take(frame)?,
            identity: Wire::take(frame)?,
            is_directory: bool::take(frame)?,
        })
    }
}

impl Wire for Run {
    fn put(&self, frame: &mut Vec<u8>) {
        self.id.put(frame);
        self.argv.put(frame);
        self.cwd.put(frame);
        self.env.put(frame);
        self.limits.to_vec().put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        Some(Self {
            id: u64::take(frame)?,
            argv: Vec::take(frame)?,
            cwd: PathBuf::take(frame)?,
            env: Vec::take(frame)?,
            limits: Vec::take(frame)?.try_into().ok()?,
        })
    }
}

impl Wire for ToInit {
    fn put(&self, frame: &mut Vec<u8>) {
        match self {
            Self::Run(run) => {
                0_u64.put(frame);
                run.put(frame);
            }
            Self::Signal(id, signal) => {
                1_u64.put(frame);
                (*id, *signal).put(frame);
            }
            Self::KillYounger(id, ms) => {
                2_u64.put(frame);
                (*id, *ms).put(frame);
            }
        }
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        match u64::take(frame)? {
            0 => Run::take(frame).map(Self::Run),
            1 => Some(Self::Signal(u64::take(frame)?, u32::take(frame)?)),
            2 => Some(Self::KillYounger(u64::take(frame)?, u64::take(frame)?)),
            _ => None,
        }
    }
}

impl Wire for FromInit {
    fn put(&self, frame: &mut Vec<u8>) {
        match self {
            Self::Ready(layers) => {
                0_u64.put(frame);
                layers.put(frame);
            }
            Self::Failed(why) => (1_u64, why.clone()).put(frame),
            Self::Started(id) => (2_u64, *id).put(frame),
            Self::Refused(id, why) => {
                3_u64.put(frame);
                (*id, why.clone()).put(frame);
            }
            Self::Ended(id, code, signal) => {
                4_u64.put(frame);
                (*id, (*code, *signal)).put(frame);
            }
        }
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        match u64::take(frame)? {
            0 => Vec::take(frame).map(Self::Ready),
            1 => String::take(frame).map(Self::Failed),
            2 => u64::take(frame).map(Self::Started),
            3 => Some(Self::Refused(u64::take(frame)?, String::take(frame)?)),
            4 => Some(Self::Ended(u64::take(frame)?, Wire::take(frame)?, Wire::take(frame)?)),
            _ => None,
        }
    }
}
