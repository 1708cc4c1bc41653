//! Only functions are tools.

#[haft::tool(read)]
struct Thing;

fn main() {}
