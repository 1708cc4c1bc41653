//! A model cannot choose a tool that says nothing.

#[haft::tool(read)]
fn silent() {}

/// # Errors
///
/// Never.
#[haft::tool(read)]
fn for_programmers() {}

fn main() {}
