//! Words come from a list.

/// Writes.
#[haft::tool(write, approve = sometimes)]
fn gate() {}

/// Writes.
#[haft::tool(write, consequence = huge)]
fn consequence() {}

/// Writes.
#[haft::tool(write, reach(moon))]
fn reach() {}

/// Writes.
#[haft::tool(write, key, retry(3, on(denied)))]
fn retry() {}

fn main() {}
