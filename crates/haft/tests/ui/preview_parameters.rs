//! A hook takes what its function takes.

use haft::{Preview, ToolError};

/// Writes.
#[haft::tool(write, preview = shown)]
async fn wrong(_n: u8, _name: String) {}

async fn shown(n: u8) -> Result<Preview, ToolError> {
    Err(ToolError::new(n.to_string()))
}

fn main() {
    drop(wrong::tool());
}
