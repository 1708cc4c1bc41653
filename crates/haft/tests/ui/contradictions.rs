//! Options that cannot go together.

/// Reads.
#[haft::tool(read, key)]
fn keyed_read() {}

/// Writes.
#[haft::tool(write, key, idempotent)]
fn both() {}

/// Reads.
#[haft::tool(read, undo(tool = "other", window = "1m"))]
fn undone_read() {}

/// Reads.
#[haft::tool(read, verify = check)]
fn verified_read() {}

/// Reads.
#[haft::tool(read, not_for("x" => "other"))]
fn no_trigger() {}

/// Reads.
#[haft::tool(read, blocking)]
async fn blocking_future() {}

fn main() {}
