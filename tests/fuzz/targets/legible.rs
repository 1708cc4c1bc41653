//! The text that people decide by: nothing in it is hidden, reordered or stacked.
#![no_main]

use haft_core::legible;
use libfuzzer_sys::fuzz_target;

/// Characters that a reader does not see, or that change how the text around them is read, except
/// the two that are part of pictures.
fn is_hidden(c: char) -> bool {
    matches!(u32::from(c),
        0x00..=0x08 | 0x0b..=0x1f | 0x7f..=0x9f | 0xad | 0x34f | 0x61c | 0x115f..=0x1160
        | 0x17b4..=0x17b5 | 0x180e | 0x200b..=0x200c | 0x200e..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0e | 0xfeff | 0xffa0 | 0xe0000..=0xe0fff)
}

fuzz_target!(|text: &str| {
    let shown = legible(text);
    if let Some(c) = shown.chars().find(|c| is_hidden(*c)) {
        panic!("U+{:04X} is shown as it is in {shown:?}", u32::from(c));
    }
    assert!(!shown.contains(&" ".repeat(41)), "a long run of spaces is counted");
    let plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.contains("  ");
    assert!(!plain || shown == text, "what is plain stays as it is");
});
