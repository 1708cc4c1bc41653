//! A misspelt option is told from the known ones.

/// Reads.
#[haft::tool(read, timout = "3s")]
fn wrong() {}

fn main() {}
