//! What is returned must be something to read.

struct Opaque;

/// Reads.
#[haft::tool(read)]
fn wrong() -> Opaque {
    Opaque
}

fn main() {
    drop(wrong::tool());
}
