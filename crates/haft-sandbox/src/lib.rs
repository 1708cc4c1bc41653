//! Runs a process or a file operation inside limits that the kernel keeps.
//!
//! Knows nothing of agents, sessions or permission: whoever calls it has decided that something may be done.

pub mod edit;
pub mod files;
pub mod mounts;
pub mod search;
pub mod virtual_path;
