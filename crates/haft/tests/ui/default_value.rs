//! A default is a value of its parameter's type.

/// Reads.
#[haft::tool(read)]
fn wrong(#[tool(default = true)] _n: u8) {}

fn main() {
    drop(wrong::tool());
}
