//! Durations are read when the tool is compiled.

/// Reads.
#[haft::tool(read, timeout = "soon")]
fn word() {}

/// Reads.
#[haft::tool(read, timeout = "30")]
fn no_unit() {}

/// Reads.
#[haft::tool(read, timeout = 30)]
fn number() {}

/// Reads.
#[haft::tool(read, timeout = "0s")]
fn nothing() {}

/// Reads.
#[haft::tool(read, suspend = "2000d")]
fn too_long() {}

fn main() {}
