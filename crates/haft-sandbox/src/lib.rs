//! Runs a process or a file operation inside limits that the kernel keeps.
//!
//! Knows nothing of agents, sessions or permission: whoever calls it has decided that something may be done.

pub mod classify;
pub mod edit;
pub mod environment;
pub mod files;
pub mod launcher;
pub mod layers;
pub mod mounts;
pub mod policy;
pub mod private;
pub mod process;
pub mod search;
pub mod shell;
pub mod virtual_path;

mod git;
mod memory_group;
mod sys;
mod waiters;
mod wire;
