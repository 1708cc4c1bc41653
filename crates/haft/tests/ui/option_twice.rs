//! An option is given once.

/// Reads.
#[haft::tool(read, timeout = "3s", timeout = "4s")]
fn wrong() {}

fn main() {}
