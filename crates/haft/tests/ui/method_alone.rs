//! A method needs `#[tools]` on its block.

struct Desk;

impl Desk {
    /// Reads.
    #[haft::tool(read)]
    fn look(&self) {}
}

fn main() {}
