//! An amount is a number.

/// Pays.
#[haft::tool(external, cost(amount = cents, unit = "EUR"))]
fn pay(cents: String) {
    drop(cents);
}

fn main() {}
