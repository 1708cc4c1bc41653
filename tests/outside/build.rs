//! Takes the first example out of the pages of `haft`, to be compiled here.

use std::path::Path;
use std::{env, fs};

const PAGES: &str = "../../crates/haft/src/lib.rs";

fn main() {
    println!("cargo::rerun-if-changed={PAGES}");
    let pages = fs::read_to_string(PAGES).expect("the crate `haft` is beside this one");
    let lines = pages.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = text.join("\n");
    let mut parts = text.split("```");
    let example = parts.nth(1).expect("the pages of `haft` begin with an example");
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("first.md"), format!("```{example}```\n"))
        .expect("what cargo gave us can be written to");
}
