//! The first word is one of four.

/// Reads.
#[haft::tool(destroy)]
fn wrong() {}

/// Reads.
#[haft::tool(approve, write)]
fn late() {}

fn main() {}
