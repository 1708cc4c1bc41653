//! Functions that no model can call.

/// Reads.
#[haft::tool(read)]
unsafe fn dangerous() {}

/// Reads.
#[haft::tool(read)]
extern "C" fn foreign() {}

struct Db;

/// Reads.
#[haft::tool(read)]
fn named<'a>(_db: &'a Db) {}

fn main() {}
