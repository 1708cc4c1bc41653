//! An option that is not in its form is shown in it.

/// Reads.
#[haft::tool(read, timeout)]
fn no_value() {}

/// Reads.
#[haft::tool(read, exclusive = true)]
fn a_value() {}

/// Reads.
#[haft::tool(read, retry = 3)]
fn no_list() {}

/// Reads.
#[haft::tool(read approve)]
fn no_comma() {}

/// Reads.
#[haft::tool(read, tags(billing))]
fn no_text() {}

fn main() {}
