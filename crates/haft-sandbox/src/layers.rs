//! The layers of confinement, and whether each holds here.

use crate::wire::Wire;
use std::fmt;

/// A layer of confinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layer {
    /// An own user without rights on the host, in an own user namespace.
    User,
    /// Only what is mounted is there.
    Mounts,
    /// Only its own processes are seen, and all end with it.
    Processes,
    /// No network.
    Network,
    /// No shared memory or message queues of the host.
    Ipc,
    /// No capabilities, and no way to gain any.
    Privileges,
    /// System calls that lead out are refused.
    SystemCalls,
    /// Landlock: a second opinion on every file, TCP port and signal.
    Landlock,
    /// Limits on time, memory, processes and files of each process.
    Limits,
    /// A limit on the memory of all processes together.
    TotalMemory,
}

/// Whether a layer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Enforced,
    /// It does in part.
    Partly {
        /// What is missing, and why.
        lacking: String,
    },
    /// It does not.
    Absent {
        /// Why.
        reason: String,
    },
}

/// One layer's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    /// The layer.
    pub layer: Layer,
    /// Whether it holds.
    pub standing: Standing,
}

const ALL: [Layer; 10] = [
    Layer::User,
    Layer::Mounts,
    Layer::Processes,
    Layer::Network,
    Layer::Ipc,
    Layer::Privileges,
    Layer::SystemCalls,
    Layer::Landlock,
    Layer::Limits,
    Layer::TotalMemory,
];

impl Wire for LayerReport {
    fn put(&self, frame: &mut Vec<u8>) {
        let number = ALL.iter().position(|layer| *layer == self.layer).unwrap_or(ALL.len());
        (number as u64).put(frame);
        let (standing, why): (u64, _) = match &self.standing {
            Standing::Enforced => (0, String::new()),
            Standing::Partly { lacking } => (1, lacking.clone()),
            Standing::Absent { reason } => (2, reason.clone()),
        };
        (standing, why).put(frame);
    }

    fn take(frame: &mut &[u8]) -> Option<Self> {
        let layer = *ALL.get(usize::try_from(u64::take(frame)?).ok()?)?;
        let standing = match <(u64, String)>::take(frame)? {
            (0, _) => Standing::Enforced,
            (1, lacking) => Standing::Partly { lacking },
            (2, reason) => Standing::Absent { reason },
            _ => return None,
        };
        Some(Self { layer, standing })
    }
}

impl fmt::Display for LayerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.layer {
            Layer::User => "user",
            Layer::Mounts => "mounts",
            Layer::Processes => "processes",
            Layer::Network => "network",
            Layer::Ipc => "ipc",
            Layer::Privileges => "privileges",
            Layer::SystemCalls => "system calls",
            Layer::Landlock => "landlock",
            Layer::Limits => "limits",
            Layer::TotalMemory => "total memory",
        };
        match &self.standing {
            Standing::Enforced => write!(f, "{name}: enforced"),
            Standing::Partly { lacking } => write!(f, "{name}: enforced in part: {lacking}"),
            Standing::Absent { reason } => write!(f, "{name}: not enforced: {reason}"),
        }
    }
}
