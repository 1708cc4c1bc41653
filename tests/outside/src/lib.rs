//! The first example on the pages of `haft`, as a documentation test of another crate.
//!
#![doc = include_str!(concat!(env!("OUT_DIR"), "/first.md"))]
