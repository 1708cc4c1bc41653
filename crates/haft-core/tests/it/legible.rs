//! What the console shows is what the terminal shows: both are held to one file of answers.

use haft_core::legible;
use serde_json::{Value, json};

use crate::golden::assert_golden;

fn hostile_texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "plain text\n\twith a tab",
        "report\u{202e}fdp.sh",
        "a\u{200b}b\u{ad}c\u{2028}d\u{61c}e\u{feff}f",
        "x\u{e0041}\u{e007f}\u{1b}[2J\ry\u{9b}z",
        "a\u{a0}b\u{3000}c\u{fe0f}d",
        "⚠\u{fe0f} done 🧑\u{200d}💻 \u{200d}x",
        "pаypal.com сосо привет мир Ωmega Ω",
        "ｒｍ a∕b a‐b 𝐫𝐦 ① ℹ",
        "a\u{301}\u{301}\u{301}\u{301}\u{301} é",
        "日本語 テスト 한국어 العربية עברית हिन्दी",
        "\u{e000}\u{2800}\u{3164}",
        "1\u{661}2 ²³ ⅷ",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(format!("ls{}; rm -rf ~", " ".repeat(4000)));
    texts.push(format!("ls{}rm", "\t".repeat(41)));
    texts.push(format!("ls{}rm", " \t".repeat(41)));
    texts.push(format!("ls{}rm", "\n \t".repeat(300)));
    texts.push(format!("a\n\n\n{}b\n\n\n\nc", " ".repeat(40)));
    texts
}

#[test]
fn the_console_and_the_terminal_show_hostile_text_alike() {
    // Pairs, because the order of an object's members depends on how `serde_json` was compiled.
    let texts = hostile_texts();
    let answers: Vec<Value> = texts.iter().map(|text| json!([text, legible(text)])).collect();
    let mut found = serde_json::to_string_pretty(&answers).unwrap();
    found.push('\n');
    assert_golden("legible.json", &found);
}

#[test]
fn every_character_that_is_shown_takes_a_place_or_is_a_mark() {
    for code in 0..=0x10_ffff_u32 {
        let Some(c) = char::from_u32(code) else { continue };
        let text = format!("x {c} y");
        let shown = legible(&text);
        let direction = |c: char| matches!(u32::from(c), 0x61c | 0x200e | 0x200f | 0x202a..=0x202e | 0x2066..=0x2069);
        assert!(!shown.chars().any(direction), "U+{code:04X}");
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "U+{code:04X}");
    }
}
