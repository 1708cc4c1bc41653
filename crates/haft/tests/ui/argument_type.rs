//! The model's arguments need a schema.

#[derive(serde::Deserialize)]
struct Opaque;

/// Reads.
#[haft::tool(read)]
fn wrong(_thing: Opaque) {}

fn main() {
    drop(wrong::tool());
}
