//! A tool named by its path must be one.

/// Writes.
#[haft::tool(write, undo(tool = no_tool, window = "1m"))]
fn wrong() {}

fn no_tool() {}

fn main() {}
