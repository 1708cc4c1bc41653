//! Finding files by name and by content, in parallel, in bounded time and memory.
//!
//! Directories are opened beneath their root and links are never followed, so a tree that is being
//! rearranged cannot lead the search out.

mod glob;
mod grep;
mod ignores;
mod queue;
mod walk;

pub use glob::{Glob, Globbed, PatternError};
pub use grep::{Case, Grep, GrepError, Grepped, Hit, HitFile, Query};
pub use walk::{Bounds, Hidden, Ignores, Walked};
