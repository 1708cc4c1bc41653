//! References are services, and services are shared.

struct Db;

/// Reads.
#[haft::tool(read)]
fn exclusive(_db: &mut Db) {}

/// Reads.
#[haft::tool(read)]
fn dynamic(_db: &dyn std::fmt::Debug) {}

/// Reads.
#[haft::tool(read)]
fn documented(
    /// The database
    _db: &Db,
) {
}

/// Reads.
#[haft::tool(read)]
fn defaulted(#[tool(default)] _db: &Db) {}

fn main() {}
