//! Names and versions are checked when the tool is compiled.

/// Reads.
#[haft::tool(read, name = "Get Weather")]
fn spaced() {}

/// Reads.
#[haft::tool(read)]
#[expect(non_snake_case, reason = "the name is the mistake")]
fn getWeather() {}

/// Reads.
#[haft::tool(read, version = "1.2")]
fn version() {}

/// Reads.
#[haft::tool(read, files(read("data")))]
fn relative() {}

fn main() {}
