//! A cost says how much and of what, by arguments that every call has.

/// Pays.
#[haft::tool(external, cost(unit = "EUR"))]
fn no_amount(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = cents))]
fn no_unit(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = euros, unit = "EUR"))]
fn no_such_argument(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = cents, unit = "€"))]
fn bad_unit(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = -5, unit = "EUR"))]
fn bad_amount() {}

/// Pays.
#[haft::tool(external, cost(amount = "5", unit = "EUR"))]
fn amount_in_quotes() {}

/// Pays.
#[haft::tool(external, cost(amount = argument("cents"), unit = "EUR"))]
fn bad_place(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = cents, unit = "EUR"))]
fn may_be_left_out(#[tool(default = 1)] cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = cents, unit = "EUR"))]
fn optional(cents: Option<u32>) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost(amount = cents, unit = "EUR"))]
fn secret(#[tool(secret)] cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, spend, cost(amount = cents, unit = "EUR"))]
fn twice(cents: u32) {
    drop(cents);
}

/// Pays.
#[haft::tool(external, cost = 5)]
fn no_list(cents: u32) {
    drop(cents);
}

fn main() {}
