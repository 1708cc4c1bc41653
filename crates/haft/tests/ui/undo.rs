//! An undo says which tool, for how long, and where its arguments come from.

/// Writes.
#[haft::tool(write, undo(window = "1m"))]
fn no_tool() {}

/// Writes.
#[haft::tool(write, undo(tool = "other"))]
fn no_window() {}

/// Writes.
#[haft::tool(write, undo(tool = "Other", window = "1m"))]
fn bad_name() {}

/// Writes.
#[haft::tool(write, undo(tool = "other", window = "1m", args(id = result("id"))))]
fn bad_pointer() {}

/// Writes.
#[haft::tool(write, undo(tool = "other", window = "1m", args(id = guess("/id"))))]
fn bad_source() {}

fn main() {}
