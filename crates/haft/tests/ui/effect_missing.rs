//! The first word says what a tool does.

/// Reads.
#[haft::tool]
fn plain() {}

/// Reads.
#[haft::tool()]
fn empty() {}

fn main() {}
