//! The context is lent.

use haft::ToolContext;

/// Reads.
#[haft::tool(read)]
fn by_value(_cx: ToolContext) {}

/// Reads.
#[haft::tool(read)]
fn optional(_cx: Option<&ToolContext>) {}

fn main() {}
