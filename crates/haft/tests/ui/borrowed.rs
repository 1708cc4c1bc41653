//! Arguments own what they hold.

use std::borrow::Cow;

/// Reads.
#[haft::tool(read)]
fn text(_name: &str) {}

/// Reads.
#[haft::tool(read)]
fn items(_names: &[String]) {}

/// Reads.
#[haft::tool(read)]
fn inside(_names: Vec<&str>) {}

/// Reads.
#[haft::tool(read)]
fn cow(_name: Cow<'_, str>) {}

fn main() {}
