//! Parameters have a name, and options of their own; every mistake is shown.

/// Reads.
#[haft::tool(read)]
fn many(
    (_a, _b): (u8, u8),
    #[tool(optional)] _c: u8,
    #[serde(default)] _d: u8,
    _e: impl Into<u8>,
) {
}

fn main() {}
