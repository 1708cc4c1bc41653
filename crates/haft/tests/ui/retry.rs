//! Only what may be repeated is tried again.

/// Writes.
#[haft::tool(write, retry(3))]
fn unsafe_to_repeat() {}

/// Reads.
#[haft::tool(read, retry(1))]
fn once() {}

/// Reads.
#[haft::tool(read, retry(backoff = "1s"))]
fn no_number() {}

fn main() {}
